"""Drives a running gateway with the official Anthropic client for Python, as its users do.

Takes the base address and the key from the environment, where `run` puts them. Retries are off but in the checks of
retries, so that nothing the gateway answers is papered over. Every check of the translation runs at a model of another
dialect; `depot/claude` is at an endpoint of the Anthropic dialect.
"""

import asyncio
import base64
import json
import os
import struct
import uuid
import zlib

import anthropic
from anthropic import Anthropic, AsyncAnthropic
from harness import Checks, expect, raises, same

# The client appends /v1/messages by itself.
BASE_URL = os.environ["POINTSMAN_BASE_URL"].removesuffix("/v1")
# A second gateway, in front of scripted_provider.py; its models are called depot/….
SCRIPTED_URL = os.environ["POINTSMAN_SCRIPTED_BASE_URL"].removesuffix("/v1")
API_KEY = os.environ["POINTSMAN_API_KEY"]
# A model whose only provider answers every request with a 500.
FAILING_MODEL = os.environ["POINTSMAN_FAILING_MODEL"]

CHAT = "meadow/large"
# Both think: one at an endpoint of the chat dialect, one at an endpoint of this dialect.
THINKERS = ("depot/thinker", "depot/claude")
HELLO = [{"role": "user", "content": "Say hello, please. — ¡Grüße! 你好"}]
WEATHER = {
    "name": "get_weather",
    "description": "Get the current weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
THINKING = {"type": "enabled", "budget_tokens": 1024}

client = Anthropic(base_url=BASE_URL, api_key=API_KEY, max_retries=0, timeout=30)
scripted = Anthropic(base_url=SCRIPTED_URL, api_key=API_KEY, max_retries=0, timeout=30)
checks = Checks(f"python anthropic {anthropic.__version__}")


def client_for(model: str) -> Anthropic:
    return scripted if model.startswith(("depot/", "claude-")) else client


def say(model="service/auto", **more):
    """One plain message; `more` overrides the messages."""
    return client_for(model).messages.create(**{"model": model, "max_tokens": 2000, "messages": HELLO, **more})


def stream(model=CHAT, **more):
    """One streamed message, assembled by the client; the events too."""
    asked = {"model": model, "max_tokens": 2000, "messages": HELLO, **more}
    with client_for(model).messages.stream(**asked) as events:
        seen = [event.type for event in events]
        return events.get_final_message(), seen


def text_of(message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def calls_of(message) -> list:
    return [block for block in message.content if block.type == "tool_use"]


def user(text) -> dict:
    return {"role": "user", "content": text}


def results(calls) -> dict:
    content = [{"type": "tool_result", "tool_use_id": call.id, "content": f"{call.input['city']}: rain"} for call in calls]
    return {"role": "user", "content": content}


def png() -> str:
    """A grey pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"\x00\x80")
    whole = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return base64.b64encode(whole).decode()


def plain() -> None:
    message = say(system="Be brief.", stop_sequences=["NEVER"], metadata={"user_id": "passenger-1"})
    expect(message.id.startswith("gen-"), f"id is {message.id}")
    same((message.type, message.role, message.stop_reason), ("message", "assistant", "end_turn"), "the message")
    same([block.type for block in message.content], ["text"], "the blocks")
    expect(text_of(message), "the answer is empty")
    usage = message.usage
    expect(usage.input_tokens > 0 and usage.output_tokens > 0, f"usage is {usage}")
    same((usage.cache_read_input_tokens, usage.cache_creation_input_tokens), (0, 0), "cached tokens")


def headers() -> None:
    raw = client.messages.with_raw_response.create(model="service/auto", max_tokens=64, messages=HELLO)
    message = raw.parse()
    same(raw.headers.get("x-generation-id"), message.id, "x-generation-id")
    same(raw.headers.get("x-route-model"), message.model, "x-route-model")
    same(message._request_id, raw.headers.get("request-id"), "the request id")
    expect(message._request_id, "request-id is missing")


def streamed() -> None:
    message, events = stream()
    same((message.type, message.role, message.stop_reason), ("message", "assistant", "end_turn"), "the message")
    same((events[0], events[-1]), ("message_start", "message_stop"), "the first and last event")
    expect(events.count("text") > 3, f"only {events.count('text')} pieces of text")
    expect(text_of(message), "the stream said nothing")
    expect(message.usage.input_tokens > 0 and message.usage.output_tokens > 0, f"usage is {message.usage}")


def raw_events() -> None:
    events = list(say(model=CHAT, stream=True))
    start = next(event for event in events if event.type == "message_start").message
    expect(start.usage.input_tokens > 0, "message_start does not say how long the prompt is")
    same((start.content, start.stop_reason), ([], None), "what message_start says")
    last = events[-2]
    same((last.type, last.delta.stop_reason), ("message_delta", "end_turn"), "the event before the last")
    expect(last.usage.output_tokens > 0 and last.usage.input_tokens > 0, f"usage is {last.usage}")


def limited_length() -> None:
    message = say(model=CHAT, max_tokens=5)
    same(message.stop_reason, "max_tokens", "stop_reason")
    same(stream(max_tokens=5)[0].stop_reason, "max_tokens", "stop_reason of a stream")


def tools() -> None:
    for ask in (lambda **more: say(model=CHAT, **more), lambda **more: stream(**more)[0]):
        turns = [user("What is the weather in Oslo?")]
        first = ask(messages=turns, tools=[WEATHER])
        same(first.stop_reason, "tool_use", "stop_reason")
        (call,) = calls_of(first)
        same((call.name, call.input), ("get_weather", {"city": "Oslo"}), "the call")
        turns += [{"role": "assistant", "content": first.content}, results([call])]
        second = ask(messages=turns, tools=[WEATHER])
        same(second.stop_reason, "end_turn", "stop_reason after the result")
        expect(text_of(second), "no words after the tool's result")


def parallel_tools() -> None:
    turns = [user("What is the weather in Oslo and Rome?")]
    for model in (CHAT, *THINKERS):
        for ask in (say, lambda **more: stream(**more)[0]):
            first = ask(model=model, messages=turns, tools=[WEATHER])
            calls = calls_of(first)
            same([call.input for call in calls], [{"city": "Oslo"}, {"city": "Rome"}], f"the calls of {model}")
            expect(calls[0].id != calls[1].id, "two calls with one id")
            history = [*turns, {"role": "assistant", "content": first.content}, results(calls)]
            same(ask(model=model, messages=history, tools=[WEATHER]).stop_reason, "end_turn", f"the end at {model}")


def tool_choice() -> None:
    time = {**WEATHER, "name": "get_time"}
    one = say(model=CHAT, tools=[time, WEATHER], tool_choice={"type": "tool", "name": "get_weather"})
    same([call.name for call in calls_of(one)], ["get_weather"], "the tool that was chosen for it")
    same(len(calls_of(say(model=CHAT, tools=[time], tool_choice={"type": "any"}))), 1, "calls when one is wanted")
    same(calls_of(say(model=CHAT, tools=[time], tool_choice={"type": "none"})), [], "calls when none is wanted")
    single = say(
        model=CHAT,
        messages=[user("What is the weather in Oslo and Rome?")],
        tools=[WEATHER],
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
    )
    same(len(calls_of(single)), 1, "calls when they must not be parallel")


def tool_runner() -> None:
    """The client's own loop of calls and results."""

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Get the current weather of a city

        Args:
            city: The city
        """
        asked.append(city)
        return "rain"

    for streaming in (False, True):
        asked: list[str] = []
        turns = [user("What is the weather in Oslo?")]
        runner = client.beta.messages.tool_runner(
            model=CHAT, max_tokens=2000, tools=[get_weather], messages=turns, stream=streaming
        )
        last = runner.until_done()
        same((asked, last.stop_reason), (["Oslo"], "end_turn"), f"the loop, streaming {streaming}")


def thinking() -> None:
    for model in THINKERS:
        for ask in (say, lambda **more: stream(**more)[0]):
            turns = [user("Which track?")]
            first = ask(model=model, messages=turns, thinking=THINKING)
            same([block.type for block in first.content], ["thinking", "text"], f"the blocks of {model}")
            thought = first.content[0]
            same(thought.thinking, "The left track is free.", f"the thought of {model}")
            expect(thought.signature, f"the thought of {model} has no signature")
            turns += [{"role": "assistant", "content": first.content}, user("Sure?")]
            second = ask(model=model, messages=turns, thinking=THINKING)
            same(text_of(second), "Take the left track. Thoughts that came back: 1.", f"the second turn of {model}")


def thinking_elsewhere() -> None:
    """A conversation may go on at a model that did not think its thoughts, and would refuse them."""
    first = say(model="depot/thinker", messages=[user("Which track?")], thinking=THINKING)
    turns = [user("Which track?"), {"role": "assistant", "content": first.content}, user("Sure?")]
    second = say(model="depot/claude", messages=turns, thinking=THINKING)
    same(text_of(second), "Take the left track. Thoughts that came back: 0.", "the second turn")


def thinking_and_tools() -> None:
    for model in THINKERS:
        turns = [user("What is the weather in Oslo?")]
        first = say(model=model, messages=turns, tools=[WEATHER], thinking=THINKING)
        same([block.type for block in first.content], ["thinking", "tool_use"], f"the blocks of {model}")
        turns += [{"role": "assistant", "content": first.content}, results(calls_of(first))]
        second = say(model=model, messages=turns, tools=[WEATHER], thinking=THINKING)
        same(text_of(second), "The tool says: Oslo: rain Thoughts that came back: 1.", f"the second turn of {model}")


def images() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": png()}
    parts = [{"type": "image", "source": source}, {"type": "text", "text": "What is this?"}]
    for model in (CHAT, "depot/claude"):
        with_image = say(model=model, messages=[user(parts)])
        without = say(model=model, messages=[user(parts[1:])])
        expect(text_of(with_image), f"{model} says nothing about an image")
        expect(with_image.usage.input_tokens > without.usage.input_tokens, f"{model} did not get the image")
    turns = [user("What is the weather in Oslo?")]
    first = say(model=CHAT, messages=turns, tools=[WEATHER])
    result = {"type": "tool_result", "tool_use_id": calls_of(first)[0].id, "content": parts[:1]}
    turns += [{"role": "assistant", "content": first.content}, user([result])]
    expect(say(model=CHAT, messages=turns, tools=[WEATHER]).id, "no answer to a tool's image")
    fault = raises(anthropic.BadRequestError, lambda: say(model="meadow/small", messages=[user(parts)]))
    expect("image" in fault.body["error"]["message"], f"message: {fault.body['error']['message']}")


def structured_output() -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    config = {"format": {"type": "json_schema", "schema": schema}}
    message = say(model=CHAT, messages=[user("Invent a person.")], output_config=config)
    person = json.loads(text_of(message))
    same(sorted(person), ["age", "name"], "the members")


def counted() -> None:
    few = client.messages.count_tokens(model=CHAT, messages=HELLO).input_tokens
    many = client.messages.count_tokens(model=CHAT, messages=[user("word " * 500)], tools=[WEATHER]).input_tokens
    expect(0 < few < 100 and many > 400, f"counted {few} and {many} tokens")


def models() -> None:
    page = client.models.list(limit=2)
    same((len(page.data), page.has_more), (2, True), "the first page")
    names = [model.id for model in client.models.list(limit=2)]
    same(len(names), len(set(names)), "the number of different models on all pages")
    expect({CHAT, "meadow/small"} <= set(names), f"models are {names}")
    one = client.models.retrieve(CHAT)
    same((one.id, one.type, one.max_input_tokens), (CHAT, "model", 262144), "the model retrieved by its id")
    expect(one.display_name and one.created_at.year == 2026, f"odd entry {one}")
    fault = raises(anthropic.NotFoundError, lambda: client.models.retrieve("acme/none-such"))
    same(fault.type, "not_found_error", "type of an unknown model")


def names_of_claude() -> None:
    for name in ("claude-sonnet-5-5", "claude-haiku-4-5-20251001"):
        same(say(model=name).model, "depot/claude", f"what serves {name}")


def bad_key() -> None:
    stranger = Anthropic(base_url=BASE_URL, api_key="sk-nobody-knows-this-key", max_retries=0)
    fault = raises(
        anthropic.AuthenticationError,
        lambda: stranger.messages.create(model="service/auto", max_tokens=64, messages=HELLO),
    )
    same((fault.status_code, fault.type), (401, "authentication_error"), "status and type")
    expect("nobody-knows" not in fault.response.text, "the answer repeats the key")
    same(fault.body["request_id"], fault.request_id, "the request id")


def kinds_of_keys() -> None:
    """As a bearer token, as older clients send it, and both."""
    token = Anthropic(base_url=BASE_URL, auth_token=API_KEY, max_retries=0)
    both = Anthropic(base_url=BASE_URL, auth_token=API_KEY, max_retries=0, default_headers={"x-api-key": API_KEY})
    empty = {"x-api-key": API_KEY, "authorization": "", "anthropic-version": "2023-06-01"}
    older = Anthropic(base_url=BASE_URL, auth_token="", max_retries=0, default_headers=empty)
    for caller in (token, both, older):
        message = caller.messages.create(model="service/auto", max_tokens=64, messages=HELLO)
        expect(text_of(message), "no answer")


def unknown_model() -> None:
    for name in ("acme/none-such", "claude-none-such"):
        for streaming in (False, True):
            fault = raises(anthropic.NotFoundError, lambda: say(model=name, stream=streaming))
            same((fault.status_code, fault.type), (404, "not_found_error"), "status and type")
            expect(name in fault.body["error"]["message"], f"message: {fault.body['error']['message']}")


def bad_body() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png"}}
    table = [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages"),
        ({"messages": [user([image])]}, "messages[0].content[0].source"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"extra_body": {"temperature": 9}}, "temperature"),
        ({"extra_body": {"objective": "luckiest"}}, "objective"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "absent"}}, "tool_choice"),
    ]
    for body, word in table:
        fault = raises(anthropic.BadRequestError, lambda body=body: say(**body))
        same(fault.type, "invalid_request_error", f"type for {body}")
        expect(word in fault.body["error"]["message"], f"'{word}' is not in: {fault.body['error']['message']}")


def limits() -> None:
    for model in ("depot/limited", "depot/claude-limited"):
        fault = raises(anthropic.RateLimitError, lambda: say(model=model))
        same((fault.status_code, fault.type), (429, "rate_limit_error"), f"status and type of {model}")
        expect(int(fault.response.headers["retry-after"]) >= 1, "no retry-after")


def overloads() -> None:
    for streaming in (False, True):
        fault = raises(anthropic.OverloadedError, lambda: say(model="depot/overloaded", stream=streaming))
        same((fault.status_code, fault.type), (529, "overloaded_error"), "status and type")
        expect(fault.response.headers.get("retry-after"), "no retry-after")
        expect(fault.body["error"]["details"]["error_code"], f"no code in {fault.body}")


def retries() -> None:
    """The client repeats after an overload by itself, as the answer tells it."""
    patient = Anthropic(base_url=SCRIPTED_URL, api_key=API_KEY, max_retries=3, timeout=30)
    turns = [user(f"Try again, {uuid.uuid4()}")]
    raw = patient.messages.with_raw_response.create(model="depot/recovering", max_tokens=64, messages=turns)
    expect(text_of(raw.parse()), "no answer after the retries")


def broken_streams() -> None:
    def read() -> None:
        with scripted.messages.stream(model="depot/breaking", max_tokens=64, messages=HELLO) as events:
            heard.extend(event.type for event in events)

    heard: list[str] = []
    # The class follows from the status, which was 200.
    fault = raises(anthropic.APIStatusError, read)
    same(fault.type, "overloaded_error", "type of the error")
    expect("text" in heard, "no words before the break")


def fallbacks() -> None:
    for streaming in (False, True):
        answer = say(model=FAILING_MODEL, extra_body={"models": [CHAT]}, stream=streaming)
        served = next(iter(answer)).message if streaming else answer
        same(served.model, CHAT, "the model that served")


def objectives() -> None:
    for more in (
        {"extra_body": {"objective": "cheapest"}},
        {"extra_body": {"metadata": {"user_id": "x", "objective": "cheapest"}}},
    ):
        message = say(**more)
        story = client.get("/v1/route/explain", cast_to=object, options={"params": {"generation_id": message.id}})
        same(story["objective"], "cheapest", f"objective of {more}")


def native_tools() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    fault = raises(anthropic.BadRequestError, lambda: say(model=CHAT, tools=[search]))
    expect("tools[0].type" in fault.body["error"]["message"], f"message: {fault.body['error']['message']}")
    expect(say(model="depot/claude", tools=[search]).id, "refused where the dialect has it")


def betas() -> None:
    message = client.beta.messages.create(
        model=CHAT,
        max_tokens=64,
        messages=HELLO,
        betas=["context-management-2025-06-27"],
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
    )
    expect(message.content[0].text, "no answer to a request with a beta")


def at_once() -> None:
    async def one(session: AsyncAnthropic, number: int) -> str:
        turns = [user(f"Count to {number}.")]
        async with session.messages.stream(model="service/auto", max_tokens=2000, messages=turns) as events:
            message = await events.get_final_message()
        expect(text_of(message), f"stream {number} said nothing")
        return message.id

    async def all_of_them() -> list[str]:
        async with AsyncAnthropic(base_url=BASE_URL, api_key=API_KEY, max_retries=0, timeout=30) as session:
            return await asyncio.gather(*(one(session, number) for number in range(20)))

    same(len(set(asyncio.run(all_of_them()))), 20, "the number of generations")


checks.check("a plain message is answered", plain)
checks.check("ids and route travel in the headers", headers)
checks.check("a stream is assembled to a whole message", streamed)
checks.check("a stream tells its usage at both ends", raw_events)
checks.check("an answer that is cut says so", limited_length)
checks.check("a tool round trip works, plain and streamed", tools)
checks.check("parallel calls come apart and their results go back together", parallel_tools)
checks.check("tool_choice is obeyed", tool_choice)
checks.check("the client's own loop of tools works", tool_runner)
checks.check("thoughts go to the client and come back", thinking)
checks.check("thoughts of one provider do not trouble another", thinking_elsewhere)
checks.check("thoughts and calls stand together", thinking_and_tools)
checks.check("images go to models that take them", images)
checks.check("structured output parses", structured_output)
checks.check("tokens are counted", counted)
checks.check("models are listed in pages and retrieved", models)
checks.check("names of Claude models are understood", names_of_claude)
checks.check("a bad key raises AuthenticationError", bad_key)
checks.check("keys are taken in every header that clients use", kinds_of_keys)
checks.check("an unknown model raises NotFoundError", unknown_model)
checks.check("a bad body raises BadRequestError naming the field", bad_body)
checks.check("a rate limit raises RateLimitError", limits)
checks.check("an overload raises OverloadedError", overloads)
checks.check("the client's retries meet an answer", retries)
checks.check("a stream that breaks raises an error that may pass", broken_streams)
checks.check("a failing provider is fallen back from", fallbacks)
checks.check("objectives are taken from the body and from metadata", objectives)
checks.check("tools of the provider's own are refused where there are none", native_tools)
checks.check("betas are accepted", betas)
checks.check("twenty streams run at once", at_once)
checks.finish()
