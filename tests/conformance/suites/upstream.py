"""Servers that are no part of the product, behind TLS, proxied in all three protocols with identical bytes.

`tcp` carries the client's own TLS; `http` takes clear text and speaks TLS to the upstream; `forward` intercepts by a
certificate of the local CA, and tunnels the hosts that it does not intercept.
"""

import contextlib
import hashlib
import json
import pathlib
import tempfile

import servers
from certificates import Authority
from harness import HERE, PYTHON, Aconite, ensure, equal
from harness import run as execute

ORIGIN = "origin.test"
SIZES = [0, 1, 1000, 65536, 1048577, 64 * 2**20]
UPLOADS = [0, 1, 65537, 16 * 2**20]
EVENTS = 10_000
NAMES = [f"DNS:{ORIGIN}", "DNS:files.test", "DNS:socket.test", "DNS:grpc.test", "DNS:localhost", "IP:127.0.0.1"]


class Route:
    """How curl reaches an origin through one protocol."""

    def __init__(self, name, base, arguments, environment, versions):
        self.name, self.base, self.arguments, self.environment, self.versions = (
            name,
            base,
            arguments,
            environment,
            versions,
        )

    def curl(self, path, version, *arguments, seconds=120, input=None):
        """Gives the body and the headers of each answer, as curl prints them."""
        with tempfile.NamedTemporaryFile() as headers:
            status, output, errors = execute(
                [
                    "curl",
                    "-sS",
                    "--max-time",
                    seconds,
                    self.versions[version],
                    *self.arguments,
                    "-D",
                    headers.name,
                    *arguments,
                    f"{self.base}{path}",
                ],
                self.environment,
                seconds + 10,
                input,
            )
            equal(status, 0, f"curl {path}: {errors.strip()}: exit code")
            return output, headers.read().decode(errors="replace")


TLS_VERSIONS = {"h1": "--http1.1", "h2": "--http2"}
CLEAR_VERSIONS = {"h1": "--http1.1", "h2": "--http2-prior-knowledge"}


def run(suite):
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="upstream-")))
        authority = Authority(folder)
        leaf = authority.leaf("origin", NAMES)
        ports = {
            "origin": stack.enter_context(servers.node_origin(*leaf)),
            "files": stack.enter_context(servers.nginx(folder, *leaf, SIZES)),
            "socket": stack.enter_context(servers.websocket_echo(*leaf)),
            "grpc": stack.enter_context(servers.grpc_echo(*leaf)),
            "h2c": stack.enter_context(servers.grpc_echo()),
        }
        aconite = stack.enter_context(Aconite(configuration(ports, authority.pem)))
        environment = aconite.client_environment("env")
        # The client's trust in the local CA is what `aconite env` exports, which for curl holds no other CA.
        for origin in ("origin", "files"):
            for route in routes(aconite, authority, environment, origin, ports[origin]):
                downloads(suite, route, origin)
                if origin == "origin":
                    streams_and_uploads(suite, route)
                    semantics(suite, route)
        websockets(suite, aconite, authority, environment, ports)
        grpc(suite, aconite, folder, environment)
        suite.check("forward/certificate is strict", check_certificate, aconite, folder)


def configuration(ports, ca):
    trust = {"ca": str(ca)}
    hosts = {f"{name}.test": f"https://127.0.0.1:{ports[name]}" for name in ("origin", "files", "socket", "grpc")}
    proxies = [
        {
            "name": "env",
            "protocol": "forward",
            "listen": "127.0.0.1:0",
            "intercept": list(hosts),
            "map": hosts,
            "upstream_tls": trust,
        },
        {
            "name": "h2c-http",
            "protocol": "http",
            "listen": "127.0.0.1:0",
            "upstream": f"http://127.0.0.1:{ports['h2c']}",
        },
        {"name": "grpc-tcp", "listen": "127.0.0.1:0", "upstream": f"127.0.0.1:{ports['h2c']}"},
    ]
    for name in ("origin", "files", "socket"):
        proxies.append({"name": f"{name}-tcp", "listen": "127.0.0.1:0", "upstream": f"127.0.0.1:{ports[name]}"})
        proxies.append(
            {
                "name": f"{name}-http",
                "listen": "127.0.0.1:0",
                "upstream": f"https://127.0.0.1:{ports[name]}",
                "upstream_tls": {**trust, "server_name": f"{name}.test"},
            }
        )
    return {"proxies": proxies}


