"""What each client makes of each fault: measured with real providers' failures on the wire, and the same for injected ones.

A word in a table is the class that the client raises; `OK` means that the loop over the stream ends as if nothing had been,
`WAITS` that nothing happens for longer than the client's own timeout.
"""

ENDINGS = ["clean", "fin", "rst", "hang"]
OK, WAITS = "ok", "waits"


def row(clean, fin, rst, hang):
    return dict(zip(ENDINGS, (clean, fin, rst, hang), strict=True))


OPENAI_PYTHON = row(OK, "openai.APIConnectionError", "openai.APIConnectionError", "openai.APITimeoutError")
ANTHROPIC_PYTHON = row(OK, "httpx2.RemoteProtocolError", "httpx2.ReadError", "httpx2.ReadTimeout")
PYTHON_ENDINGS = {
    "openai/{}/chat.create": OPENAI_PYTHON,
    "openai/{}/chat.stream": OPENAI_PYTHON,
    "openai/{}/responses.create": OPENAI_PYTHON,
    "openai/{}/responses.stream": {**OPENAI_PYTHON, "clean": "builtins.RuntimeError"},
    "anthropic/{}/messages.create": ANTHROPIC_PYTHON,
    "anthropic/{}/messages.stream": ANTHROPIC_PYTHON,
}
# Over HTTP/2 a reset strikes the stream alone, which httpx2 reports as the server's breach of the protocol.
ANTHROPIC_PYTHON_H2 = {**ANTHROPIC_PYTHON, "rst": "httpx2.RemoteProtocolError"}
PYTHON_H2_ENDINGS = {
    case: ANTHROPIC_PYTHON_H2 if case.startswith("anthropic") else endings for case, endings in PYTHON_ENDINGS.items()
}
# Node's timeout does not cover the body: a silent stream is waited for.
NODE_ENDINGS = {
    "openai/chat.create": row(OK, "TypeError", "TypeError", WAITS),
    "openai/chat.stream": row("openai.OpenAIError", "openai.OpenAIError", "openai.OpenAIError", WAITS),
    "openai/responses.create": row(OK, "TypeError", "TypeError", WAITS),
    "anthropic/messages.create": row(OK, "TypeError", "TypeError", WAITS),
    "anthropic/messages.stream": row(
        "anthropic.AnthropicError", "anthropic.AnthropicError", "anthropic.AnthropicError", WAITS
    ),
}
# Over HTTP/2 `fin` resets the stream with CANCEL, and `rst` with INTERNAL_ERROR: the connection has other streams.
GO_ENDINGS = {
    1: row(OK, "ErrUnexpectedEOF", "ECONNRESET", "DeadlineExceeded"),
    2: row(OK, "StreamError", "StreamError", "DeadlineExceeded"),
}
JAVA_ENDINGS = {
    "urlconnection": row(OK, "IOException", "Reset", "Timeout"),
    "http1": row(OK, "IOException", "Reset", WAITS),
    "http2": row(OK, "StreamReset", "StreamReset", WAITS),
}
# curl's exit codes: 18 partial file, 28 timeout, 56 receive error, 92 a stream of HTTP/2 not closed cleanly.
CURL_ENDINGS = {1: row(0, 18, 56, 28), 2: row(0, 92, 92, 28)}

PYTHON_HEALTHY = {
    "openai/{}/chat": "stop",
    "openai/{}/responses": "completed",
    "openai/{}/embeddings": None,
    "openai/{}/models": None,
    "openai/{}/chat.create": "stop",
    "openai/{}/chat.stream": "stop",
    "openai/{}/responses.create": "completed",
    "openai/{}/responses.stream": "completed",
    "anthropic/{}/messages": "end_turn",
    "anthropic/{}/messages.create": "end_turn",
    "anthropic/{}/messages.stream": "end_turn",
}
NODE_HEALTHY = {
    "openai/chat": "stop",
    "openai/embeddings": None,
    "openai/chat.create": "stop",
    "openai/chat.stream": "stop",
    "openai/responses.create": "completed",
    "anthropic/messages": "end_turn",
    "anthropic/messages.create": "end_turn",
    "anthropic/messages.stream": "end_turn",
}

# (client, ending): java.net.http's InputStream throws as soon as it knows that the body has failed. Bytes that have come and
# that the application has not read by then are lost, so the number of events depends on how the client's threads are scheduled.
LOSES_EVENTS = {(client, how) for client in ("http1", "http2") for how in ("fin", "rst")}

