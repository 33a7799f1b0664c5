"""What every module of the conformance suite stands on: the product under test, client programs, servers, results.

Every wait is bounded, every port is chosen by the system, and whatever a test starts is stopped when its block ends.
"""

import contextlib
import http.client
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import tempfile
import threading
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = pathlib.Path(os.environ.get("ACONITE_CONFORMANCE_CACHE", ROOT / ".conformance"))
BINARY = pathlib.Path(os.environ.get("ACONITE_BIN", ROOT / "target" / "debug" / "aconite"))
PYTHON = CACHE / "venv" / "bin" / "python"
STARTUP_SECONDS = 30
# A client loads its libraries before its first answer: seconds of work, many times that on a machine in demand.
START_OF_A_CLIENT = 120

# A preset of the machine must not decide what a client trusts or which proxy it uses.
PRESET_VARIABLES = {
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
    "NODE_USE_ENV_PROXY",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HTTPLIB2_CA_CERTS",
    "AWS_CA_BUNDLE",
    "NIX_SSL_CERT_FILE",
    "JAVA_TOOL_OPTIONS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "grpc_proxy",
    "GODEBUG",
    "ACONITE_TOKEN",
    "RUST_LOG",
}


def clean_environment():
    """The machine's environment without anything that changes trust, proxies or the product."""
    return {name: value for name, value in os.environ.items() if name not in PRESET_VARIABLES}


class Failure(AssertionError):
    """A test's expectation that was not met, with a message that stands by itself."""


def equal(found, wanted, what):
    if found != wanted:
        raise Failure(f"{what}: {shorten(found)} instead of {shorten(wanted)}")


def ensure(condition, message):
    if not condition:
        raise Failure(message)


def shorten(value, limit=400):
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


class Suite:
    """Runs checks, prints one line for each, and counts."""

    def __init__(self, filters):
        self.filters, self.passed, self.failed, self.skipped = filters, 0, 0, 0
        self.module = ""

    def wants_module(self, name):
        return not self.filters or any(each.split("/")[0] == name for each in self.filters)

    def wants(self, name):
        full = f"{self.module}/{name}"
        return not self.filters or any(full.startswith(each) for each in self.filters)

    def check(self, name, run, *arguments):
        """Runs one check under its name; whatever it raises is its failure."""
        if not self.wants(name):
            return
        started = time.monotonic()
        try:
            run(*arguments)
        except Failure as failure:
            self.fail(name, str(failure))
        except Exception as error:  # a check that breaks has failed, and says where
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{pathlib.Path(frame.filename).name}:{frame.lineno}"
            self.fail(name, f"{type(error).__name__}: {error} ({where})")
        else:
            self.passed += 1
            print(f"PASS {self.module}/{name} ({time.monotonic() - started:.1f} s)", flush=True)

    def fail(self, name, message):
        self.failed += 1
        print(f"FAIL {self.module}/{name}: {' '.join(message.split())}", flush=True)

    def skip(self, name, reason):
        """For what cannot exist on this platform, and for nothing else."""
        self.skipped += 1
        print(f"SKIP {self.module}/{name}: {reason}", flush=True)


def free_port():
    """A port that nothing listens on: for a process that cannot be told port 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, what, seconds=STARTUP_SECONDS):
    """Polls, because the other side is a foreign process that offers no signal of its own."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        ensure(time.monotonic() < deadline, f"{what}: not within {seconds} s")
        time.sleep(0.02)


