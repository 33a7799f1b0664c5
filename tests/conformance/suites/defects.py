"""Known faults of Toxiproxy's implementation, D1 to D15: each as a test that fails where the fault is copied."""

import contextlib
import pathlib
import select
import socket
import threading
import time

from harness import BINARY, Aconite, Failure, TcpServer, echo, ensure, equal, read_exactly
from harness import run as execute

SERVER = ["-host=127.0.0.1", "-port", "0", "-proxy-metrics", "-seed=7"]
# The longest that any call of the API may take, whatever the connections do. Wide enough for a busy machine.
PROMPT = 2.0
# How long nothing must come from a connection before it counts as silent.
SILENCE = 0.4
GRACE = 10


def run(suite):
    with TcpServer(echo) as upstream, TcpServer(flood) as flooding:

        def check(name, test, *arguments):
            suite.check(name, isolated, test, *arguments)

        check("d01_api_answers_while_a_client_does_not_read", d01, flooding)
        check("d02_api_answers_after_that_client_has_gone", d02, flooding)
        check("d03_upstream_that_swallows_connection_attempts", d03, upstream)
        for name, attributes, blocks in BAD_ATTRIBUTES:
            title = " ".join(f"{key}={value}" for key, value in attributes.items())
            check(f"d04_{name} {title}", d04, upstream, name, attributes, blocks)
        suite.check("d05_seed_decides_the_dice", d05)
        check("d06_half_close", d06)
        check("d07_reset_peer_resets_an_idle_connection", d07_idle, upstream)
        check("d07_reset_peer_resets_a_live_connection", d07_live, upstream)
        check("d07_reset_peer_can_be_taken_back", d07_taken_back, upstream)
        check("d07_reset_peer_spares_connections_that_it_missed", d07_missed)
        check("d08_timeout_removed_spares_connections_that_it_missed", d08, upstream)
        check("d09_unrelated_changes_roll_no_dice", d09, upstream)
        check("d10_byte_counters_move_on_a_live_connection", d10, upstream)
        check("d11_failed_toxic_update_changes_nothing", d11_toxic, upstream)
        check("d11_failed_proxy_update_changes_nothing", d11_proxy, upstream)
        check("d11_failed_populate_keeps_the_old_proxy", d11_populate, upstream)
        check("d12_taken_api_port_ends_the_process", d12)
        check("d13_latency_holds_a_bounded_amount", d13, flooding)
        suite.check("d14_toxics_arrive_with_their_proxy", d14)
        check("d15_every_error_is_json", d15)


def isolated(test, *arguments):
    """Each test has a process of its own: what one breaks is not the next one's failure."""
    with server() as aconite:
        test(aconite, *arguments)


def server(seed=7):
    command = [part if not part.startswith("-seed") else f"-seed={seed}" for part in SERVER]
    return Aconite(command=command, called="toxiproxy-server")


def flood(connection):
    """Sends without end, whatever the other side reads."""
    block = b"petal " * 10_000
    while True:
        connection.sendall(block)


@contextlib.contextmanager
def proxy(aconite, name, upstream, **fields):
    """A proxy that exists as long as its block; gives its address."""
    made = aconite.want(
        201, "POST", "/proxies", {"name": name, "listen": "127.0.0.1:0", "upstream": upstream, **fields}
    )
    try:
        yield address(made)
    finally:
        equal(aconite.api("DELETE", f"/proxies/{name}").status, 204, f"deleting {name}: status")


def address(made):
    host, port = made["listen"].rsplit(":", 1)
    return host, int(port)


def connect(to):
    return socket.create_connection(to, timeout=GRACE)


def round_trip(connection, payload=b"petal"):
    connection.sendall(payload)
    equal(read_exactly(connection, len(payload)), payload, "echo")


def silent(connection, seconds=SILENCE):
    """Whether nothing, not even an end, comes for a while."""
    return not select.select([connection], [], [], seconds)[0]


