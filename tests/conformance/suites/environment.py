"""What `aconite env` and `aconite run` make of foreign programs: whom they trust, what they send to the proxy.

Each check has the id of the bug report that it holds.
"""

import contextlib
import json
import os
import pathlib
import shutil
import tempfile

from certificates import Authority
from harness import BINARY, CACHE, HERE, PYTHON, Aconite, TcpServer, clean_environment, ensure, equal
from harness import run as execute

HOST = "api.example.test"
CLIENTS = HERE / "clients" / "fetch"
NODES = ("node20", "node24")
# What real machines have in NO_PROXY; only `db.test`, and `host.test` without its dot, mean the same to all clients.
NO_PROXY = "localhost,127.0.0.1,::1,.corp.test,10.0.0.0/8,api.test:8443,host.test.,db.test"


def run(suite):
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="environment-")))
        origin = stack.enter_context(TcpServer(answer))
        proxy = {
            "name": "env",
            "protocol": "forward",
            "listen": "127.0.0.1:0",
            "map": {HOST: f"http://{origin.address}"},
        }
        aconite = stack.enter_context(Aconite({"proxies": [proxy]}))
        environment = aconite.client_environment("env")
        suite.check("tls_01 a strict Python is content", check_python, environment)
        for node in NODES:
            suite.check(f"tls_02 {node} trusts by the environment", check_node, aconite, environment, folder, node)
        suite.check("tls_05 Java trusts by the store", check_java, aconite, environment, folder)
        suite.check("prx_09 only what all clients read alike is printed", check_no_proxy, aconite)
        for name, command in fetchers(folder).items():
            suite.check(f"prx_09 {name} heeds what is printed", check_heeds, aconite, environment, origin, command)
        suite.check("prx_10 Go sends nothing for localhost", check_localhost, aconite, environment, origin, folder)
        suite.check("prx_11 who sends nothing is told the switch", check_silent, environment, origin)


def answer(connection):
    """Any request, one answer."""
    received = b""
    while b"\r\n\r\n" not in received:
        data = connection.recv(65536)
        if not data:
            return
        received += data
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")


def told(command, environment, seconds=120):
    """What a client says, one document for each line."""
    status, output, errors = execute(command, environment, seconds)
    equal(status, 0, f"{errors[-600:]}: exit status")
    return [json.loads(line) for line in output.decode().splitlines()]


def connections(aconite):
    """How many connections came to the proxy so far."""
    lines = aconite.api("GET", "/metrics").body.decode().splitlines()
    counts = [line for line in lines if line.startswith("aconite_connections_total{")]
    return sum(int(float(line.split()[-1])) for line in counts)


def check_python(environment):
    (said,) = told([PYTHON, CLIENTS / "fetch.py", "--strict", f"https://{HOST}/"], environment)
    equal(said, {"outcome": "ok", "status": 200}, "outcome")
    # Without the environment it would not be: what was seen is the environment's doing.
    unset = {name: value for name, value in environment.items() if name != "SSL_CERT_FILE"}
    (said,) = told([PYTHON, CLIENTS / "fetch.py", "--strict", f"https://{HOST}/"], unset)
    ensure("CERTIFICATE_VERIFY_FAILED" in said.get("message", ""), f"trusted without being told to: {said}")


