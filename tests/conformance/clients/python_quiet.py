"""What the official Python SDKs of five chat APIs read of one response, whole and streamed.

Reads one JSON request a line and answers each with one line:
    {"api": "gemini", "stream": true, "tools": false}
    {"outcome": "ok" | "error", "error": "...", "text": "...", "finish": "STOP", "model": "...", "usage": [57, 17],
     "tool": ["get_weather", "{...}"]}
"""

import json
import sys

import anthropic
import ollama
import openai
from google import genai
from google.genai import types

PROMPT = "Name the parts of a flower, please: petals, sepals, stamens, pistil."
CALLING = "Please call get_weather for Oslo."
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "The weather in a city", "parameters": PARAMETERS}


class Seen:
    """What the application reads. Members that it does not get stay as they are."""

    def __init__(self):
        self.text, self.finish, self.model, self.usage, self.tool = "", None, None, [None, None], None

    def add(self, text=None, finish=None, model=None, usage=None):
        self.text += text or ""
        self.finish = finish or self.finish
        self.model = model or self.model
        if usage:
            self.usage = [new if new is not None else old for old, new in zip(self.usage, usage, strict=True)]

    def call(self, name=None, arguments=None):
        known, text = self.tool or ["", ""]
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else json.dumps(arguments)
        self.tool = [known + (name or ""), text + arguments]


def openai_chat(seen, prompt, tools, stream):
    arguments = {"tools": [{"type": "function", "function": FUNCTION}]} if tools else {}
    if stream:
        arguments["stream_options"] = {"include_usage": True}
    made = openai.OpenAI(max_retries=0).chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}], stream=stream, **arguments
    )
    for part in made if stream else [made]:
        usage = part.usage and [part.usage.prompt_tokens, part.usage.completion_tokens]
        seen.add(model=part.model, usage=usage)
        for choice in part.choices:
            said = choice.delta if stream else choice.message
            seen.add(text=said.content, finish=choice.finish_reason)
            for call in said.tool_calls or []:
                seen.call(call.function.name, call.function.arguments)


def openai_responses(seen, prompt, tools, stream):
    arguments = {"tools": [{"type": "function", "strict": False, **FUNCTION}]} if tools else {}
    made = openai.OpenAI(max_retries=0).responses.create(
        model="gpt-4o-mini", input=prompt, stream=stream, **arguments
    )
    if not stream:
        return openai_response(seen, made, made.output_text, made.output)
    text, items = "", []
    for event in made:
        if event.type == "response.output_text.delta":
            text += event.delta
        elif event.type == "response.output_item.done":
            items.append(event.item)
        elif event.type in ("response.completed", "response.incomplete"):
            openai_response(seen, event.response, text, items)


def openai_response(seen, response, text, items):
    usage = response.usage and [response.usage.input_tokens, response.usage.output_tokens]
    why = response.incomplete_details.reason if response.incomplete_details else response.status
    seen.add(text=text, finish=why, model=response.model, usage=usage)
    for item in items:
        if item.type == "function_call":
            seen.call(item.name, item.arguments)


def anthropic_messages(seen, prompt, tools, stream):
    arguments = {"tools": [{"name": FUNCTION["name"], "input_schema": PARAMETERS}]} if tools else {}
    made = anthropic.Anthropic(max_retries=0).messages.create(
        model="claude-sonnet-4-5",
        max_tokens=256,
        messages=[{"role": "user", "content": prompt}],
        stream=stream,
        **arguments,
    )
    if not stream:
        usage = made.usage and [made.usage.input_tokens, made.usage.output_tokens]
        seen.add(finish=made.stop_reason, model=made.model, usage=usage)
        for block in made.content:
            if block.type == "text":
                seen.add(text=block.text)
            elif block.type == "tool_use":
                seen.call(block.name, block.input)
        return
    for event in made:
        if event.type == "message_start":
            usage = event.message.usage and [event.message.usage.input_tokens, None]
            seen.add(model=event.message.model, usage=usage)
        elif event.type == "content_block_start" and event.content_block.type == "tool_use":
            seen.call(event.content_block.name)
        elif event.type == "content_block_delta" and event.delta.type == "text_delta":
            seen.add(text=event.delta.text)
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            seen.call(None, event.delta.partial_json)
        elif event.type == "message_delta":
            usage = event.usage and [None, event.usage.output_tokens]
            seen.add(finish=event.delta.stop_reason, usage=usage)


def gemini(seen, prompt, tools, stream):
    client = genai.Client(api_key="gemini-conformance")
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[FUNCTION])] if tools else None)
    arguments = {"model": "gemini-2.5-flash", "contents": prompt, "config": config}
    models = client.models
    made = models.generate_content_stream(**arguments) if stream else [models.generate_content(**arguments)]
    for part in made:
        usage = part.usage_metadata
        usage = usage and [usage.prompt_token_count, usage.candidates_token_count]
        seen.add(model=part.model_version, usage=usage)
        for candidate in part.candidates or []:
            seen.add(finish=candidate.finish_reason and candidate.finish_reason.name)
            for piece in (candidate.content and candidate.content.parts) or []:
                seen.add(text=piece.text)
                if piece.function_call:
                    seen.call(piece.function_call.name, piece.function_call.args)


def ollama_chat(seen, prompt, tools, stream):
    arguments = {"tools": [{"type": "function", "function": FUNCTION}]} if tools else {}
    made = ollama.Client(host="https://ollama.com").chat(
        model="llama3.2", messages=[{"role": "user", "content": prompt}], stream=stream, **arguments
    )
    for part in made if stream else [made]:
        usage = [part.prompt_eval_count, part.eval_count]
        seen.add(text=part.message.content, finish=part.done_reason, model=part.model, usage=usage)
        for call in part.message.tool_calls or []:
            seen.call(call.function.name, dict(call.function.arguments))


APIS = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic_messages,
    "gemini": gemini,
    "ollama": ollama_chat,
}


def main():
    for line in sys.stdin:
        request = json.loads(line)
        seen, answer = Seen(), {"outcome": "ok"}
        prompt = CALLING if request["tools"] else PROMPT
        try:
            APIS[request["api"]](seen, prompt, request["tools"], request["stream"])
        except Exception as error:  # every class that an SDK lets out is a result here
            kind = type(error)
            name = f"{kind.__module__.split('.')[0]}.{kind.__qualname__}"
            answer = {"outcome": "error", "error": name, "message": str(error)[:300]}
        print(json.dumps({**answer, **vars(seen)}), flush=True)


if __name__ == "__main__":
    main()
