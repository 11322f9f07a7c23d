"""Holds answers and events of the Responses API against what Open Responses requires (openresponses.org, schema of 2026-04).

Requests of the kinds of its compliance suite, and some that leave out what answers must have, at a provider of every dialect:
each Response, item, tool and event must have its required members, of the required types. Requests for what a gateway without
storage does not have (files, earlier
responses) must be refused by name.
"""

import json
import os
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from harness import Checks, expect, same

BASE_URL = os.environ["POINTSMAN_BASE_URL"]
API_KEY = os.environ["POINTSMAN_API_KEY"]
# A model, and the provider that must serve it: one of each dialect.
ROUTES = [("meadow/large", "sim-swift")] + [("beacon/think", f"sim-{name}") for name in ("opal", "jade", "onyx", "amber")]

# ---- the schema. A shape is a type, a text that must be just that, a list with the shape of its elements, an object with the
# shapes of its members ("?" behind a name: may be absent), a tuple of alternatives, or None for null.

NUMBER = (int, float)
STATUS = ("in_progress", "completed", "incomplete")
TEXT_OR_NULL, INTEGER_OR_NULL = (str, None), (int, None)
ANNOTATION = {"type": "url_citation", "url": str, "title": str, "start_index": int, "end_index": int}
TOKEN = {"token": str, "logprob": NUMBER, "bytes": [int]}
LOGPROB = {**TOKEN, "top_logprobs": [TOKEN]}
PART = (
    {"type": "output_text", "text": str, "annotations": [ANNOTATION], "logprobs?": [LOGPROB]},
    {"type": "refusal", "refusal": str},
    {"type": ("reasoning_text", "summary_text"), "text": str},
)
ITEM = (
    {"type": "message", "id": str, "status": STATUS, "role": "assistant", "content": [PART]},
    {"type": "function_call", "id": str, "call_id": str, "name": str, "arguments": str, "status": STATUS},
    {"type": "reasoning", "id": str, "summary": [PART], "content?": [PART], "encrypted_content?": TEXT_OR_NULL},
)
FUNCTION = {"type": "function", "name": str, "description": TEXT_OR_NULL, "parameters": (dict, None), "strict": (bool, None)}
CHOICE = ("none", "auto", "required", {"type": "function", "name?": str}, {"type": "allowed_tools", "tools": list, "mode": str})
SCHEMA = {"type": "json_schema", "name": str, "description": TEXT_OR_NULL, "schema": (dict, None), "strict": bool}
FORMAT = ({"type": ("text", "json_object")}, SCHEMA)
RESPONSE = {
    "id": str,
    "object": "response",
    "created_at": int,
    "completed_at": INTEGER_OR_NULL,
    "status": str,
    "incomplete_details": ({"reason": str}, None),
    "model": str,
    "previous_response_id": TEXT_OR_NULL,
    "instructions": TEXT_OR_NULL,
    "output": [ITEM],
    "error": ({"code": str, "message": str}, None),
    "tools": [FUNCTION],
    "tool_choice": CHOICE,
    "truncation": ("auto", "disabled"),
    "parallel_tool_calls": bool,
    "text": {"format": FORMAT, "verbosity?": ("low", "medium", "high")},
    "top_p": NUMBER,
    "presence_penalty": NUMBER,
    "frequency_penalty": NUMBER,
    "top_logprobs": int,
    "temperature": NUMBER,
    "reasoning": ({"effort": TEXT_OR_NULL, "summary": TEXT_OR_NULL}, None),
    "usage": (
        {
            "input_tokens": int,
            "output_tokens": int,
            "total_tokens": int,
            "input_tokens_details": {"cached_tokens": int},
            "output_tokens_details": {"reasoning_tokens": int},
        },
        None,
    ),
    "max_output_tokens": INTEGER_OR_NULL,
    "max_tool_calls": INTEGER_OR_NULL,
    "store": bool,
    "background": bool,
    "service_tier": str,
    "metadata": dict,
    "safety_identifier": TEXT_OR_NULL,
    "prompt_cache_key": TEXT_OR_NULL,
}
IN_ITEM = {"item_id": str, "output_index": int}
IN_CONTENT = {**IN_ITEM, "content_index": int}
IN_SUMMARY = {**IN_ITEM, "summary_index": int}
EVENTS = {
    **{f"response.{name}": {"response": RESPONSE} for name in ("created", "in_progress", "completed", "failed", "incomplete")},
    **{f"response.output_item.{name}": {"output_index": int, "item": ITEM} for name in ("added", "done")},
    **{f"response.content_part.{name}": {**IN_CONTENT, "part": PART} for name in ("added", "done")},
    **{f"response.reasoning_summary_part.{name}": {**IN_SUMMARY, "part": PART} for name in ("added", "done")},
    "response.output_text.delta": {**IN_CONTENT, "delta": str, "logprobs?": [LOGPROB]},
    "response.output_text.done": {**IN_CONTENT, "text": str, "logprobs?": [LOGPROB]},
    "response.refusal.delta": {**IN_CONTENT, "delta": str},
    "response.refusal.done": {**IN_CONTENT, "refusal": str},
    "response.reasoning_text.delta": {**IN_CONTENT, "delta": str},
    "response.reasoning_text.done": {**IN_CONTENT, "text": str},
    "response.reasoning_summary_text.delta": {**IN_SUMMARY, "delta": str},
    "response.reasoning_summary_text.done": {**IN_SUMMARY, "text": str},
    "response.function_call_arguments.delta": {**IN_ITEM, "delta": str},
    "response.function_call_arguments.done": {**IN_ITEM, "arguments": str},
}