def prompt(aconite, method, path, body=None, statuses=(200, 201, 204)):
    started = time.monotonic()
    answer = aconite.api(method, path, body)
    took = time.monotonic() - started
    ensure(answer.status in statuses, f"{method} {path}: status {answer.status}: {answer.body!r}")
    ensure(took < PROMPT, f"{method} {path} took {took:.1f} s")


def every_call(aconite, name):
    """Each kind of call that touches a proxy's connections or its list of toxics."""
    prompt(aconite, "POST", f"/proxies/{name}/toxics", {"type": "latency", "attributes": {"latency": 10}})
    prompt(aconite, "POST", f"/proxies/{name}/toxics/latency_downstream", {"attributes": {"latency": 20}})
    prompt(aconite, "GET", "/proxies")
    prompt(aconite, "GET", f"/proxies/{name}")
    prompt(aconite, "DELETE", f"/proxies/{name}/toxics/latency_downstream")
    prompt(aconite, "POST", "/reset")
    prompt(aconite, "POST", f"/proxies/{name}", {"enabled": True})


def stalled(to):
    """A client that reads nothing, once the flood has filled every buffer on its way."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(GRACE)
    connection.connect(to)
    ensure(select.select([connection], [], [], GRACE)[0], "the flood did not begin")
    return connection


def d01(aconite, flooding):
    with proxy(aconite, "d01", flooding.address) as to, stalled(to):
        every_call(aconite, "d01")
        with connect(to) as another:
            ensure(another.recv(1), "a new connection gets nothing")


def d02(aconite, flooding):
    with proxy(aconite, "d02", flooding.address) as to:
        with stalled(to):
            prompt(aconite, "POST", "/proxies/d02/toxics", {"type": "noop", "name": "first"})
        every_call(aconite, "d02")
        with connect(to) as another:
            ensure(another.recv(1), "a new connection gets nothing")


def d03(aconite, upstream):
    with contextlib.ExitStack() as stack:
        hole = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):
            # The backlog fills; from then on the kernel drops every attempt to connect.
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(hole.getsockname())
        healthy = stack.enter_context(proxy(aconite, "d03-healthy", upstream.address))
        to = stack.enter_context(proxy(aconite, "d03", f"127.0.0.1:{hole.getsockname()[1]}"))
        for _ in range(3):
            stack.enter_context(connect(to))
        every_call(aconite, "d03")
        prompt(aconite, "POST", "/proxies/d03", {"enabled": False})
        prompt(aconite, "POST", "/proxies/d03", {"enabled": True})
        with connect(healthy) as connection:
            round_trip(connection)
        stack.enter_context(connect(to))
        prompt(aconite, "GET", "/proxies")


# (type, attributes, whether they are such that no data passes)
BAD_ATTRIBUTES = [
    ("slicer", {"average_size": 0, "size_variation": 0, "delay": 0}, False),
    ("slicer", {"average_size": -5, "size_variation": 0, "delay": 0}, False),
    ("slicer", {"average_size": 10, "size_variation": -3, "delay": 0}, False),
    ("slicer", {"average_size": 10, "size_variation": 10, "delay": 0}, False),
    ("slicer", {"average_size": 10, "size_variation": 1000, "delay": -1}, False),
    ("bandwidth", {"rate": -1}, True),
    ("bandwidth", {"rate": 2**62}, False),
    ("latency", {"latency": -5, "jitter": 0}, False),
    ("latency", {"latency": 0, "jitter": 2**62}, True),
    ("latency", {"latency": 2**63 - 1, "jitter": 2**63 - 1}, True),
    ("slow_close", {"delay": -(2**63)}, False),
    ("timeout", {"timeout": -1}, True),
]


def d04(aconite, upstream, name, attributes, blocks):
    with proxy(aconite, "d04", upstream.address) as to:
        prompt(aconite, "POST", "/proxies/d04/toxics", {"type": name, "name": "bad", "attributes": attributes})
        with connect(to) as connection:
            if blocks:
                connection.sendall(b"petal " * 100)
                select.select([connection], [], [], SILENCE)
            else:
                round_trip(connection, b"petal " * 100)
            equal(aconite.process.poll(), None, "exit status of the process")
            prompt(aconite, "DELETE", "/proxies/d04/toxics/bad")
        with connect(to) as connection:
            round_trip(connection)


def pattern(seed):
    """Which of 24 connections a toxic of toxicity 0.5 strikes."""
    with server(seed) as aconite, TcpServer(echo) as upstream, proxy(aconite, "d05", upstream.address) as to:
        toxic = {"type": "limit_data", "stream": "downstream", "toxicity": 0.5, "attributes": {"bytes": 1}}
        aconite.want(200, "POST", "/proxies/d05/toxics", toxic)
        struck = ""
        for _ in range(24):
            with connect(to) as connection:
                connection.sendall(b"petal")
                read = 0
                while read < 5 and (part := connection.recv(5)):
                    read += len(part)
                struck += "1" if read < 5 else "0"
        return struck


def d05():
    first = pattern(7)
    ensure("0" in first and "1" in first, f"at toxicity 0.5 the pattern is {first}")
    equal(pattern(7), first, "the same seed again")
    other = pattern(8)
    ensure(other != first, f"two seeds, one pattern: {first}")


def d06(aconite):
    def answer_at_end(connection):
        """Answers only when the client has finished speaking."""
        read = b""
        while data := connection.recv(4096):
            read += data
        connection.sendall(b"read " + read)

    with TcpServer(answer_at_end) as upstream, proxy(aconite, "d06", upstream.address) as to, connect(to) as connection:
        connection.sendall(b"petal")
        connection.shutdown(socket.SHUT_WR)
        equal(read_exactly(connection, 10), b"read petal", "answer after the client's end")
        equal(connection.recv(1), b"", "end of the answer")


def reset_seen(connection):
    """Waits for the connection's end, which must be a reset."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        return
    raise Failure("the connection ended without a reset")


