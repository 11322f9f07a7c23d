"""The LiteLLM client, by its OpenAI and its Anthropic route."""

import json
import os
import sys

import litellm

openai_url, anthropic_url, key, task = os.environ["OPENAI_URL"], os.environ["ANTHROPIC_URL"], os.environ["KEY"], sys.argv[1]
litellm.telemetry = False
READ = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Reads a file",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}
routes = {
    "chat": {"model": "openai/depot/agent", "api_base": openai_url},
    "messages": {"model": "anthropic/depot/agent", "api_base": anthropic_url, "max_tokens": 2000},
}
for name, route in routes.items():
    for stream in (False, True):

        def ask(messages):
            answer = litellm.completion(**route, api_key=key, messages=messages, tools=[READ], stream=stream)
            return litellm.stream_chunk_builder(list(answer), messages=messages) if stream else answer

        turns = [{"role": "user", "content": task}]
        message = ask(turns).choices[0].message
        (call,) = message.tool_calls
        with open(json.loads(call.function.arguments)["path"], encoding="utf-8") as file:
            turns += [message, {"role": "tool", "tool_call_id": call.id, "content": file.read()}]
        print(f"{name}, stream {stream}: {ask(turns).choices[0].message.content!r}")
