"""The examples in `clients/`: each one runs twice at the same time on one server, and says what to do without a server."""

import contextlib
import pathlib
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor

from harness import CACHE, PYTHON, ROOT, Aconite, clean_environment, ensure, equal
from harness import run as execute

EXAMPLES = ROOT / "clients"
NOWHERE = "http://127.0.0.1:9"


def run(suite):
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="examples-", dir=CACHE / "node")))
        aconite = stack.enter_context(Aconite({"proxies": []}))
        for language, command in commands(folder).items():
            suite.check(f"{language} runs side by side", check_twice, aconite, command)
            suite.check(f"{language} says what to do without a server", check_alone, command)
        suite.check("nothing is left behind", check_clean, aconite)


def commands(folder):
    """How each example is run. Ruby's is not: no machine of the suite has Ruby."""
    # Node looks for packages beside the file.
    shutil.copy(EXAMPLES / "node" / "resilience.test.mjs", folder)
    go = shutil.which("go") or CACHE / "go-toolchain" / "go" / "bin" / "go"
    return {
        "Python": [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLES / "python"],
        "Node": [CACHE / "bin" / "node24", "--test", folder / "resilience.test.mjs"],
        "Go": [go, "-C", EXAMPLES / "go", "test", "-count=1", "./..."],
        "Java": ["java", EXAMPLES / "java" / "ResilienceTest.java"],
    }


def environment(url):
    return clean_environment() | {"ACONITE_URL": url, "GOCACHE": str(CACHE / "go-build"), "PYTHONDONTWRITEBYTECODE": "1"}


def check_twice(aconite, command):
    arguments = [command, environment(f"http://{aconite.address}"), 240]
    with ThreadPoolExecutor(2) as pool:
        for status, output, errors in pool.map(lambda _: execute(*arguments), range(2)):
            equal(status, 0, f"exit status, with {output.decode(errors='replace')[-600:]} {errors[-600:]}")


def check_alone(command):
    status, output, errors = execute(command, environment(NOWHERE), 240)
    ensure(status != 0, "it passed without a server")
    text = output.decode(errors="replace") + errors
    ensure("aconite serve" in text, f"it does not say how to start one: {text[-600:]}")


def check_clean(aconite):
    left = aconite.want(200, "GET", "/v1/proxies")["proxies"]
    equal([proxy["name"] for proxy in left], [], "proxies left behind")