def stop(process, seconds=10):
    """Ends a process and everything that it started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(seconds)


@contextlib.contextmanager
def background(command, environment=None, log=None):
    """A server of a test: started here, stopped at the end of the block. Its output goes to the file `log`."""
    with open(log or os.devnull, "ab") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            env=environment or clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        stop(process)


def run(command, environment=None, seconds=60, input=None):
    """A client that runs to its end; gives (exit status, output, errors), the output as bytes."""
    process = subprocess.Popen(
        [str(part) for part in command],
        env=environment or clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(input, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failure(f"{pathlib.Path(str(command[0])).name}: still running after {seconds} s") from None
    finally:
        stop(process)
    return process.returncode, output, errors.decode(errors="replace")


class LineClient:
    """A client program that answers each JSON line on its input with one JSON line, living as long as its block."""

    def __init__(self, command, environment):
        self.command = [str(part) for part in command]
        self.environment = environment
        self.process = None
        self.rest = b""

    def __enter__(self):
        self.errors = tempfile.TemporaryFile()
        self.starting = START_OF_A_CLIENT
        self.process = subprocess.Popen(
            self.command,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_):
        stop(self.process)
        self.errors.close()

    def ask(self, request, seconds=60):
        """One request and its answer. A client that dies or is silent fails the test, and is started anew."""
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            answer = json.loads(self.line(seconds + self.starting))
            self.starting = 0
            return answer
        except (Failure, OSError) as failure:
            self.errors.seek(0)
            said = self.errors.read()[-600:].decode(errors="replace")
            self.__exit__()
            self.rest = b""
            self.__enter__()
            raise Failure(f"{request}: {failure}; the client said: {said!r}") from None

    def line(self, seconds):
        deadline = time.monotonic() + seconds
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            ensure(left > 0 and select.select([descriptor], [], [], left)[0], f"no answer within {seconds} s")
            read = os.read(descriptor, 65536)
            ensure(read, "the client ended")
            self.rest += read
        line, self.rest = self.rest.split(b"\n", 1)
        return line


class Aconite:
    """The product, as a process of its own with a configuration file, on ports of its own choosing."""

    def __init__(self, config=None, command=(), called="aconite"):
        """With `command` its arguments replace `serve -c FILE`; `called` is argv[0]."""
        self.config = config or {}
        self.arguments = list(command)
        self.called = called
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="aconite-"))
        self.folder = pathlib.Path(folder)
        self.log = self.folder / "log"
        self.environment = {**clean_environment(), "HOME": folder, "ACONITE_DATA_DIR": str(self.folder / "data")}
        command = self.arguments or ["serve", "-c", self.write_config()]
        (self.folder / self.called).symlink_to(BINARY)
        ports = self.folder / "ports.json"
        try:
            self.process = self.stack.enter_context(
                background([self.folder / self.called, *command, f"--port-file={ports}"], self.environment, self.log)
            )
            wait_until(lambda: self.alive() and ports.exists(), "the port file appears")
        except BaseException:
            self.stack.close()
            raise
        self.address = json.loads(ports.read_text())["admin"]
        self.port = int(self.address.rsplit(":", 1)[1])
        self.environment["ACONITE_URL"] = f"http://{self.address}"
        return self

    def alive(self):
        ensure(self.process.poll() is None, f"the product ended with {self.process.returncode}: {self.said()}")
        return True

    def __exit__(self, *_):
        self.stack.close()

    def write_config(self):
        path = self.folder / "aconite.json"
        path.write_text(json.dumps({"admin": {"listen": "127.0.0.1:0"}, **self.config}))
        return path

    def said(self):
        return self.log.read_text(errors="replace")[-1500:]

    def api(self, method, path, body=None, headers=None, seconds=20):
        """One call of the admin API on a connection of its own; a body that is not bytes is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            encoded = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, encoded, headers or {})
            response = connection.getresponse()
            return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
        finally:
            connection.close()

    def want(self, status, method, path, body=None, **options):
        """A call whose status is part of the test; gives its JSON."""
        answer = self.api(method, path, body, **options)
        equal(answer.status, status, f"{method} {path} with {shorten(body)}: {shorten(answer.body)}: status")
        return answer.json() if answer.body else None

    def listen(self, proxy):
        """The (host, port) that a proxy listens on."""
        address = self.want(200, "GET", f"/v1/proxies/{proxy}")["listen"]
        host, port = address.rsplit(":", 1)
        return host.strip("[]"), int(port)

    @contextlib.contextmanager
    def toxic(self, proxy, type, stream="downstream", attributes=None, **envelope):
        """A toxic that exists as long as its block."""
        body = {"name": f"test-{type}", "type": type, "stream": stream, "attributes": attributes or {}, **envelope}
        self.want(201, "POST", f"/v1/proxies/{proxy}/toxics", body)
        try:
            yield
        finally:
            self.want(204, "DELETE", f"/v1/proxies/{proxy}/toxics/{body['name']}")

    def cli(self, *arguments, seconds=30):
        """The product's own command line, towards this instance."""
        status, output, errors = run([BINARY, *arguments], self.environment, seconds)
        equal(status, 0, f"aconite {' '.join(arguments)}: {errors.strip()}: exit status")
        return output.decode()

    def client_environment(self, proxy):
        """What `aconite env` exports, evaluated by a shell as a user does it, on top of a clean environment."""
        exports = self.cli("env", "--proxy", proxy, "--shell", "sh")
        script = f"{exports}\nexec env -0"
        _, output, _ = run(["bash", "-euc", script], clean_environment())
        variables = dict(pair.split("=", 1) for pair in output.decode().split("\0") if pair)
        return {**variables, "OPENAI_API_KEY": "sk-conformance", "ANTHROPIC_API_KEY": "sk-ant-conformance"}


class Answer:
    """An answer of the admin API: status, headers by their lower-case names, the body's bytes."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            raise Failure(f"not JSON: {shorten(self.body)}") from None


class TcpServer:
    """A small TCP server for the tests: each connection runs `handle(socket)` in a thread of its own."""

    def __init__(self, handle, backlog=128):
        self.handle = handle
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.port = self.socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.connections = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                self.connections.append(connection)
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, contextlib.suppress(OSError):
            self.handle(connection)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def echo(connection):
    """Sends back what comes, and ends when the client ends."""
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def read_exactly(connection, count):
    read = b""
    while len(read) < count:
        chunk = connection.recv(count - len(read))
        ensure(chunk, f"closed after {len(read)} of {count} bytes")
        read += chunk
    return read
