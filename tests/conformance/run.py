"""Runs the conformance suite: `run.py [FILTER...]`, a filter being a module (`sdk`) or the start of a test's name.

Prints one line for each test (PASS, FAIL with its reason, or SKIP) and exits with 1 when one failed.
"""

import importlib
import signal
import sys
import time

from harness import BINARY, Failure, Suite

MODULES = ["sdk", "quiet", "toxiproxy", "vectors", "defects", "upstream", "environment", "examples"]


def end(number, _):
    """Leaves by way of every open block, so that what the tests started is stopped."""
    sys.exit(128 + number)


def main():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    suite = Suite(sys.argv[1:])
    if not BINARY.exists():
        sys.exit(f"{BINARY} does not exist: build it with `cargo build`")
    for name in MODULES:
        if not suite.wants_module(name):
            continue
        suite.module, started = name, time.monotonic()
        try:
            importlib.import_module(f"suites.{name}").run(suite)
        except Failure as failure:
            suite.fail("set-up", str(failure))
        except Exception as error:  # a module that cannot start its servers has failed as a whole
            suite.fail("set-up", f"{type(error).__name__}: {error}")
        print(f"-- {name}: {time.monotonic() - started:.0f} s", flush=True)
    print(f"-- {suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped", flush=True)
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
