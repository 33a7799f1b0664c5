"""Official SDKs and standard HTTP clients, unmodified, with nothing but the environment of `aconite env`.

Healthy through interception first; then each of the four endings of a stream after three events, and the providers'
own failures, each with exactly the outcome that the same client has when a real provider fails in this way.
"""

import contextlib
import json
import socket
import ssl
import struct
import tempfile

from certificates import Authority
from harness import CACHE, HERE, PYTHON, Aconite, Failure, LineClient, TcpServer, ensure, equal, read_exactly
from harness import run as execute
from suites.sdk_outcomes import (
    ANTHROPIC_PYTHON,
    CURL_ENDINGS,
    GO_ENDINGS,
    JAVA_ENDINGS,
    LOSES_EVENTS,
    NODE_ENDINGS,
    NODE_FAULTS,
    NODE_HEALTHY,
    OK,
    PYTHON_ENDINGS,
    PYTHON_FAULTS,
    PYTHON_H2_ENDINGS,
    PYTHON_HEALTHY,
)

HOSTS = {"api.openai.com": "sim://openai", "api.anthropic.com": "sim://anthropic"}
CONFIG = {
    "seed": 1,
    "proxies": [
        {"name": "env", "protocol": "forward", "listen": "127.0.0.1:0", "intercept": list(HOSTS), "map": HOSTS}
    ],
}
# The client's own timeout where the proxy falls silent, and how much longer "it waits" is watched.
SHORT, PATIENCE = 1.0, 2.5


def run(suite):
    with Aconite(CONFIG) as aconite:
        environment = aconite.client_environment("env")
        python(suite, aconite, environment)
        node(suite, aconite, environment)
        raw(suite, aconite, environment, "go", [CACHE / "go" / "sdk"], "http", GO_ENDINGS)
        java = ["java", "-cp", f"{CACHE}/java/classes:{CACHE}/java/*", "Sdk"]
        raw(suite, aconite, environment, "java", java, "client", JAVA_ENDINGS)
        curl(suite, aconite, environment)


def python(suite, aconite, environment):
    """The Python SDKs: synchronous and asynchronous, over HTTP/1.1 and HTTP/2."""
    with LineClient([PYTHON, HERE / "clients" / "python_sdk.py"], environment) as sdk:
        for mode in ("sync", "async"):
            for version, http2, endings in (("h1", False, PYTHON_ENDINGS), ("h2", True, PYTHON_H2_ENDINGS)):
                prefix = f"python/{mode}/{version}"
                options = {"http2": http2}
                matrix = {case.format(mode): outcomes for case, outcomes in endings.items()}
                if mode == "sync" and not http2 and not resets_are_seen():
                    for case in ("messages.create", "messages.stream"):
                        matrix[f"anthropic/sync/{case}"] = {**ANTHROPIC_PYTHON, "rst": "httpx2.RemoteProtocolError"}
                healthy = {case.format(mode): finish for case, finish in PYTHON_HEALTHY.items()}
                faults = [
                    (kind, attributes, case.format(mode), *rest) for kind, attributes, case, *rest in PYTHON_FAULTS
                ]
                sdk_matrix(suite, aconite, sdk, prefix, options, healthy, matrix, faults)
        suite.check("python/retries", check_retries, aconite, sdk, "openai/sync/chat")


def resets_are_seen():
    """Whether this Python's blocking TLS sockets tell a reset from an end: versions before 3.13 take it for an end."""
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(folder)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(*authority.leaf("reset", ["DNS:reset.test"]))

        def reset(connection):
            with server.wrap_socket(connection, server_side=True) as stream:
                read_exactly(stream, 1)
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        trust = ssl.create_default_context(cafile=str(authority.pem))
        with TcpServer(reset) as peer, socket.create_connection(("127.0.0.1", peer.port), timeout=10) as connection:
            with trust.wrap_socket(connection, server_hostname="reset.test") as stream:
                stream.sendall(b".")
                try:
                    return stream.recv(1) != b""
                except ConnectionResetError:
                    return True