def d07_idle(aconite, upstream):
    with proxy(aconite, "d07", upstream.address) as to:
        aconite.want(200, "POST", "/proxies/d07/toxics", {"type": "reset_peer", "attributes": {"timeout": 50}})
        with connect(to) as connection:
            reset_seen(connection)


def d07_live(aconite, upstream):
    with proxy(aconite, "d07", upstream.address) as to, connect(to) as connection:
        round_trip(connection)
        prompt(aconite, "POST", "/proxies/d07/toxics", {"type": "reset_peer", "attributes": {"timeout": 0}})
        reset_seen(connection)


def d07_taken_back(aconite, upstream):
    with proxy(aconite, "d07", upstream.address) as to, connect(to) as connection:
        round_trip(connection)
        prompt(aconite, "POST", "/proxies/d07/toxics", {"type": "reset_peer", "attributes": {"timeout": 60000}})
        prompt(aconite, "GET", "/proxies")
        prompt(aconite, "DELETE", "/proxies/d07/toxics/reset_peer_downstream")
        round_trip(connection)


def d07_missed(aconite):
    def one_word(connection):
        connection.sendall(b"petal")

    with TcpServer(one_word) as upstream, proxy(aconite, "d07", upstream.address) as to:
        aconite.want(
            200, "POST", "/proxies/d07/toxics", {"type": "reset_peer", "toxicity": 0, "attributes": {"timeout": 0}}
        )
        with connect(to) as connection:
            equal(read_exactly(connection, 5), b"petal", "data")
            equal(connection.recv(1), b"", "end")


def d08(aconite, upstream):
    with proxy(aconite, "d08", upstream.address) as to, connect(to) as connection:
        aconite.want(
            200, "POST", "/proxies/d08/toxics", {"type": "timeout", "toxicity": 0, "attributes": {"timeout": 0}}
        )
        round_trip(connection)
        prompt(aconite, "DELETE", "/proxies/d08/toxics/timeout_downstream")
        round_trip(connection)