# (toxic, attributes, case, wanted outcome, wanted fields)
PYTHON_FAULTS = [
    ("fail", {"cause": "rate_limit"}, "openai/{}/chat", "openai.RateLimitError", {"status": 429}),
    ("fail", {"cause": "rate_limit"}, "openai/{}/chat.create", "openai.RateLimitError", {"status": 429}),
    (
        "fail",
        {"cause": "rate_limit"},
        "anthropic/{}/messages",
        "anthropic.RateLimitError",
        {"status": 429, "type": "rate_limit_error"},
    ),
    (
        "fail",
        {"cause": "overloaded"},
        "anthropic/{}/messages",
        "anthropic.OverloadedError",
        {"status": 529, "type": "overloaded_error"},
    ),
    ("fail", {"cause": "overloaded"}, "anthropic/{}/messages.stream", "anthropic.OverloadedError", {"status": 529}),
    ("fail", {"cause": "overloaded"}, "openai/{}/chat", "openai.InternalServerError", {"status": 503}),
    ("fail", {"cause": "server_error"}, "openai/{}/chat", "openai.InternalServerError", {"status": 500}),
    (
        "fail",
        {"cause": "server_error"},
        "anthropic/{}/messages",
        "anthropic.InternalServerError",
        {"status": 500, "type": "api_error"},
    ),
    ("fail", {"cause": "context_length"}, "openai/{}/chat", "openai.BadRequestError", {"status": 400}),
    ("fail", {"cause": "context_length"}, "anthropic/{}/messages", "anthropic.BadRequestError", {"status": 400}),
    ("hang", {}, "openai/{}/chat", "openai.APITimeoutError", {}),
    ("hang", {}, "anthropic/{}/messages", "anthropic.APITimeoutError", {}),
    ("html", {"as": "proxy_200"}, "openai/{}/chat.create", OK, {"text": "", "events": 0}),
    ("html", {"as": "proxy_200"}, "anthropic/{}/messages.create", OK, {"text": "", "events": 0}),
    (
        "garble",
        {"at": {"events": 2}, "how": "half_json"},
        "openai/{}/chat.create",
        "json.JSONDecodeError",
        {"events": 2},
    ),
    ("garble", {"at": {"events": 3}, "how": "half_json"}, "anthropic/{}/messages.create", "json.JSONDecodeError", {}),
    (
        "stream_error",
        {"at": {"events": 3}, "cause": "server_error"},
        "openai/{}/chat.create",
        "openai.APIError",
        {"status": None, "events": 3},
    ),
    (
        "stream_error",
        {"at": {"events": 3}, "cause": "server_error"},
        "openai/{}/responses.create",
        OK,
        {"finish": "error", "events": 4},
    ),
    (
        "stream_error",
        {"at": {"events": 3}, "cause": "server_error"},
        "openai/{}/responses.stream",
        "builtins.RuntimeError",
        {},
    ),
    (
        "stream_error",
        {"at": {"events": 3}, "cause": "overloaded"},
        "anthropic/{}/messages.create",
        "anthropic.APIStatusError",
        {"status": 200, "type": "overloaded_error"},
    ),
    (
        "stream_error",
        {"at": {"events": 3}, "cause": "overloaded"},
        "anthropic/{}/messages.stream",
        "anthropic.APIStatusError",
        {"status": 200, "type": "overloaded_error"},
    ),
]
NODE_FAULTS = [
    ("fail", {"cause": "rate_limit"}, "openai/chat.create", "openai.RateLimitError", {"status": 429}),
    ("fail", {"cause": "rate_limit"}, "anthropic/messages", "anthropic.RateLimitError", {"status": 429}),
    (
        "fail",
        {"cause": "overloaded"},
        "anthropic/messages.create",
        "anthropic.OverloadedError",
        {"status": 529, "type": "overloaded_error"},
    ),
    ("fail", {"cause": "server_error"}, "openai/chat", "openai.InternalServerError", {"status": 500}),
    ("html", {"as": "proxy_200"}, "openai/chat.create", OK, {"text": "", "events": 0}),
    ("garble", {"at": {"events": 2}, "how": "half_json"}, "openai/chat.create", "SyntaxError", {"events": 2}),
    ("garble", {"at": {"events": 3}, "how": "half_json"}, "anthropic/messages.create", "SyntaxError", {}),
    (
        "stream_error",
        {"at": {"events": 3}, "cause": "server_error"},
        "openai/chat.create",
        "openai.APIError",
        {"status": None, "events": 3},
    ),
    (
        "stream_error",
        {"at": {"events": 3}, "cause": "overloaded"},
        "anthropic/messages.create",
        "anthropic.APIError",
        {"status": None, "type": "overloaded_error"},
    ),
]