def fault(value, shape, path: str) -> str | None:
    """What is wrong with a value, if anything is."""
    if isinstance(shape, tuple):
        faults = [fault(value, one, path) for one in shape]
        if None in faults:
            return None
        # The alternative of the value's own type says most.
        kind = value.get("type") if isinstance(value, dict) else None
        said = [one for one, choice in zip(faults, shape) if isinstance(choice, dict) and kind in (choice.get("type"), *alternatives(choice))]
        return said[0] if said else f"{path} is {json.dumps(value)[:80]}"
    if shape is None or isinstance(shape, str):
        return None if value == shape else f"{path} is {json.dumps(value)[:80]}, not {json.dumps(shape)}"
    if isinstance(shape, type):
        fits = isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
        return None if fits else f"{path} is {json.dumps(value)[:80]}, not of type {shape.__name__}"
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{path} is no list"
        return next(filter(None, (fault(one, shape[0], f"{path}[{at}]") for at, one in enumerate(value))), None)
    if not isinstance(value, dict):
        return f"{path} is {json.dumps(value)[:80]}, not an object"
    for name, inner in shape.items():
        member = name.removesuffix("?")
        if member in value:
            found = fault(value[member], inner, f"{path}.{member}")
            if found:
                return found
        elif member == name:
            return f"{path}.{member} is missing"
    return None


def alternatives(shape: dict) -> tuple:
    kind = shape.get("type")
    return kind if isinstance(kind, tuple) else ()


# ---- the calls


def call(body: dict, route: tuple[str, str] | None) -> tuple[int, bytes]:
    model, provider = route or ROUTES[0]
    body = {"model": model, "provider": {"only": [provider], "allow_fallbacks": False}, **body}
    headers = {"authorization": f"Bearer {API_KEY}", "content-type": "application/json"}
    asked = urllib.request.Request(f"{BASE_URL}/responses", json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read()


def events_of(text: str) -> list[dict]:
    """The events of a stream; each names its type twice."""
    events = []
    for block in text.replace("\r\n", "\n").split("\n\n"):
        lines = [line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":")]
        data = "".join(value for name, value in lines if name == "data")
        if not data or data == "[DONE]":
            continue
        event = json.loads(data)
        same(dict(lines).get("event"), event["type"], "the name of an event")
        events.append(event)
    return events


def whole(body: dict, wanted: str, route) -> None:
    status, text = call(body, route)
    same(status, 200, f"status of {text[:300]!r}")
    finished(json.loads(text), wanted)


def streamed(body: dict, wanted: str, route) -> None:
    status, text = call({**body, "stream": True}, route)
    same(status, 200, f"status of {text[:300]!r}")
    events = events_of(text.decode())
    for number, event in enumerate(events):
        expect(event["type"] in EVENTS, f"there is no event {event['type']}")
        wrong = fault(event, {"sequence_number": int, **EVENTS[event["type"]]}, event["type"])
        expect(wrong is None, wrong or "")
        same(event["sequence_number"], number, "the sequence number")
    same([events[0]["type"], events[-1]["type"]], ["response.created", "response.completed"], "first and last event")
    if wanted == "function_call":
        kinds = [event["type"] for event in events]
        for kind in ("response.function_call_arguments.delta", "response.function_call_arguments.done"):
            expect(kind in kinds, f"there is no {kind}")
    for end in ("added", "done"):
        items = [event["item"]["type"] for event in events if event["type"] == f"response.output_item.{end}"]
        expect(wanted in items, f"no {wanted} was {end}: {items}")
    finished(events[-1]["response"], wanted)


