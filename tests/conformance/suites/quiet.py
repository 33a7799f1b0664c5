"""Faults that no status and no ending tells of: what the official SDKs of five chat APIs read of them.

The SDKs hand such responses to the application as they are; where one checks more, it says so here.
"""

from harness import HERE, PYTHON, Aconite, LineClient, ensure, equal

HOSTS = {
    "api.openai.com": "sim://openai?tps=400",
    "api.anthropic.com": "sim://anthropic?tps=400",
    "generativelanguage.googleapis.com": "sim://gemini?tps=400",
    "ollama.com": "sim://ollama?tps=400",
}
CONFIG = {
    "seed": 1,
    "proxies": [
        {"name": "env", "protocol": "forward", "listen": "127.0.0.1:0", "intercept": list(HOSTS), "map": HOSTS}
    ],
}
APIS = ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"]
# The words for: all is said, the limit on tokens.
ENDED = dict(zip(APIS, ("stop", "completed", "end_turn", "STOP", "stop"), strict=True))
LENGTH = dict(zip(APIS, ("length", "max_output_tokens", "max_tokens", "MAX_TOKENS", "length"), strict=True))
FALSE = "The moon is made of cheese."


def run(suite):
    with Aconite(CONFIG) as aconite:
        environment = aconite.client_environment("env")
        with LineClient([PYTHON, HERE / "clients" / "python_quiet.py"], environment) as sdk:
            for api in APIS:
                for stream in (False, True):
                    prefix = f"{api}/{'stream' if stream else 'document'}"
                    healthy = {}
                    suite.check(f"{prefix}/healthy", check_healthy, sdk, api, stream, healthy)
                    for name, check in CHECKS.items():
                        suite.check(f"{prefix}/{name}", check, aconite, sdk, api, stream, healthy)


def ask(sdk, api, stream, tools=False):
    return sdk.ask({"api": api, "stream": stream, "tools": tools})


def with_fault(aconite, sdk, api, stream, kind, attributes, tools=False):
    with aconite.toxic("env", kind, attributes=attributes):
        return ask(sdk, api, stream, tools)


def read(answer):
    equal(answer["outcome"], "ok", answer.get("message", "outcome"))
    return answer


def check_healthy(sdk, api, stream, healthy):
    text = read(ask(sdk, api, stream))
    tool = read(ask(sdk, api, stream, tools=True))
    equal(text["finish"], ENDED[api], "why the model stopped")
    ensure(len(text["text"].split()) > 8, f"too short to be cut: {text['text']!r}")
    ensure(all(count and count > 0 for count in text["usage"]), f"usage: {text['usage']}")
    equal(tool["tool"][0], "get_weather", "the tool that is called")
    ensure("city" in tool["tool"][1], f"arguments: {tool['tool']}")
    healthy.update(text=text, tool=tool)


def same_but(healthy, answer, *changed):
    for member in ("text", "finish", "model", "usage", "tool"):
        if member not in changed:
            equal(answer[member], healthy[member], member)


def check_length(aconite, sdk, api, stream, healthy):
    answer = read(with_fault(aconite, sdk, api, stream, "finish", {"reason": "length", "keep": 3}))
    equal(answer["finish"], LENGTH[api], "why the model stopped")
    whole = healthy["text"]["text"]
    ensure(answer["text"] and whole.startswith(answer["text"]), f"no beginning of the text: {answer['text']!r}")
    ensure(len(answer["text"]) < len(whole), "nothing was cut")
    same_but(healthy["text"], answer, "text", "finish")


def check_content(aconite, sdk, api, stream, healthy):
    answer = read(with_fault(aconite, sdk, api, stream, "content", {"how": "replace", "corpus": [FALSE]}))
    equal(answer["text"], FALSE, "text")
    same_but(healthy["text"], answer, "text")
    answer = read(with_fault(aconite, sdk, api, stream, "content", {"how": "empty"}))
    equal(answer["text"], "", "text")


def check_model(aconite, sdk, api, stream, healthy):
    answer = read(with_fault(aconite, sdk, api, stream, "model", {"served": "another-1"}))
    equal(answer["model"], "another-1", "model")
    same_but(healthy["text"], answer, "model")


def check_usage(aconite, sdk, api, stream, healthy):
    answer = read(with_fault(aconite, sdk, api, stream, "usage", {"how": "zero"}))
    equal(answer["usage"], [0, 0], "usage")
    answer = read(with_fault(aconite, sdk, api, stream, "usage", {"how": "inflate", "factor": 3}))
    equal(answer["usage"], [3 * count for count in healthy["text"]["usage"]], "usage")
    answer = read(with_fault(aconite, sdk, api, stream, "usage", {"how": "missing"}))
    equal(answer["usage"], [None, None], "usage")
    same_but(healthy["text"], answer, "usage")


def check_tool(aconite, sdk, api, stream, healthy):
    answer = read(with_fault(aconite, sdk, api, stream, "tool_call", {"how": "unknown_tool"}, tools=True))
    equal(answer["tool"], ["nonexistent_tool", healthy["tool"]["tool"][1]], "tool")
    same_but(healthy["tool"], answer, "tool")
    answer = read(with_fault(aconite, sdk, api, stream, "tool_call", {"how": "empty_args"}, tools=True))
    ensure(answer["tool"][1] in ("", "{}"), f"arguments: {answer['tool']}")


CHECKS = {
    "finish length": check_length,
    "content": check_content,
    "model": check_model,
    "usage": check_usage,
    "tool_call": check_tool,
}
