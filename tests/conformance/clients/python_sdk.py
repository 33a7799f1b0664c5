"""The official Python SDKs, unmodified, configured by the environment alone.

Reads one JSON request a line and answers each with one line:
    {"case": "openai/sync/chat.create", "http2": false, "timeout": 5, "retries": 0}
    {"outcome": "ok" | "error", "error": "openai.RateLimitError", "status": 429, "type": "tokens",
     "text": "...", "finish": "stop", "events": 7}
A client lives as long as the program, so that its connection pool meets the faults too.
"""

import asyncio
import json
import sys

import anthropic
import openai

PROMPT = "Name the parts of a flower, please: petals, sepals, stamens, pistil."
MESSAGES = [{"role": "user", "content": PROMPT}]
CHAT = {"model": "gpt-4o-mini", "messages": MESSAGES}
RESPONSES = {"model": "gpt-4o-mini", "input": PROMPT}
MESSAGE = {"model": "claude-sonnet-4-5", "max_tokens": 256, "messages": MESSAGES}


class Seen:
    """What the application saw before the call ended, however it ended."""

    def __init__(self):
        self.text, self.finish, self.events = "", None, 0

    def openai_chunk(self, chunk):
        self.events += 1
        for choice in getattr(chunk, "choices", None) or []:
            self.text += choice.delta.content or ""
            self.finish = choice.finish_reason or self.finish

    def openai_helper_event(self, event):
        self.events += 1
        if event.type == "content.delta":
            self.text += event.delta
        elif event.type == "chunk":
            for choice in event.chunk.choices:
                self.finish = choice.finish_reason or self.finish

    def response_event(self, event):
        self.events += 1
        if event.type == "response.output_text.delta":
            self.text += event.delta
        elif event.type == "response.completed":
            self.finish = event.response.status
        elif event.type in ("error", "response.failed"):
            self.finish = event.type

    def anthropic_event(self, event):
        self.events += 1
        if event.type == "content_block_delta" and event.delta.type == "text_delta":
            self.text += event.delta.text
        elif event.type == "message_delta":
            self.finish = event.delta.stop_reason


def client(provider, asynchronous, http2):
    module, name = (openai, "OpenAI") if provider == "openai" else (anthropic, "Anthropic")
    arguments = {}
    if http2:
        kind = "DefaultAsyncHttpxClient" if asynchronous else "DefaultHttpxClient"
        arguments["http_client"] = getattr(module, kind)(http2=True)
    return getattr(module, ("Async" if asynchronous else "") + name)(**arguments)


STREAMS = {
    "chat.create": (lambda c: c.chat.completions.create(stream=True, **CHAT), Seen.openai_chunk),
    "chat.stream": (lambda c: c.chat.completions.stream(**CHAT), Seen.openai_helper_event),
    "responses.create": (lambda c: c.responses.create(stream=True, **RESPONSES), Seen.response_event),
    "responses.stream": (lambda c: c.responses.stream(**RESPONSES), Seen.response_event),
    "messages.create": (lambda c: c.messages.create(stream=True, **MESSAGE), Seen.anthropic_event),
    "messages.stream": (lambda c: c.messages.stream(**MESSAGE), Seen.anthropic_event),
}
# The helpers are context managers whose final object is asked for afterwards, as their documentation shows.
FINAL = {"responses.stream": "get_final_response", "messages.stream": "get_final_message"}


def chat_plain(seen, answer):
    seen.text, seen.finish = answer.choices[0].message.content, answer.choices[0].finish_reason


def responses_plain(seen, answer):
    seen.text, seen.finish = answer.output_text, answer.status


def embeddings(seen, answer):
    seen.events, seen.text = len(answer.data), str(len(answer.data[0].embedding))


def models(seen, answer):
    seen.events, seen.text = len(answer.data), answer.data[0].id


def messages_plain(seen, answer):
    seen.text, seen.finish = answer.content[0].text, answer.stop_reason


PLAIN = {
    "chat": (lambda c: c.chat.completions.create(**CHAT), chat_plain),
    "responses": (lambda c: c.responses.create(**RESPONSES), responses_plain),
    "embeddings": (lambda c: c.embeddings.create(model="text-embedding-3-small", input=["petal", "sepal"]), embeddings),
    "models": (lambda c: c.models.list(), models),
    "messages": (lambda c: c.messages.create(**MESSAGE), messages_plain),
}


def run_sync(api, operation, seen):
    if operation in PLAIN:
        call, record = PLAIN[operation]
        record(seen, call(api))
        return
    call, record = STREAMS[operation]
    with call(api) as stream:
        for event in stream:
            record(seen, event)
        if operation in FINAL:
            getattr(stream, FINAL[operation])()


async def run_async(api, operation, seen):
    if operation in PLAIN:
        call, record = PLAIN[operation]
        record(seen, await call(api))
        return
    call, record = STREAMS[operation]
    opened = call(api)
    async with opened if hasattr(opened, "__aenter__") else await opened as stream:
        async for event in stream:
            record(seen, event)
        if operation in FINAL:
            await getattr(stream, FINAL[operation])()


def describe(error):
    kind = type(error)
    return {
        "outcome": "error",
        "error": f"{kind.__module__.split('.')[0]}.{kind.__qualname__}",
        "status": getattr(error, "status_code", None),
        "type": getattr(error, "type", None),
        "message": str(error)[:300],
    }


def main():
    clients, loop = {}, asyncio.new_event_loop()
    for line in sys.stdin:
        request = json.loads(line)
        provider, mode, operation = request["case"].split("/")
        key = provider, mode, request.get("http2", False)
        if key not in clients:
            clients[key] = client(provider, mode == "async", key[2])
        api = clients[key].with_options(timeout=request.get("timeout", 10), max_retries=request.get("retries", 0))
        seen = Seen()
        try:
            if mode == "async":
                loop.run_until_complete(run_async(api, operation, seen))
            else:
                run_sync(api, operation, seen)
            answer = {"outcome": "ok"}
        except Exception as error:  # every class that an SDK lets out is a result here
            answer = describe(error)
        answer.update(text=seen.text, finish=seen.finish, events=seen.events)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
