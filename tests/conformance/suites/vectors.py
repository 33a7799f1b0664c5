"""Replays exchanges recorded from Toxiproxy's admin API and compares the answers, apart from what a compatible server may
do better: no `Logger` key, JSON error bodies with a JSON content type, the wording after "bad request body:", an empty list
instead of null, a browser's user agent alone is no reason for a refusal, names with an escaped slash are found, metrics are
there without a flag, a negative delay, which means none, is stored as 0, and a proxy without `listen` is on loopback.
"""

import json
import re

from harness import HERE, Aconite, ensure, equal, free_port, shorten

RECORDED = HERE / "data" / "toxiproxy-admin.jsonl"
# Proxies that existed before the recording began, with ports that the system chose.
EARLIER = ["n1", "rs"]
EARLIER_UPSTREAM = "127.0.0.1:18000"
RECORDED_VERSION, OUR_VERSION = "git", "2.12.0"
BROWSER = "Mozilla/5.0 (X11; Linux x86_64)"
REQUEST_ID = "x-toxiproxy-request-id"


def run(suite):
    exchanges = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    ports = {port: str(free_port()) for port in sorted(fixed_ports(exchanges))}
    with Aconite(command=["-host=127.0.0.1", "-port=0"], called="toxiproxy-server") as aconite:
        for name in EARLIER:
            aconite.want(201, "POST", "/proxies", {"name": name, "listen": "127.0.0.1:0", "upstream": EARLIER_UPSTREAM})
        for number, exchange in enumerate(exchanges, 1):
            answer = replay(aconite, exchange, ports)
            if exchange["m"] == "DELETE" and "%2F" in exchange["p"] and answer.status == 204:
                # Toxiproxy cannot address such a name: what follows in the recording still has that proxy.
                replay(aconite, created(exchanges, "a/b"), ports)
            title = f"{number:02d} {exchange['m']} {exchange['p']}"
            suite.check(title, check, exchange, answer, ports)


def fixed_ports(exchanges):
    """Ports that the recording's requests name for listening: each becomes a port that is free here."""
    return {port for exchange in exchanges for port in re.findall(r"127\.0\.0\.1:(28\d\d\d)", exchange["body"] or "")}


def created(exchanges, name):
    return next(each for each in exchanges if each["p"] == "/proxies" and f'"name": "{name}"' in (each["body"] or ""))


def replay(aconite, exchange, ports):
    body = substitute(exchange["body"], ports)
    headers = {"user-agent": BROWSER} if exchange["status"] == 403 else {}
    return aconite.api(exchange["m"], exchange["p"], None if body is None else body.encode(), headers)


def substitute(text, ports):
    return text and re.sub(r"127\.0\.0\.1:(28\d\d\d)", lambda match: f"127.0.0.1:{ports[match[1]]}", text)


def check(exchange, answer, ports):
    wanted_status, recorded = exchange["status"], substitute(exchange["resp"], ports)
    recorded = recorded and recorded.replace('"latency":-5', '"latency":0')
    # The two proxies that the recording creates without `listen`.
    recorded = recorded and re.sub(r'("name":"[pq]5","listen":")\[::\]:', r"\g<1>127.0.0.1:", recorded)
    if recorded and wanted_status < 400:
        recorded = recorded.replace('"proxies":null', '"proxies":[]')
    if wanted_status == 403:
        equal(answer.status, 200, "status: a user agent alone is never refused")
        return
    if ("%2F" in exchange["p"] or exchange["p"] == "/metrics") and answer.status in (200, 204):
        return
    equal(answer.status, wanted_status, f"{shorten(answer.body)}: status")
    if wanted_status in (404, 405) and not recorded.startswith("{"):
        unmatched(exchange, answer)
        return
    ensure(answer.headers.get(REQUEST_ID), "no request id")
    if not recorded:
        equal(answer.body, b"", "body")
        return
    content_type = answer.headers.get("content-type", "")
    ensure(content_type.startswith("application/json"), f"content type {content_type!r}")
    if wanted_status < 400:
        equal(content_type.replace(" ", ""), exchange["h"]["content-type"], "content type")
    text = answer.body.decode()
    if exchange["p"] == "/version":
        equal(text, recorded.replace(RECORDED_VERSION, OUR_VERSION), "body")
    elif int(exchange["h"]["content-length"]) > len(exchange["resp"].encode()):
        beginning(text, recorded)
    else:
        whole(text, recorded)


def unmatched(exchange, answer):
    """Toxiproxy answers these in plain text or not at all; here every error is JSON (a HEAD has no body)."""
    if exchange["m"] == "HEAD":
        equal(answer.body, b"", "body of an answer to HEAD")
        return
    document = answer.json()
    equal(document.get("status"), exchange["status"], "status in the body")
    ensure(document.get("error"), f"no error text in {shorten(answer.body)}")


def whole(text, recorded):
    equal(normal(json.loads(text)), normal(json.loads(recorded)), "body")
    # Key order is part of the shape: clients read lists of proxies by position.
    equal(key_order(normal(json.loads(text))), key_order(normal(json.loads(recorded))), "order of keys")


def beginning(text, recorded):
    """Only the first part of a long answer was kept."""
    found = unport(text)
    kept = unport(recorded.replace('"Logger":{},', "").replace('"UPSTREAM"', '"upstream"'))
    kept = kept[: kept.rindex(",")]
    found = found.replace('"UPSTREAM"', '"upstream"')
    ensure(found.startswith(kept), f"body: {shorten(found, 900)} does not begin with {shorten(kept, 900)}")


def unport(text):
    """Ports that the system chose differ from run to run; those of the requests are compared as they are."""
    return re.sub(r'("listen":"(?:127\.0\.0\.1|\[::\]):)\d+', r"\1PORT", text)


def without_logger(value):
    if isinstance(value, dict):
        return {key: without_logger(inner) for key, inner in value.items() if key != "Logger"}
    return [without_logger(inner) for inner in value] if isinstance(value, list) else value


def normal(value):
    """The parts that a compatible server must answer alike."""
    value = without_logger(value)
    if isinstance(value, list):
        return [normal(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    result = {key: normal(inner) for key, inner in value.items()}
    if isinstance(result.get("error"), str) and result["error"].startswith("bad request body:"):
        result["error"] = "bad request body: …"
    if "proxies" in result:
        result["proxies"] = result["proxies"] or []
    if isinstance(result.get("stream"), str):
        result["stream"] = result["stream"].lower()
    if isinstance(result.get("listen"), str):
        result["listen"] = unport(f'"listen":"{result["listen"]}"')
    return result


def key_order(value):
    if isinstance(value, dict):
        return [(key, key_order(inner)) for key, inner in value.items()]
    return [key_order(inner) for inner in value] if isinstance(value, list) else None
