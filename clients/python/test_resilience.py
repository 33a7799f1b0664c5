"""A program that streams from a language model must notice when the stream breaks."""

import json
import os
import urllib.request

import openai
import pytest

API = os.environ.get("ACONITE_URL", "http://127.0.0.1:8474") + "/v1"


def aconite(method, path, body=None):
    headers = {"authorization": f"Bearer {os.environ.get('ACONITE_TOKEN', '')}"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(API + path, data, headers, method=method), timeout=10) as answer:
        return json.loads(answer.read() or b"null")


@pytest.fixture
def proxy():
    made = aconite("POST", "/proxies", {"name": "pytest", "listen": "127.0.0.1:0", "upstream": "sim://openai?tps=1000"})
    yield made
    aconite("DELETE", "/proxies/pytest")


def stream(proxy):
    """The program under test."""
    client = openai.OpenAI(base_url=f"http://{proxy['listen']}/v1", api_key="any", max_retries=0)
    chunks = client.chat.completions.create(model="gpt-4o", stream=True, messages=[{"role": "user", "content": "hello"}])
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def struck():
    exchange = aconite("GET", "/exchanges?proxy=pytest&wait=1")["exchanges"][-1]
    return [toxic["name"] for toxic in exchange["toxics"] if toxic["struck"]]


def test_healthy(proxy):
    assert "hello" in stream(proxy)


@pytest.mark.parametrize(("how", "error"), [("fin", openai.APIConnectionError), ("rst", openai.APIConnectionError)])
def test_a_broken_stream_raises(proxy, how, error):
    aconite("POST", "/proxies/pytest/toxics", {"name": "cut", "type": "cut", "attributes": {"at": {"events": 3}, "how": how}})
    with pytest.raises(error):
        stream(proxy)
    assert struck() == ["cut"]


def test_a_rate_limit_is_the_providers_own(proxy):
    aconite("POST", "/proxies/pytest/toxics", {"name": "limit", "type": "fail", "attributes": {"cause": "rate_limit"}})
    with pytest.raises(openai.RateLimitError) as raised:
        stream(proxy)
    assert raised.value.code == "rate_limit_exceeded"
    assert struck() == ["limit"]