def d09(aconite, upstream):
    with contextlib.ExitStack() as stack:
        to = stack.enter_context(proxy(aconite, "d09", upstream.address))
        aconite.want(
            200, "POST", "/proxies/d09/toxics", {"type": "timeout", "toxicity": 0.5, "attributes": {"timeout": 0}}
        )
        connections = [stack.enter_context(connect(to)) for _ in range(16)]

        def answering():
            for connection in connections:
                connection.sendall(b".")
            deadline, heard = time.monotonic() + SILENCE, set()
            while (left := deadline - time.monotonic()) > 0 and len(heard) < len(connections):
                for readable in select.select([c for c in connections if c not in heard], [], [], left)[0]:
                    ensure(readable.recv(64), "a connection ended")
                    heard.add(readable)
            return "".join("1" if connection in heard else "0" for connection in connections)

        before = answering()
        ensure("0" in before and "1" in before, f"at toxicity 0.5 the pattern is {before}")
        for _ in range(5):
            aconite.want(200, "PATCH", "/proxies/d09/toxics/timeout_downstream", {})
            aconite.want(200, "POST", "/proxies/d09/toxics", {"type": "noop", "name": "neighbour"})
            aconite.want(204, "DELETE", "/proxies/d09/toxics/neighbour")
        equal(answering(), before, "connections that answer")


def d10(aconite, upstream):
    def sent():
        lines = aconite.api("GET", "/metrics").body.decode().splitlines()
        told = [
            line for line in lines if 'proxy="d10"' in line and "sent_bytes_total" in line and '"downstream"' in line
        ]
        ensure(len(told) == 1, f"the counter's lines: {told}")
        return float(told[0].split()[-1])

    with proxy(aconite, "d10", upstream.address) as to, connect(to) as connection:
        for count in (1, 2):
            round_trip(connection)
            # Bytes are counted once the kernel has them, when the client may have read them already.
            deadline = time.monotonic() + 2
            while sent() < 5.0 * count and time.monotonic() < deadline:
                time.sleep(0.01)
            equal(sent(), 5.0 * count, "bytes sent while the connection is open")


def d11_toxic(aconite, upstream):
    with proxy(aconite, "d11", upstream.address):
        aconite.want(
            200,
            "POST",
            "/proxies/d11/toxics",
            {"type": "latency", "name": "slow", "attributes": {"latency": 1, "jitter": 2}},
        )
        before = aconite.want(200, "GET", "/proxies/d11/toxics/slow")
        for body in (
            {"attributes": {"latency": 999, "jitter": "x"}},
            {"attributes": {"latency": 999, "jitter": 1.5}},
            {"toxicity": 0.1, "attributes": {"latency": "x"}},
            {"attributes": {"latency": 999}, "toxicity": "x"},
        ):
            aconite.want(400, "POST", "/proxies/d11/toxics/slow", body)
            equal(aconite.want(200, "GET", "/proxies/d11/toxics/slow"), before, f"the toxic after {body}")


def d11_proxy(aconite, upstream):
    with proxy(aconite, "d11", upstream.address) as to, connect(to) as connection:
        round_trip(connection)
        before = aconite.want(200, "GET", "/proxies/d11")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            answer = aconite.want(500, "POST", "/proxies/d11", {"listen": f"127.0.0.1:{port}"})
            equal(answer["error"], f"listen tcp 127.0.0.1:{port}: bind: address already in use", "error")
        equal(aconite.want(200, "GET", "/proxies/d11"), before, "the proxy after the failed update")
        round_trip(connection)
        with connect(to) as another:
            round_trip(another)