def routes(aconite, authority, environment, origin, port):
    host = f"{origin}.test"
    plain = {name: value for name, value in aconite.environment.items()}
    _, tcp = aconite.listen(f"{origin}-tcp")
    _, http = aconite.listen(f"{origin}-http")
    return [
        Route(
            f"{origin}/tcp",
            f"https://{host}",
            ["--cacert", authority.pem, "--connect-to", f"{host}:443:127.0.0.1:{tcp}"],
            plain,
            TLS_VERSIONS,
        ),
        Route(f"{origin}/http", f"http://127.0.0.1:{http}", [], plain, CLEAR_VERSIONS),
        Route(f"{origin}/forward", f"https://{host}", [], environment, TLS_VERSIONS),
        Route(
            f"{origin}/tunnel",
            f"https://localhost:{port}",
            ["--cacert", authority.pem, "--noproxy", ""],
            environment,
            TLS_VERSIONS,
        ),
    ]


def downloads(suite, route, origin):
    path = {"origin": "/bytes/{}", "files": "/{}"}[origin]
    for version in route.versions:
        for size in SIZES:
            suite.check(
                f"{route.name}/{version}/bytes {size}", check_download, route, version, path.format(size), size, True
            )
            if origin == "origin":
                suite.check(
                    f"{route.name}/{version}/unsized {size}",
                    check_download,
                    route,
                    version,
                    f"/unsized/{size}",
                    size,
                    False,
                )


def check_download(route, version, path, size, sized):
    body, headers = route.curl(path, version)
    equal(len(body), size, "bytes")
    equal(hashlib.sha256(body).hexdigest(), servers.digest(size), "sha256")
    lengths = [line for line in headers.lower().splitlines() if line.startswith("content-length:")]
    equal(lengths, [f"content-length: {size}"] if sized else [], "content-length")
    last_version(headers, version)


def last_version(headers, version):
    status_lines = [line for line in headers.splitlines() if line.startswith("HTTP/")]
    wanted = "HTTP/2 " if version == "h2" else "HTTP/1.1 "
    ensure(status_lines[-1].startswith(wanted), f"not {wanted.strip()}: {status_lines}")


def expected_events():
    text = []
    for number in range(EVENTS):
        if number % 100 == 0:
            text.append(": keep-alive\r\n\r\n")
        data = json.dumps({"number": number, "text": "花瓣" * (number % 7)}, ensure_ascii=False, separators=(",", ":"))
        text.append(f"id:{number}\nevent: tick\ndata: {data}\ndata:second  \n\n")
    return "".join(text).encode() + b"data: [DONE]\n\n"


def streams_and_uploads(suite, route):
    for version in route.versions:
        suite.check(f"{route.name}/{version}/{EVENTS} events", check_events, route, version)
        for size in UPLOADS:
            suite.check(f"{route.name}/{version}/upload {size}", check_upload, route, version, size, [])
            if version == "h1":
                suite.check(
                    f"{route.name}/{version}/upload {size} chunked",
                    check_upload,
                    route,
                    version,
                    size,
                    ["-H", "transfer-encoding: chunked"],
                )


def check_events(route, version):
    body, _ = route.curl(f"/events/{EVENTS}", version, "-N")
    wanted = expected_events()
    equal(len(body), len(wanted), "bytes of the stream")
    ensure(body == wanted, "the stream's bytes differ")


def check_upload(route, version, size, arguments):
    payload = servers.counted(size)
    # curl asks for permission before large bodies by itself; here that is switched off, and tested on its own.
    body, _ = route.curl("/upload", version, "-H", "expect:", *arguments, "--data-binary", "@-", input=payload)
    answer = json.loads(body)
    equal(
        (answer["bytes"], answer["sha256"]),
        (size, hashlib.sha256(payload).hexdigest()),
        "bytes and sha256 that arrived",
    )


def semantics(suite, route):
    for version in route.versions:
        suite.check(f"{route.name}/{version}/HEAD", check_head, route, version)
        suite.check(f"{route.name}/{version}/204", check_empty, route, version, 204)
        suite.check(f"{route.name}/{version}/304", check_empty, route, version, 304)
        suite.check(f"{route.name}/{version}/target untouched", check_target, route, version)
    suite.check(f"{route.name}/h1/expect 100-continue", check_expect, route)
    suite.check(f"{route.name}/h1/header names keep their case", check_case, route)


def check_head(route, version):
    body, headers = route.curl("/bytes/1000", version, "--head")
    ensure("content-length: 1000" in headers.lower(), f"no length of the body that is not sent: {headers}")
    ensure(b"\x00\x00\x00\x01" not in body, "a body came")


def check_empty(route, version, status):
    path = f"/status/{status}"
    if route.versions[version] == "--http2-prior-knowledge":
        # curl 7.88 cannot use such a connection twice, whatever the server.
        answers = [route.curl(path, version) for _ in range(2)]
    else:
        # Twice on one connection: a body that is wrongly awaited or made up shows in the second answer.
        answers = [route.curl(path, version, f"{route.base}{path}", "-o", "-")]
    body, headers = b"".join(each[0] for each in answers), "".join(each[1] for each in answers)
    statuses = [line.split()[1] for line in headers.splitlines() if line.startswith("HTTP/")]
    equal(statuses[-2:], [str(status)] * 2, "statuses")
    equal(body, b"", "body")
    cookies = [line for line in headers.lower().splitlines() if line.startswith("set-cookie:")]
    equal(cookies, ["set-cookie: a=1", "set-cookie: b=2"] * 2, "cookies")


