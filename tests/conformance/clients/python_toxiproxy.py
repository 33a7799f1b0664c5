"""toxiproxy-python, unmodified, against the admin API: python_toxiproxy.py HOST PORT UPSTREAM.

UPSTREAM echoes. Prints one JSON line for each check: {"check", "ok", "message"}.
"""

import json
import socket
import sys
import time
import traceback

from toxiproxy import Toxiproxy
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

HOST, PORT, UPSTREAM = sys.argv[1], int(sys.argv[2]), sys.argv[3]
TOXICS = {
    "latency": {"latency": 150, "jitter": 0},
    "bandwidth": {"rate": 1000},
    "slow_close": {"delay": 5},
    "timeout": {"timeout": 60000},
    "reset_peer": {"timeout": 60000},
    "slicer": {"average_size": 10, "size_variation": 5, "delay": 10},
    "limit_data": {"bytes": 1000000},
    "noop": {},
}
server = Toxiproxy()
server.update_api_consumer(HOST, PORT)


def equal(found, wanted):
    assert found == wanted, f"{found!r} instead of {wanted!r}"


def refused(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def echo(proxy, payload=b"petal"):
    """The seconds that a round trip through the proxy takes."""
    host, port = proxy.listen.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        started = time.monotonic()
        connection.sendall(payload)
        read = b""
        while len(read) < len(payload):
            chunk = connection.recv(65536)
            assert chunk, f"closed after {len(read)} of {len(payload)} bytes"
            read += chunk
        equal(read, payload)
        return time.monotonic() - started


def check_version():
    equal(json.loads(server.version())["version"], "2.12.0")


def check_create():
    proxy = server.create(upstream=UPSTREAM, name="py", listen="127.0.0.1:0")
    assert not proxy.listen.endswith(":0"), proxy.listen
    equal((proxy.name, proxy.upstream, proxy.enabled), ("py", UPSTREAM, True))
    echo(proxy)


def check_create_twice():
    refused(ProxyExists, lambda: APIConsumer.post("/proxies", json={"name": "py", "upstream": UPSTREAM}))


def check_missing():
    equal(server.get_proxy("none"), None)
    refused(NotFound, lambda: APIConsumer.get("/proxies/none"))


def check_populate():
    listed = server.populate(
        [
            {"name": "py-one", "upstream": UPSTREAM, "listen": "127.0.0.1:0"},
            {"name": "py-two", "upstream": UPSTREAM, "listen": "127.0.0.1:0"},
        ]
    )
    equal([proxy.name for proxy in listed], ["py-one", "py-two"])
    for proxy in listed:
        echo(proxy)
    assert {"py", "py-one", "py-two"} <= set(server.proxies())


def toxic_check(kind, attributes):
    def check():
        proxy = server.get_proxy("py")
        for stream in ("downstream", "upstream"):
            proxy.add_toxic(type=kind, stream=stream, toxicity=0.5, attributes=attributes)
            toxic = proxy.get_toxic(f"{kind}_{stream}")
            equal((toxic.type, toxic.stream, toxic.toxicity), (kind, stream, 0.5))
            equal(toxic.attributes, attributes)
            proxy.destroy_toxic(toxic.name)
            equal(proxy.get_toxic(toxic.name), None)

    return check


def check_bad_toxic():
    refused(InvalidToxic, lambda: server.get_proxy("py").add_toxic(type="nectar"))


def check_latency_update_remove():
    proxy = server.get_proxy("py")
    proxy.add_toxic(type="latency", attributes={"latency": 1000})
    assert echo(proxy) >= 1
    APIConsumer.post("/proxies/py/toxics/latency_downstream", json={"attributes": {"latency": 1500}})
    equal(proxy.get_toxic("latency_downstream").attributes, {"latency": 1500, "jitter": 0})
    assert echo(proxy) >= 1.5
    proxy.destroy_toxic("latency_downstream")
    assert echo(proxy) < 1
    refused(NotFound, lambda: proxy.destroy_toxic("latency_downstream"))


def check_down():
    proxy = server.get_proxy("py")
    with proxy.down():
        refused(ConnectionRefusedError, lambda: echo(proxy))
        equal(server.get_proxy("py").enabled, False)
    echo(proxy)
    equal(server.get_proxy("py").listen, proxy.listen)


def check_reset():
    proxy = server.get_proxy("py")
    proxy.add_toxic(type="latency", attributes={"latency": 60000})
    proxy.disable()
    server.reset()
    proxy = server.get_proxy("py")
    equal((proxy.enabled, proxy.toxics()), (True, {}))
    echo(proxy)


def check_destroy():
    proxy = server.get_proxy("py")
    server.destroy(proxy)
    equal(server.get_proxy("py"), None)
    refused(ConnectionRefusedError, lambda: echo(proxy))
    server.destroy(server.get_proxy("py-one"))
    server.destroy(server.get_proxy("py-two"))


CHECKS = [
    ("version", check_version),
    ("create", check_create),
    ("create twice", check_create_twice),
    ("missing proxy", check_missing),
    ("populate", check_populate),
    *((f"toxic {kind}", toxic_check(kind, attributes)) for kind, attributes in TOXICS.items()),
    ("unknown toxic type", check_bad_toxic),
    ("latency added, updated, removed", check_latency_update_remove),
    ("down", check_down),
    ("reset", check_reset),
    ("destroy", check_destroy),
]

for name, check in CHECKS:
    try:
        check()
        result = {"check": name, "ok": True, "message": ""}
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        result = {
            "check": name,
            "ok": False,
            "message": f"{type(error).__name__}: {error} ({where.name}:{where.lineno})",
        }
    print(json.dumps(result), flush=True)