def d11_populate(aconite, upstream):
    with proxy(aconite, "d11", upstream.address) as to, socket.create_server(("127.0.0.1", 0)) as taken:
        before = aconite.want(200, "GET", "/proxies/d11")
        port = taken.getsockname()[1]
        aconite.want(
            500, "POST", "/populate", [{"name": "d11", "listen": f"127.0.0.1:{port}", "upstream": upstream.address}]
        )
        equal(aconite.want(200, "GET", "/proxies/d11"), before, "the proxy after the failed populate")
        with connect(to) as connection:
            round_trip(connection)


def d12(aconite):
    status, _, errors = execute(
        [BINARY, "serve", "--host", "127.0.0.1", "--port", aconite.port], aconite.environment, seconds=20
    )
    ensure(status != 0, f"exit status {status} with the API's port taken: {errors}")
    equal(aconite.api("GET", "/version").status, 200, "the first process answers")


def memory(process):
    """Resident memory in bytes."""
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise Failure("no memory figure")


def d13(aconite, flooding):
    """Eight floods behind a long delay: Toxiproxy holds up to 32 MiB for each."""
    with contextlib.ExitStack() as stack:
        to = stack.enter_context(proxy(aconite, "d13", flooding.address))
        aconite.want(200, "POST", "/proxies/d13/toxics", {"type": "latency", "attributes": {"latency": 60000}})
        before = memory(aconite.process)
        for _ in range(8):
            stack.enter_context(connect(to))
        held, steady = memory(aconite.process), 0
        deadline = time.monotonic() + 20
        # Filled once the figure has stood still for half a second.
        while steady < 5 and time.monotonic() < deadline:
            threading.Event().wait(0.1)
            now = memory(aconite.process)
            held, steady = now, steady + 1 if abs(now - held) < 256 * 1024 else 0
        grown = (held - before) / 2**20
        ensure(grown < 8 * 32 / 2, f"{grown:.0f} MiB held for eight connections")
        prompt(aconite, "DELETE", "/proxies/d13/toxics/latency_downstream")


def d14():
    config = {"proxies": []}
    with Aconite(config) as aconite, TcpServer(echo) as upstream:
        made = aconite.want(
            201,
            "POST",
            "/v1/proxies",
            {
                "name": "d14",
                "listen": "127.0.0.1:0",
                "upstream": upstream.address,
                "toxics": [{"name": "slow", "type": "latency", "attributes": {"latency": 200}}],
            },
        )
        started = time.monotonic()
        with connect(address(made)) as connection:
            round_trip(connection)
        ensure(time.monotonic() - started >= 0.2, "the first connection escaped the toxic")
        refused = aconite.api(
            "POST",
            "/v1/proxies",
            {
                "name": "d14-bad",
                "listen": "127.0.0.1:0",
                "upstream": upstream.address,
                "toxics": [{"name": "x", "type": "nectar"}],
            },
        )
        equal(refused.status, 400, "status with a bad toxic")
        equal(aconite.api("GET", "/v1/proxies/d14-bad").status, 404, "status of the proxy that was refused")


def d15(aconite):
    for method, path, body, status in (
        ("GET", "/nope", None, 404),
        ("GET", "/proxies/", None, 404),
        ("PUT", "/proxies", None, 405),
        ("GET", "/reset", None, 405),
        ("OPTIONS", "/proxies", None, 405),
        ("GET", "/proxies/none", None, 404),
        ("POST", "/proxies", b"{bad", 400),
        ("POST", "/populate", b"x", 400),
        ("POST", "/proxies", {"name": "x"}, 400),
    ):
        answer = aconite.api(method, path, body)
        equal(answer.status, status, f"{method} {path}: status")
        ensure(
            answer.headers.get("content-type", "").startswith("application/json"),
            f"{method} {path}: content type {answer.headers.get('content-type')!r}",
        )
        document = answer.json()
        ensure(
            isinstance(document.get("error"), str) and document.get("status") == status,
            f"{method} {path}: body {document}",
        )
