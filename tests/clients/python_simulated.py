"""The simulated providers, driven directly by the official clients of the APIs that they play: google-genai and anthropic.

What these clients understand and accept back is what the gateway is tried with in all other checks, so this shows that a
simulated Gemini is one, and a simulated Anthropic too. `run` starts the gateway with both; they listen on ports that it
chooses, which are found through the process (Linux only).

Environment: POINTSMAN_PID, the process of the gateway.
"""

import json
import os
import urllib.request
from pathlib import Path

import anthropic
from google import genai
from google.genai import errors, types

from harness import Checks, expect, raises, same

MODEL = {"sim-gemini": "gemini-3-pro", "sim-claude": "claude-sonnet-4-5"}
QUESTION = "What is the weather in Oslo and Rome?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

checks = Checks("python_simulated")


def listening(process: str) -> set[int]:
    """The ports on which a process listens at 127.0.0.1."""
    sockets = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        try:
            sockets.add(os.readlink(descriptor))
        except OSError:
            continue
    ports = set()
    for line in Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]:
        columns = line.split()
        if columns[3] == "0A" and f"socket:[{columns[9]}]" in sockets:
            ports.add(int(columns[1].split(":")[1], 16))
    return ports


def owner(port: int) -> str:
    """The simulated provider at a port; empty for anything else."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5) as answer:
            return json.load(answer)["data"][0]["owned_by"]
    except (OSError, KeyError, IndexError, ValueError):
        return ""


ADDRESS = {owner(port): f"http://127.0.0.1:{port}" for port in listening(os.environ["POINTSMAN_PID"])}
google = genai.Client(
    api_key="sk-any",
    http_options=types.HttpOptions(base_url=ADDRESS["sim-gemini"], api_version="v1", timeout=30_000),
)
claude = anthropic.Anthropic(base_url=ADDRESS["sim-claude"], api_key="sk-any", max_retries=0, timeout=30)
WEATHER = types.Tool(
    function_declarations=[types.FunctionDeclaration(name="get_weather", parameters_json_schema=CITY)]
)


def ask(contents, **config):
    """A plain answer of the simulated Gemini, and the same request streamed."""
    request = {
        "model": MODEL["sim-gemini"],
        "contents": contents,
        "config": types.GenerateContentConfig(
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True), **config
        ),
    }
    return google.models.generate_content(**request), list(google.models.generate_content_stream(**request))


def gemini_text() -> None:
    whole, chunks = ask("Say hello.")
    expect(whole.text, "no text")
    same(whole.candidates[0].finish_reason, types.FinishReason.STOP, "the finish reason")
    expect("".join(chunk.text or "" for chunk in chunks), "no streamed text")
    same(chunks[-1].candidates[0].finish_reason, types.FinishReason.STOP, "the last finish reason")
    for usage in (whole.usage_metadata, chunks[-1].usage_metadata):
        parts = [usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count or 0]
        same(usage.total_token_count, sum(parts), "the total of tokens")
    cut, _ = ask("Tell a long story.", max_output_tokens=3)
    same(cut.candidates[0].finish_reason, types.FinishReason.MAX_TOKENS, "the finish reason of a cut answer")


def gemini_calls() -> None:
    """Parallel calls carry one signature, on the first part, which must come back with it."""
    thinking = types.ThinkingConfig(include_thoughts=True, thinking_level="low")
    whole, chunks = ask(QUESTION, tools=[WEATHER], thinking_config=thinking)
    calls = [call for chunk in chunks for call in chunk.function_calls or []]
    for some in (whole.function_calls, calls):
        same([call.args for call in some], [{"city": "Oslo"}, {"city": "Rome"}], "the arguments")
    content = whole.candidates[0].content
    streamed = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    for parts in (content.parts, streamed):
        expect(any(part.thought and part.text for part in parts), "no thought is shown")
    called = [part for part in content.parts if part.function_call]
    same([part.thought_signature is not None for part in called], [True, False], "which calls are signed")
    results = [types.Part.from_function_response(name=call.name, response={"output": "rain"}) for call in whole.function_calls]
    turns = [
        types.Content(role="user", parts=[types.Part(text=QUESTION)]),
        content,
        types.Content(role="user", parts=results),
    ]
    for answer in (ask(turns, tools=[WEATHER])[0],):
        expect("rain" in answer.text, f"the result is not used: {answer.text}")
    called[0].thought_signature = b"of another model"
    fault = raises(errors.ClientError, lambda: ask(turns, tools=[WEATHER]))
    same((fault.code, fault.status), (400, "INVALID_ARGUMENT"), "code and status")


def gemini_modes() -> None:
    def mode(name: str, **more):
        calling = types.FunctionCallingConfig(mode=name, **more)
        answer, _ = ask("Hello.", tools=[WEATHER], tool_config=types.ToolConfig(function_calling_config=calling))
        return [call.name for call in answer.function_calls or []]

    same(mode("NONE"), [], "calls when none is wanted")
    same(mode("ANY", allowed_function_names=["get_weather"]), ["get_weather"], "calls when one is wanted")


def gemini_schema() -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    answer, _ = ask("Invent a person.", response_mime_type="application/json", response_json_schema=schema)
    expect(isinstance(json.loads(answer.text)["age"], int), f"not by the schema: {answer.text}")


def gemini_errors() -> None:
    fault = raises(errors.ClientError, lambda: google.models.generate_content(model="none-such", contents="Hello."))
    same((fault.code, fault.status), (404, "NOT_FOUND"), "code and status of an unknown model")


def claude_text() -> None:
    request = {"model": MODEL["sim-claude"], "max_tokens": 2000, "messages": [{"role": "user", "content": "Say hello."}]}
    answer = claude.messages.create(**request)
    same((answer.stop_reason, answer.content[0].type), ("end_turn", "text"), "the end and the block")
    expect(answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0, f"usage is {answer.usage}")
    with claude.messages.stream(**request) as events:
        streamed = events.get_final_message()
    expect(streamed.content[0].text and streamed.stop_reason == "end_turn", f"the stream gave {streamed}")
    counted = claude.messages.count_tokens(model=request["model"], messages=request["messages"])
    expect(counted.input_tokens > 0, "no tokens are counted")


def claude_thinking_and_calls() -> None:
    tool = {"name": "get_weather", "input_schema": CITY}
    common = {
        "model": MODEL["sim-claude"],
        "max_tokens": 4000,
        "tools": [tool],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    }
    first = claude.messages.create(messages=[{"role": "user", "content": QUESTION}], **common)
    kinds = [block.type for block in first.content]
    same((kinds[0], kinds.count("tool_use"), first.stop_reason), ("thinking", 2, "tool_use"), "the blocks")
    calls = [block for block in first.content if block.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"} for call in calls]
    turns = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]},
        {"role": "user", "content": results},
    ]
    second = claude.messages.create(messages=turns, **common)
    expect("rain" in second.content[-1].text, f"the result is not used: {second.content}")
    turns[1]["content"][0]["signature"] = "YW5vdGhlcg=="
    fault = raises(anthropic.BadRequestError, lambda: claude.messages.create(messages=turns, **common))
    same(fault.type, "invalid_request_error", "type of the refusal of a changed thought")


checks.check("a simulated Gemini answers in text, with usage that adds up", gemini_text)
checks.check("a simulated Gemini thinks, calls in parallel, and takes back what it signed only", gemini_calls)
checks.check("a simulated Gemini obeys the modes of calling", gemini_modes)
checks.check("a simulated Gemini answers by a schema", gemini_schema)
checks.check("a simulated Gemini refuses in the words of the API", gemini_errors)
checks.check("a simulated Anthropic answers, streams and counts", claude_text)
checks.check("a simulated Anthropic thinks, calls in parallel, and takes back what it signed only", claude_thinking_and_calls)
checks.finish()