def node(suite, aconite, environment):
    """The Node SDKs on Node 20 with undici's dispatcher and on Node 24, which reads the proxy variables itself."""
    folder = CACHE / "node"
    for version in ("node20", "node24"):
        variables = dict(environment)
        if version == "node20":
            variables.pop("NODE_USE_ENV_PROXY", None)
        script = folder / "sdk.mjs"
        script.write_bytes((HERE / "clients" / "node" / "sdk.mjs").read_bytes())
        with LineClient([CACHE / "bin" / version, script], variables) as sdk:
            sdk_matrix(suite, aconite, sdk, version, {}, NODE_HEALTHY, NODE_ENDINGS, NODE_FAULTS)
            suite.check(f"{version}/retries", check_retries, aconite, sdk, "openai/chat")


def sdk_matrix(suite, aconite, sdk, prefix, options, healthy, endings, faults):
    """Healthy, then every ending, then every fault, then healthy again: a fault leaves nothing behind."""
    texts = {}
    for case, finish in healthy.items():
        suite.check(f"{prefix}/{case}/healthy", check_healthy, sdk, case, options, finish, texts)
    for case, outcomes in endings.items():
        for how, outcome in outcomes.items():
            suite.check(f"{prefix}/{case}/{how}", check_ending, aconite, sdk, case, options, how, outcome, texts)
    for kind, attributes, case, outcome, fields in faults:
        detail = attributes.get("cause") or attributes.get("how") or attributes.get("as") or "silence"
        name = f"{prefix}/{case}/{kind} {detail}"
        suite.check(name, check_fault, aconite, sdk, case, options, kind, attributes, outcome, fields)
    for case in ("chat.create", "messages.create"):
        for full, finish in healthy.items():
            if full.endswith(f"/{case}"):
                suite.check(f"{prefix}/{full}/healthy again", check_healthy, sdk, full, options, finish, texts)


def outcome_of(answer):
    return answer["error"] if answer["outcome"] == "error" else answer["outcome"]


def check_healthy(sdk, case, options, finish, texts):
    answer = sdk.ask({"case": case, "timeout": 10, **options})
    equal(outcome_of(answer), OK, f"{answer.get('message', '')}: outcome")
    equal(answer["finish"], finish, "why the model stopped")
    ensure(answer["text"], "no text came")
    if "stream" in case or "create" in case:
        ensure(answer["events"] > 5, f"only {answer['events']} events: too few to cut after three")
    equal(answer["text"], texts.setdefault(case, answer["text"]), "the same question answered differently")


def check_ending(aconite, sdk, case, options, how, outcome, texts):
    attributes = {"at": {"events": 3}, "how": how}
    timeout = SHORT if how == "hang" else 10
    with aconite.toxic("env", "cut", attributes=attributes):
        answer = sdk.ask({"case": case, "timeout": timeout, "patience": PATIENCE if how == "hang" else 30, **options})
    equal(outcome_of(answer), outcome, f"{answer.get('message', '')}: outcome")
    whole = texts.get(case)
    if whole is None:
        raise Failure("there is no healthy answer to compare with")
    ensure(
        whole.startswith(answer["text"]) and answer["text"] != whole,
        f"not a beginning of the answer: {answer['text']!r}",
    )
    if case.endswith("chat.create"):
        equal(answer["events"], 3, "events before the end")
    if "chat" in case:
        ensure(answer["text"], "no text of the first three events")
    if outcome == OK:
        equal(answer["finish"], None, "why the model stopped")


def check_fault(aconite, sdk, case, options, kind, attributes, outcome, fields):
    timeout = SHORT if kind == "hang" else 10
    with aconite.toxic("env", kind, attributes=attributes):
        answer = sdk.ask({"case": case, "timeout": timeout, "patience": 30, **options})
    equal(outcome_of(answer), outcome, f"{answer.get('message', '')}: outcome")
    for field, wanted in fields.items():
        equal(answer.get(field), wanted, field)


def check_retries(aconite, sdk, case):
    """Two refusals, then the answer: the SDK's own retries see a provider that recovers."""
    with aconite.toxic("env", "fail", attributes={"cause": "rate_limit"}, budget={"times": 2}):
        answer = sdk.ask({"case": case, "timeout": 10, "retries": 2})
        equal(outcome_of(answer), OK, f"{answer.get('message', '')}: outcome with two retries")
    with aconite.toxic("env", "fail", attributes={"cause": "rate_limit"}, budget={"times": 2}):
        answer = sdk.ask({"case": case, "timeout": 10, "retries": 1})
        equal(answer.get("status"), 429, "status with one retry")