def finished(response: dict, wanted: str) -> None:
    wrong = fault(response, RESPONSE, "response")
    expect(wrong is None, wrong or "")
    same(response["status"], "completed", "status")
    expect(wanted in [item["type"] for item in response["output"]], f"no {wanted} in {response['output']}")


def refused(body: dict, name: str) -> None:
    """What the gateway does not keep is refused with a 400 that names it."""
    status, text = call(body, None)
    same(status, 400, f"status of {text[:300]!r}")
    error = json.loads(text)["error"]
    expect(name in (error["param"] or "") or name in error["message"], f"{name} is not named in {error}")


def said(role: str, content) -> dict:
    return {"type": "message", "role": role, "content": content}


PARAMETERS = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]}
OBJECT = {"type": "json_schema", "name": "place", "schema": PARAMETERS}
TOOL = {"type": "function", "name": "get_weather", "description": "The weather at a place", "parameters": PARAMETERS}
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LOOK = [{"type": "input_text", "text": "What is in this picture?"}, {"type": "input_image", "image_url": PIXEL}]
TURNS = [said("user", "My name is Ida."), said("assistant", "Good day, Ida."), said("user", "What is my name?")]
WEATHER = {"input": [said("user", "How is the weather in Oslo?")], "tools": [TOOL], "tool_choice": "required"}
SERVED = [
    ("a text", whole, {"input": [said("user", "Say hello in three words.")]}, "message"),
    ("a stream", streamed, {"input": [said("user", "Count from 1 to 5.")]}, "message"),
    ("words of the system", whole, {"input": [said("system", "Be brief."), said("user", "Say hello.")]}, "message"),
    ("a call of a tool", whole, WEATHER, "function_call"),
    ("a streamed call of a tool", streamed, WEATHER, "function_call"),
    ("a picture", whole, {"input": [said("user", LOOK)]}, "message"),
    ("several turns", whole, {"input": TURNS}, "message"),
    ("an effort without a summary", whole, {"input": "Say hello.", "reasoning": {"effort": "low"}}, "message"),
    ("words without a format", whole, {"input": "Say hello.", "text": {"verbosity": "low"}}, "message"),
    ("a schema that is not strict", whole, {"input": "Say hello.", "text": {"format": OBJECT}}, "message"),
    ("several turns, streamed", streamed, {"input": TURNS, "instructions": "Be brief."}, "message"),
]
REFUSED = [
    ("a file of a store", {"input": [said("user", [{"type": "input_file", "file_id": "file_1"}])]}, "file"),
    ("an earlier response", {"input": "And then?", "previous_response_id": "resp_1"}, "previous_response_id"),
]

checks = Checks("open responses")


def readers_of_pictures() -> set[str]:
    with urllib.request.urlopen(f"{BASE_URL}/models?input_modalities=image", timeout=10) as answer:
        return {model["id"] for model in json.load(answer)["data"]}


def outcome(body) -> Exception | None:
    try:
        body()
    except Exception as wrong:
        return wrong
    return None


def settle(wrong: Exception | None) -> None:
    if wrong is not None:
        raise wrong


seeing = readers_of_pictures()
asked = [
    (f"{name}, {route[1]}", lambda run=run, body=body, wanted=wanted, route=route: run(body, wanted, route))
    for route in ROUTES
    for name, run, body, wanted in SERVED
    if name != "a picture" or route[0] in seeing
]
asked += [(f"{name}: refused by name", lambda body=body, told=told: refused(body, told)) for name, body, told in REFUSED]
# At once: the providers take their time.
with ThreadPoolExecutor(8) as pool:
    outcomes = list(pool.map(lambda one: outcome(one[1]), asked))
for (name, _), wrong in zip(asked, outcomes):
    checks.check(name, lambda wrong=wrong: settle(wrong))
checks.finish()