def check_target(route, version):
    target = "/target//a%2Fb/%E4%B8%AD/./c?x=%2520+%20&y&z="
    body, _ = route.curl(
        target, version, "--path-as-is", "-H", "x-double: 1", "-H", "x-double: 2", "-H", "x-aconite-scene: hidden"
    )
    answer = json.loads(body)
    equal(answer["target"], target, "request target")
    names = [name.lower() for name in answer["headers"][::2]]
    equal(names.count("x-double"), 2, "headers of the same name")
    hides = not route.name.endswith(("/tcp", "/tunnel"))
    equal("x-aconite-scene" in names, not hides, "the product's own request header upstream")


def check_expect(route):
    payload = servers.counted(300_000)
    body, headers = route.curl(
        "/upload", "h1", "-H", "expect: 100-continue", "--expect100-timeout", "30", "--data-binary", "@-", input=payload
    )
    ensure("HTTP/1.1 100 " in headers, f"no 100 before the answer: {headers}")
    answer = json.loads(body)
    equal(answer["bytes"], 300_000, "bytes that arrived")
    if answer["version"] == "1.1":
        equal(answer["expect"], "100-continue", "expect header upstream")


def check_case(route):
    _, headers = route.curl("/status/200", "h1")
    if "X-Mixed-Case: Kept" in headers:
        return
    # An upstream over HTTP/2 has lower-case names only.
    body, _ = route.curl("/target", "h1")
    equal(json.loads(body)["version"], "2.0", "protocol upstream, with names in lower case")


def websockets(suite, aconite, authority, environment, ports):
    _, http = aconite.listen("socket-http")
    _, tcp = aconite.listen("socket-tcp")
    plain = aconite.environment
    ca = local_ca(aconite)
    for name, url, trust, variables in (
        ("tcp", f"wss://localhost:{tcp}/", authority.pem, plain),
        ("http", f"ws://127.0.0.1:{http}/", authority.pem, plain),
        ("forward", "wss://socket.test/", ca, environment),
    ):
        suite.check(f"websocket/{name}", check_websocket, url, trust, variables)


def local_ca(aconite):
    path = aconite.folder / "local-ca.pem"
    answer = aconite.api("GET", "/v1/ca.pem")
    equal(answer.status, 200, "status of /v1/ca.pem")
    path.write_bytes(answer.body)
    return path


def check_websocket(url, ca, environment):
    status, output, errors = execute([PYTHON, HERE / "clients" / "websocket_client.py", url, ca], environment)
    equal(status, 0, f"{errors[-400:]}: exit status")
    answer = json.loads(output)
    equal((answer["same"], answer["code"]), ([True] * 4, 4001), "messages echoed alike, close code")


def grpc(suite, aconite, folder, environment):
    plain = aconite.environment
    _, http = aconite.listen("h2c-http")
    _, tcp = aconite.listen("grpc-tcp")
    suite.check("grpc/tcp", check_grpc, [f"127.0.0.1:{tcp}"], plain)
    suite.check("grpc/http h2c", check_grpc, [f"127.0.0.1:{http}"], plain)
    suite.check("grpc/forward", check_grpc, ["grpc.test:443", local_ca(aconite)], environment)


def check_grpc(arguments, environment):
    status, output, errors = execute([PYTHON, HERE / "clients" / "grpc_client.py", *arguments], environment, seconds=90)
    equal(status, 0, f"{errors[-400:]}: exit status")
    equal(
        json.loads(output),
        {
            "unary": 100_000,
            "unary trailers": {"seen": "1"},
            "messages": 500,
            "in order": True,
            "bidi trailers": {"seen": "500"},
            "refused": ["RESOURCE_EXHAUSTED", "no nectar left"],
        },
        "what the client saw",
    )


def check_certificate(aconite, folder):
    """The minted leaf and the local CA pass OpenSSL's strict checks, for a name and for an address."""
    ca = local_ca(aconite)
    host, port = aconite.listen("env")
    status, output, errors = execute(
        [
            "openssl",
            "s_client",
            "-proxy",
            f"{host}:{port}",
            "-connect",
            f"{ORIGIN}:443",
            "-servername",
            ORIGIN,
            "-verify_hostname",
            ORIGIN,
            "-CAfile",
            ca,
            "-x509_strict",
            "-verify_return_error",
            "-alpn",
            "h2,http/1.1",
        ],
        input=b"",
    )
    text = output.decode(errors="replace")
    equal(status, 0, f"{errors[-400:]}: exit status")
    ensure("Verify return code: 0 (ok)" in text, f"not verified: {text[-800:]}")
    ensure("ALPN protocol: h2" in text, "no ALPN")