def check_node(aconite, environment, folder, node):
    host, port = aconite.listen("env")
    ca = environment["NODE_EXTRA_CA_CERTS"]
    bare = {name: value for name, value in environment.items() if name not in ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")}
    bundle = {**bare, "SSL_CERT_FILE": environment["SSL_CERT_FILE"]}
    stranger = folder / f"stranger-{node}"
    stranger.mkdir()
    other = Authority(stranger).pem

    def trusts(variables, *arguments, options=()):
        program = [CACHE / "bin" / node, *options, CLIENTS / "trust.mjs", host, port, HOST, *arguments]
        (said,) = told(program, variables)
        return said["outcome"] == "ok", said.get("message")

    for what, found, wanted in (
        ("the environment as printed", trusts(environment), True),
        ("the variable set inside the process", trusts(bare, f"late={ca}"), False),
        ("roots of the connection's own", trusts(environment, f"ca={other}"), False),
        ("SSL_CERT_FILE alone", trusts(bundle), False),
        ("SSL_CERT_FILE with --use-openssl-ca", trusts(bundle, options=["--use-openssl-ca"]), True),
    ):
        equal(found[0], wanted, f"{what}: {found[1]}: trusted")


def check_java(aconite, environment, folder):
    options = environment["JAVA_TOOL_OPTIONS"]
    program = ["java", CLIENTS / "Fetch.java", f"https://{HOST}/"]
    (said,) = told(program, environment)
    equal(said, {"outcome": "ok", "status": 200}, "outcome with the environment as printed")
    store = next(part.split("=", 1)[1] for part in options.split() if part.startswith("-Djavax.net.ssl.trustStore="))
    without = " ".join(part for part in options.split() if "trustStore" not in part)
    (said,) = told(program, {**environment, "JAVA_TOOL_OPTIONS": without})
    ensure("PKIX path building failed" in said.get("message", ""), f"without the store: {said}")
    pem = options.replace(store, environment["NODE_EXTRA_CA_CERTS"])
    (said,) = told(program, {**environment, "JAVA_TOOL_OPTIONS": pem})
    equal(said["outcome"], "error", "outcome with a PEM file in the store's place")
    status, listed, errors = execute(
        ["keytool", "-J-Duser.language=en", "-list", "-keystore", store, "-storepass", "changeit"], clean_environment()
    )
    equal(status, 0, f"keytool: {errors}: exit status")
    entries = listed.count(b"trustedCertEntry")
    ensure(b"aconite," in listed and entries > 50, f"not the CA and the public roots: {entries} entries")


def check_no_proxy(aconite):
    """The product's own part: which entries are printed, which are warned of."""
    variables = {**aconite.environment, "NO_PROXY": NO_PROXY}
    status, output, errors = execute([BINARY, "env", "--proxy", "env", "--shell", "sh"], variables)
    equal(status, 0, f"{errors}: exit status")
    printed = [line for line in output.decode().splitlines() if line.lower().startswith("export no_proxy=")]
    wanted = "localhost,127.0.0.1,host.test,db.test"
    equal(printed, [f"export NO_PROXY='{wanted}'", f"export no_proxy='{wanted}'"], "what is printed")
    for entry in ("::1", ".corp.test", "10.0.0.0/8", "api.test:8443"):
        ensure(f"`{entry}`" in errors, f"no warning of {entry}: {errors}")
    ensure("`db.test`" not in errors, f"a warning of what is kept: {errors}")


def fetchers(folder):
    """Clients that take URLs as arguments and say a line for each."""
    return {
        "Python": [PYTHON, CLIENTS / "fetch.py"],
        "Node 24": [CACHE / "bin" / "node24", CLIENTS / "fetch.mjs"],
        "Java": ["java", CLIENTS / "Fetch.java"],
        "Go": [folder / "fetch-go"] if build_go(folder) else None,
    }


def build_go(folder):
    go = shutil.which("go") or str(CACHE / "go-toolchain" / "go" / "bin" / "go")
    variables = {**clean_environment(), "GOCACHE": str(CACHE / "go-build"), "GO111MODULE": "off"}
    status, _, errors = execute([go, "build", "-o", folder / "fetch-go", CLIENTS / "fetch.go"], variables, 240)
    equal(status, 0, f"go build: {errors}: exit status")
    return True


def check_heeds(aconite, environment, origin, command):
    before = connections(aconite)
    said = told([*command, f"http://127.0.0.1:{origin.port}/direct", f"http://localhost:{origin.port}/direct"], environment)
    equal([each["outcome"] for each in said], ["ok", "ok"], f"{said}: outcome of what NO_PROXY names")
    equal(connections(aconite), before, "connections to the proxy after what NO_PROXY names")
    said = told([*command, f"https://{HOST}/proxied"], environment)
    equal([each["outcome"] for each in said], ["ok"], f"{said}: outcome of what it does not name")
    equal(connections(aconite), before + 1, "connections to the proxy")


def check_localhost(aconite, environment, origin, folder):
    """Why tests should not use localhost: without NO_PROXY, Python sends it through the proxy, and Go never does."""
    variables = {name: value for name, value in environment.items() if name.upper() != "NO_PROXY"}
    url = f"http://localhost:{origin.port}/"
    for program, seen in (([folder / "fetch-go"], 0), ([PYTHON, CLIENTS / "fetch.py"], 1)):
        before = connections(aconite)
        (said,) = told([*program, url], variables)
        equal(said["outcome"], "ok", f"{program[0].name}: {said}: outcome")
        equal(connections(aconite) - before, seen, f"{program[0].name}: connections to the proxy")
    manual = (HERE.parent.parent / "docs" / "forward-proxy.md").read_text()
    ensure("Go never sends `localhost`" in manual, "the manual does not say so")


def check_silent(environment, origin):
    """`aconite run` sees that nothing came, and says which switch the program needs; with the switch it is content."""
    with tempfile.TemporaryDirectory(prefix="aconite-run-") as home:
        variables = {**clean_environment(), "HOME": home}
        config = pathlib.Path(home) / "run.json"
        target = f"http://{origin.address}"
        proxies = [{"name": "env", "protocol": "forward", "listen": "127.0.0.1:0", "map": {HOST: target}}]
        config.write_text(json.dumps({"proxies": proxies}))
        for node, silent in (("node20", True), ("node24", False)):
            # Called by its name, as users call it: the switch is chosen by it.
            program = pathlib.Path(home) / node / "node"
            program.parent.mkdir()
            program.symlink_to(os.path.realpath(CACHE / "bin" / node))
            # Node 20 would go past the proxy with any host; this one is there.
            url = f"{target}/" if silent else f"https://{HOST}/"
            command = [BINARY, "run", "--config", config, "--", program, CLIENTS / "fetch.mjs", url]
            status, output, errors = execute(command, variables, 120)
            equal(status, 0, f"{node}: {errors}: exit status")
            (said,) = (json.loads(line) for line in output.decode().splitlines())
            equal(said["outcome"], "ok", f"{node}: {said}: outcome")
            if silent:
                ensure("`node` sent nothing through the proxy" in errors, f"silence was not noticed: {errors}")
                for switch in ("NODE_USE_ENV_PROXY=1", "EnvHttpProxyAgent", "base URL"):
                    ensure(switch in errors, f"{switch} is not named: {errors}")
            else:
                ensure("1 exchange (1 × 200)" in errors, f"no summary of what passed: {errors}")
