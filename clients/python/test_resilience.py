"""A program that streams from a language model must notice when the stream breaks."""

import json
import os
import urllib.error
import urllib.request
import uuid

import openai
import pytest

API = os.environ.get("ACONITE_URL", "http://127.0.0.1:8474") + "/v1"


def aconite(method, path, body=None):
    headers = {"authorization": f"Bearer {os.environ.get('ACONITE_TOKEN', '')}"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(API + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        pytest.fail(f"{method} {path}: {error.read().decode()}")
    except urllib.error.URLError as error:
        pytest.exit(f"no Aconite server at {API}: {error.reason}. Start one with `aconite serve`, or set ACONITE_URL", 1)


@pytest.fixture
def proxy():
    # A name of its own: test runs can share a server.
    name = f"pytest-{uuid.uuid4()}"
    yield aconite("POST", "/proxies", {"name": name, "listen": "127.0.0.1:0", "upstream": "sim://openai?tps=1000"})
    aconite("DELETE", f"/proxies/{name}")


def stream(proxy):
    """The program under test."""
    client = openai.OpenAI(base_url=f"http://{proxy['listen']}/v1", api_key="any", max_retries=0)
    chunks = client.chat.completions.create(model="gpt-4o", stream=True, messages=[{"role": "user", "content": "hello"}])
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def add_toxic(proxy, toxic):
    aconite("POST", f"/proxies/{proxy['name']}/toxics", toxic)


def struck(proxy):
    exchange = aconite("GET", f"/exchanges?proxy={proxy['name']}&wait=1")["exchanges"][-1]
    return [toxic["name"] for toxic in exchange["toxics"] if toxic["struck"]]


def test_healthy(proxy):
    assert "hello" in stream(proxy)


@pytest.mark.parametrize(("how", "error"), [("fin", openai.APIConnectionError), ("rst", openai.APIConnectionError)])
def test_a_broken_stream_raises(proxy, how, error):
    add_toxic(proxy, {"name": "cut", "type": "cut", "attributes": {"at": {"events": 3}, "how": how}})
    with pytest.raises(error):
        stream(proxy)
    assert struck(proxy) == ["cut"]


def test_a_rate_limit_is_the_providers_own(proxy):
    add_toxic(proxy, {"name": "limit", "type": "fail", "attributes": {"cause": "rate_limit"}})
    with pytest.raises(openai.RateLimitError) as raised:
        stream(proxy)
    assert raised.value.code == "rate_limit_exceeded"
    assert struck(proxy) == ["limit"]