def raw(suite, aconite, environment, language, command, choice, endings):
    """A language's own HTTP clients, without an SDK."""
    with LineClient(command, environment) as program:
        for variant, outcomes in endings.items():
            for provider, terminator in (("openai", "data: [DONE]"), ("anthropic", "event: message_stop")):
                prefix = f"{language}/{variant}/{provider}"
                ask = {"case": f"{provider}/stream", choice: variant, "timeout": 10}
                whole = {}
                suite.check(f"{prefix}/healthy", check_raw_healthy, program, ask, variant, terminator, whole)
                for how, outcome in outcomes.items():
                    suite.check(f"{prefix}/{how}", check_raw_ending, aconite, program, ask, how, outcome, whole)
                suite.check(
                    f"{prefix}/rate_limit", check_raw_rate_limit, aconite, program, {**ask, "case": f"{provider}/plain"}
                )


def check_raw_healthy(program, ask, variant, terminator, whole):
    answer = program.ask(ask)
    equal(outcome_of(answer), OK, f"{answer.get('message', '')}: outcome")
    equal(answer["status"], 200, "status")
    equal(answer["proto"], "HTTP/2.0" if variant in (2, "http2") else "HTTP/1.1", "protocol")
    ensure(terminator in answer["text"], f"no {terminator!r} at the end of {answer['text'][-200:]!r}")
    whole["text"] = answer["text"]


def check_raw_ending(aconite, program, ask, how, outcome, whole):
    with aconite.toxic("env", "cut", attributes={"at": {"events": 3}, "how": how}):
        patient = {"timeout": SHORT, "patience": PATIENCE} if how == "hang" else {}
        answer = program.ask({**ask, **patient})
    outcomes = outcome if isinstance(outcome, tuple) else (outcome,)
    ensure(
        outcome_of(answer) in outcomes,
        f"{answer.get('message', '')}: outcome {outcome_of(answer)!r} instead of {outcome!r}",
    )
    lossy = (ask.get("client"), how) in LOSES_EVENTS
    ensure(answer["events"] == 3 or lossy and answer["events"] < 3, f"{answer['events']} events before the end")
    ensure(
        comparable(whole.get("text", "")).startswith(comparable(answer["text"])),
        f"not the beginning of the healthy stream: {answer['text']!r}",
    )


def comparable(stream):
    """A stream without what differs from one answer to the next: ids and times."""
    lines = []
    for line in stream.splitlines():
        name, _, data = line.partition(": ")
        with contextlib.suppress(ValueError):
            document = json.loads(data)
            for part in (document, document.get("message", {})):
                for key in ("id", "created", "obfuscation"):
                    part.pop(key, None)
            line = f"{name}: {json.dumps(document)}"
        lines.append(line)
    return "\n".join(lines)


def check_raw_rate_limit(aconite, program, ask):
    with aconite.toxic("env", "fail", attributes={"cause": "rate_limit"}):
        answer = program.ask(ask)
    equal((outcome_of(answer), answer["status"]), (OK, 429), "outcome and status")
    ensure("error" in json.loads(answer["text"]), f"no provider's error: {answer['text']!r}")


def curl(suite, aconite, environment):
    for version, outcomes in CURL_ENDINGS.items():
        suite.check(f"curl/h{version}/healthy", check_curl, environment, version, 10, 0, None)
        for how, code in outcomes.items():
            suite.check(f"curl/h{version}/{how}", check_curl_ending, aconite, environment, version, how, code)


def check_curl_ending(aconite, environment, version, how, code):
    with aconite.toxic("env", "cut", attributes={"at": {"events": 3}, "how": how}):
        check_curl(environment, version, SHORT if how == "hang" else 10, code, 3)


def check_curl(environment, version, seconds, code, events):
    body = {
        "model": "gpt-4o-mini",
        "stream": True,
        "messages": [{"role": "user", "content": "Name the parts of a flower."}],
    }
    status, output, errors = execute(
        [
            "curl",
            "-sSN",
            "--max-time",
            seconds,
            "--http2" if version == 2 else "--http1.1",
            "-H",
            "content-type: application/json",
            "-H",
            f"authorization: Bearer {environment['OPENAI_API_KEY']}",
            "-d",
            json.dumps(body),
            "https://api.openai.com/v1/chat/completions",
        ],
        environment,
    )
    equal(status, code, f"{errors.strip()}: exit code")
    found = output.count(b"data: ")
    if events is None:
        ensure(output.rstrip().endswith(b"data: [DONE]"), f"no terminator: {output[-200:]!r}")
    else:
        equal(found, events, "events before the end")
