"""Published Toxiproxy clients, unmodified, against the product started as `toxiproxy-server`; and its metrics by curl."""

import json
import pathlib
import re
import socket
import tempfile

from harness import BINARY, CACHE, HERE, PYTHON, Aconite, TcpServer, echo, ensure, equal
from harness import run as execute

SERVER = ["-host=127.0.0.1", "-port", "0", "-seed=1", "-proxy-metrics", "-runtime-metrics"]
CLIENTS = {
    "python": [PYTHON, HERE / "clients" / "python_toxiproxy.py"],
    "node": [CACHE / "bin" / "node20", CACHE / "node" / "toxiproxy.mjs"],
    "go": [CACHE / "go" / "toxiproxy"],
    "java": ["java", "-cp", f"{CACHE}/java/classes:{CACHE}/java/*", "ToxiproxyCheck"],
    "rust": [CACHE / "rust" / "debug" / "toxiproxy-rust-client"],
}
LEAST_CHECKS = {"python": 18, "node": 18, "go": 19, "java": 16, "rust": 12}


def run(suite):
    script = CACHE / "node" / "toxiproxy.mjs"
    script.write_bytes((HERE / "clients" / "node" / "toxiproxy.mjs").read_bytes())
    with Aconite(command=SERVER, called="toxiproxy-server") as aconite, TcpServer(echo) as upstream:
        for language, command in CLIENTS.items():
            client(suite, aconite, language, command, upstream.address)
        suite.check("curl/metrics", check_metrics, aconite, upstream)
    suite.check("flags/config", check_config)
    suite.check("flags/version", check_version)


def client(suite, aconite, language, command, upstream):
    """Runs a client's program, which reports on each of its checks by itself."""
    if not any(suite.wants(f"{language}/{part}") for part in ("", "program")):
        return
    status, output, errors = execute([*command, "127.0.0.1", aconite.port, upstream], seconds=120)
    results = [json.loads(line) for line in output.splitlines() if line.startswith(b"{")]
    for result in results:
        suite.check(f"{language}/{result['check']}", check_result, result)
    suite.check(f"{language}/program", check_program, language, status, errors, results)


def check_result(result):
    ensure(result["ok"], result["message"])


def check_program(language, status, errors, results):
    equal(status, 0, f"{errors[-300:]}: exit status")
    ensure(len(results) >= LEAST_CHECKS[language], f"only {len(results)} checks ran")


def check_metrics(aconite, upstream):
    """The counters' names and labels, in Toxiproxy's order; they move while the connection is still open."""
    made = aconite.want(
        201, "POST", "/proxies", {"name": "counted", "listen": "127.0.0.1:0", "upstream": upstream.address}
    )
    host, port = made["listen"].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"x" * 1000)
        read = 0
        while read < 1000:
            read += len(connection.recv(4096))
    status, output, errors = execute(["curl", "-sS", "--fail", f"http://{aconite.address}/metrics"])
    equal(status, 0, f"{errors}: exit code")
    for name in ("received", "sent"):
        for direction in ("upstream", "downstream"):
            line = (
                f'toxiproxy_proxy_{name}_bytes_total{{direction="{direction}",listener="{made["listen"]}",'
                f'proxy="counted",upstream="{upstream.address}"}} 1000'
            )
            ensure(line in output.decode().splitlines(), f"no line {line}; found {counters(output)}")
    aconite.want(204, "DELETE", "/proxies/counted")


def counters(output):
    return re.findall(rb"^toxiproxy_proxy_.*$", output, re.MULTILINE)


def check_config():
    """The same array as /populate, by the single-dash flag."""
    with tempfile.TemporaryDirectory() as folder, TcpServer(echo) as upstream:
        path = pathlib.Path(folder) / "toxiproxy.json"
        path.write_text(
            json.dumps(
                [
                    {"name": "one", "listen": "127.0.0.1:0", "upstream": upstream.address},
                    {"name": "two", "listen": "127.0.0.1:0", "upstream": upstream.address, "enabled": False},
                ]
            )
        )
        with Aconite(
            command=["-host", "127.0.0.1", "-port=0", f"-config={path}"], called="toxiproxy-server"
        ) as aconite:
            listed = aconite.want(200, "GET", "/proxies")
            equal({name: proxy["enabled"] for name, proxy in listed.items()}, {"one": True, "two": False}, "proxies")


def check_version():
    with tempfile.TemporaryDirectory() as folder:
        server = pathlib.Path(folder) / "toxiproxy-server"
        server.symlink_to(BINARY)
        for flag in ("-version", "--version"):
            status, output, errors = execute([server, flag])
            equal(status, 0, f"{flag}: {errors}: exit status")
            ensure(output.startswith(b"toxiproxy-server version "), f"{flag} prints {output!r}")
        status, _, _ = execute([server, "-nectar"])
        equal(status, 2, "exit status with an unknown flag")
