"""Drives a running gateway with the official OpenAI client for Python, as its users do.

Takes the base address and the key from the environment, where `run` puts them. Retries are off, so
that nothing the gateway answers is papered over.
"""

import asyncio
import base64
import json
import os
import time
import urllib.request

import openai
from harness import Checks, expect, raises, same
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

BASE_URL = os.environ["POINTSMAN_BASE_URL"]
API_KEY = os.environ["POINTSMAN_API_KEY"]
# A model whose only provider answers every request with a 500.
FAILING_MODEL = os.environ["POINTSMAN_FAILING_MODEL"]

PNG = b"\x89PNG\r\n\x1a\n"
HELLO = [{"role": "user", "content": "Say hello, please. — ¡Grüße! 你好"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
EXPLAINED = (
    "generation_id",
    "model",
    "provider_name",
    "latency_ms",
    "generation_time_ms",
    "router",
    "total_cost",
    "decision_reason",
)

client = OpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0, timeout=30)
checks = Checks(f"python openai {openai.__version__}")


def catalog(**query) -> list:
    return list(client.models.list(extra_query=query))


def chat_models() -> list[str]:
    """Ids of working models that read and write text and call tools."""
    models = catalog(output_modalities="text", supported_parameters="tools,tool_choice,seed")
    return [model.id for model in models if model.id != FAILING_MODEL]


def image_model() -> str:
    """A model that draws."""
    return catalog(output_modalities="image")[0].id


def say(**more):
    """One plain completion; `more` overrides the model and the messages."""
    return client.chat.completions.create(**{"model": "service/auto", "messages": HELLO, **more})


def explain(generation: str) -> dict:
    return client.get("/route/explain", cast_to=object, options={"params": {"generation_id": generation}})


def generation(id: str) -> dict:
    return client.get("/generation", cast_to=object, options={"params": {"id": id}})["data"]


def text_of(chunks) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def plain() -> None:
    answer = say()
    expect(answer.id.startswith("gen-"), f"id is {answer.id}")
    same(answer.object, "chat.completion", "object")
    expect(answer.model in {model.id for model in catalog(output_modalities="all")}, f"model is {answer.model}")
    choice = answer.choices[0]
    same((choice.index, choice.finish_reason, choice.message.role), (0, "stop", "assistant"), "the choice")
    expect(choice.message.content, "the answer is empty")
    same(choice.message.tool_calls, None, "tool_calls")
    expect(answer.system_fingerprint, "system_fingerprint is empty")
    usage = answer.usage
    same(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, "total_tokens")
    expect(usage.completion_tokens > 0, "no completion tokens")


def headers() -> None:
    raw = client.chat.completions.with_raw_response.create(model="service/auto", messages=HELLO)
    answer = raw.parse()
    same(raw.headers.get("x-generation-id"), answer.id, "x-generation-id")
    same(raw.headers.get("x-route-model"), answer.model, "x-route-model")
    expect(raw.headers.get("x-route-provider"), "x-route-provider is missing")
    same(answer._request_id, raw.headers.get("x-request-id"), "the request id")
    expect(answer._request_id, "x-request-id is missing")


def streamed() -> None:
    chunks = list(say(stream=True, stream_options={"include_usage": True}))
    same({chunk.object for chunk in chunks}, {"chat.completion.chunk"}, "object")
    same(len({chunk.id for chunk in chunks}), 1, "the number of ids")
    same(chunks[0].choices[0].delta.role, "assistant", "the first role")
    ends = [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason]
    same(ends, ["stop"], "finish reasons")
    expect(len(chunks) > 3, f"only {len(chunks)} chunks")
    expect(text_of(chunks), "the stream said nothing")
    last = chunks[-1]
    same(last.choices, [], "choices of the usage chunk")
    same([chunk.usage is not None for chunk in chunks], [False] * (len(chunks) - 1) + [True], "which chunks have usage")
    same(last.usage.total_tokens, last.usage.prompt_tokens + last.usage.completion_tokens, "total_tokens")


def usage_of_a_stream() -> None:
    unasked = list(say(stream=True))
    same(sum(chunk.usage is not None for chunk in unasked), 1, "usage chunks when nothing is said")
    expect(all(chunk.choices for chunk in unasked), "a chunk without choices though nothing asked for it")
    refused = list(say(stream=True, stream_options={"include_usage": False}))
    same(sum(chunk.usage is not None for chunk in refused), 0, "usage chunks when they are refused")


def same_words_streamed() -> None:
    # The words are the provider's, so both must come from one.
    first = say(model=chat_models()[0], seed=7)
    whole = first.choices[0].message.content
    more = {"extra_body": {"provider": {"only": [explain(first.id)["provider_name"]]}}}
    pieces = text_of(say(model=first.model, seed=7, stream=True, **more))
    same(pieces, whole, "the streamed text")


def tools_plain() -> None:
    model = chat_models()[0]
    messages = [{"role": "user", "content": "What is the weather in Oslo?"}]
    first = say(model=model, messages=messages, tools=[WEATHER], tool_choice="auto")
    choice = first.choices[0]
    same(choice.finish_reason, "tool_calls", "finish_reason")
    call = choice.message.tool_calls[0]
    same((call.type, call.function.name), ("function", "get_weather"), "the call")
    expect(call.id, "the call has no id")
    same(json.loads(call.function.arguments), {"city": "Oslo"}, "arguments")
    messages += [
        choice.message,
        {"role": "tool", "tool_call_id": call.id, "content": '{"celsius": -4, "sky": "clear"}'},
    ]
    second = say(model=model, messages=messages, tools=[WEATHER])
    same(second.choices[0].finish_reason, "stop", "finish_reason after the result")
    expect(second.choices[0].message.content, "no words after the tool's result")


def tools_streamed() -> None:
    messages = [{"role": "user", "content": "What is the weather in Oslo and Rome?"}]
    stream = say(model=chat_models()[0], messages=messages, tools=[WEATHER], stream=True)
    calls: dict[int, dict] = {}
    ends = []
    for chunk in stream:
        for choice in chunk.choices:
            ends += [choice.finish_reason] if choice.finish_reason else []
            for delta in choice.delta.tool_calls or []:
                if delta.index not in calls:
                    expect(delta.id and delta.function.name, f"the first delta of call {delta.index} lacks id or name")
                    same(delta.type, "function", "type")
                    calls[delta.index] = {"name": delta.function.name, "arguments": ""}
                calls[delta.index]["arguments"] += delta.function.arguments or ""
    same(ends, ["tool_calls"], "finish reasons")
    same(sorted(calls), [0, 1], "the indices of the calls")
    said = [(call["name"], json.loads(call["arguments"])["city"]) for _, call in sorted(calls.items())]
    same(said, [("get_weather", "Oslo"), ("get_weather", "Rome")], "the calls")


def tool_events() -> None:
    """The client's own assembly of a stream."""
    messages = [{"role": "user", "content": "What is the weather in Oslo?"}]
    with client.chat.completions.stream(
        model=chat_models()[0], messages=messages, tools=[WEATHER], tool_choice="required"
    ) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    call = final.choices[0].message.tool_calls[0]
    same(json.loads(call.function.arguments), {"city": "Oslo"}, "assembled arguments")
    expect(final.usage.total_tokens > 0, "the assembled answer has no usage")


def structured_output() -> None:
    class Person(BaseModel):
        name: str
        age: int
        friends: list[str]

    models = [model.id for model in catalog(supported_parameters="structured_outputs") if model.id != FAILING_MODEL]
    expect(models, "no model lists structured_outputs")
    messages = [{"role": "user", "content": "Invent a person."}]
    answer = client.chat.completions.parse(model=models[0], messages=messages, response_format=Person)
    expect(isinstance(answer.choices[0].message.parsed, Person), f"parsed {answer.choices[0].message}")


def images_b64() -> None:
    made = client.images.generate(model=image_model(), prompt="A pointsman in the rain", size="256x256")
    expect(made.created > 0, "created is missing")
    expect(base64.b64decode(made.data[0].b64_json).startswith(PNG), "the image is no PNG")
    same(made.data[0].url, None, "url")


def images_url() -> None:
    made = client.images.generate(model=image_model(), prompt="A signal box", response_format="url")
    same(made.data[0].b64_json, None, "b64_json")
    with urllib.request.urlopen(made.data[0].url, timeout=10) as fetched:
        expect(fetched.read().startswith(PNG), "what the url gives is no PNG")
    fault = raises(
        openai.BadRequestError,
        lambda: client.images.generate(model=image_model(), prompt="x", size="huge"),
    )
    same(fault.param, "size", "param of a bad size")


def embeddings() -> None:
    model = catalog(output_modalities="embeddings")[0].id
    asked = {
        "model": model,
        "input": ["The night train to Vienna", "A night train to Graz", "Sugar and cream"],
        "dimensions": 64,
    }
    # Left to itself the client asks for base64, and decodes it.
    made = client.embeddings.create(**asked)
    same([entry.index for entry in made.data], [0, 1, 2], "indexes")
    same({len(entry.embedding) for entry in made.data}, {64}, "lengths of the vectors")
    numbers = client.embeddings.create(**asked, encoding_format="float")
    pairs = [(a, b) for x, y in zip(made.data, numbers.data) for a, b in zip(x.embedding, y.embedding)]
    expect(all(abs(a - b) < 1e-7 for a, b in pairs), "base64 and numbers differ")
    near, far = (sum(a * b for a, b in zip(made.data[0].embedding, other.embedding)) for other in made.data[1:])
    expect(near > far, f"{near} is not nearer than {far}")
    expect(made.usage.prompt_tokens > 0 and made.usage.cost > 0, f"usage is {made.usage}")
    fault = raises(openai.BadRequestError, lambda: client.embeddings.create(model=model, input=[]))
    same(fault.param, "input", "param of an empty input")


def responses() -> None:
    tool = {"type": "function", **WEATHER["function"], "strict": False}
    question = {"role": "user", "content": "What is the weather in Oslo?"}
    for model in (chat_models()[0], "beacon/think"):
        first = client.responses.create(model=model, input=[question], tools=[tool])
        call = next(item for item in first.output if item.type == "function_call")
        same((call.name, json.loads(call.arguments)), ("get_weather", {"city": "Oslo"}), f"the call of {model}")
        result = {"type": "function_call_output", "call_id": call.call_id, "output": '{"celsius": -4}'}
        second = client.responses.create(model=model, input=[question, *first.output, result], tools=[tool])
        same(second.status, "completed", "status after the result")
        expect("-4" in second.output_text, f"the result of the tool is not in {second.output_text!r}")
        with client.responses.stream(model=model, input="Say hello, please.") as stream:
            events = list(stream)
            whole = stream.get_final_response()
        same([event.sequence_number for event in events], list(range(len(events))), "numbers of the events")
        deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        expect(deltas and deltas == whole.output_text, f"{deltas!r} streamed, {whole.output_text!r} at the end")
        same(events[-1].type, "response.completed", "the last event")
    fault = raises(
        openai.BadRequestError,
        lambda: client.responses.create(model=model, input="Hi", previous_response_id="resp_1"),
    )
    same(fault.param, "previous_response_id", "param of what is not stored")


def models() -> None:
    listed = catalog()
    expect(len(listed) >= 2, f"only {len(listed)} models")
    for model in listed:
        same(model.object, "model", "object")
        expect(model.id.count("/") == 1 and model.owned_by, f"odd entry {model}")
        expect("text" in model.architecture["output_modalities"], f"{model.id} writes no text")
        expect(isinstance(model.pricing["prompt"], str), f"price of {model.id} is no string")
    everything = {model.id for model in catalog(output_modalities="all")}
    drawn = {model.id for model in catalog(output_modalities="image")}
    expect(drawn and drawn <= everything, f"image models {drawn} of {everything}")
    one = client.models.retrieve(listed[0].id)
    same(one.to_dict(), listed[0].to_dict(), "the entry retrieved by its id")
    raises(openai.NotFoundError, lambda: client.models.retrieve("acme/none-such"))


def bad_key() -> None:
    stranger = OpenAI(base_url=BASE_URL, api_key="sk-nobody-knows-this-key", max_retries=0)
    fault = raises(
        openai.AuthenticationError,
        lambda: stranger.chat.completions.create(model="service/auto", messages=HELLO),
    )
    same((fault.status_code, fault.type), (401, "authentication_error"), "status and type")
    same(fault.body["code"], 401, "code")
    same(fault.body["metadata"]["reason"], "invalid_key", "reason")
    expect(fault.response.headers.get("www-authenticate"), "WWW-Authenticate is missing")
    expect("nobody-knows" not in fault.response.text, "the answer repeats the key")


def unknown_model() -> None:
    fault = raises(openai.NotFoundError, lambda: say(model="acme/none-such"))
    same((fault.param, fault.type), ("model", "invalid_request_error"), "param and type")
    same(fault.body["metadata"]["reason"], "model_not_found", "reason")
    expect("acme/none-such" in fault.body["message"], f"message: {fault.body['message']}")
    fault = raises(openai.NotFoundError, lambda: say(model="acme/none-such", stream=True))
    same(fault.param, "model", "param when streaming")


def bad_body() -> None:
    table = [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"messages": [*HELLO, {"role": "user", "content": [{"type": "text"}]}]}, "messages[1].content[0].text"),
        ({"temperature": 9}, "temperature"),
        ({"tool_choice": {"type": "function", "function": {"name": "absent"}}}, "tool_choice"),
        ({"extra_body": {"objective": "luckiest"}}, "objective"),
        ({"metadata": {"objective": "luckiest"}}, "metadata.objective"),
        ({"metadata": {"allowed_models": "a*b/c"}}, "metadata.allowed_models[0]"),
    ]
    for body, param in table:
        fault = raises(openai.BadRequestError, lambda body=body: say(**body))
        same((fault.param, fault.body["code"]), (param, 400), f"param and code for {body}")
        same(fault.type, "invalid_request_error", "type")


def explained() -> None:
    answer = say()
    by_get = explain(answer.id)
    by_post = client.post("/route/explain", cast_to=object, body={"generation_id": answer.id})
    same(by_post, by_get, "explain by POST")
    missing = [name for name in EXPLAINED if name not in by_get]
    same(missing, [], "fields missing from explain")
    same((by_get["generation_id"], by_get["model"]), (answer.id, answer.model), "what explain is about")
    same(by_get["router"], "service/auto", "router")
    same(by_get["total_cost"], answer.usage.cost, "total_cost")
    same(by_get["attempts"][-1]["status"], 200, "status of the last attempt")
    expect(by_get["decision_reason"] and by_get["provider_name"], f"unexplained: {by_get}")
    fault = raises(openai.NotFoundError, lambda: explain("gen-1-none-such"))
    same(fault.body["metadata"]["reason"], "generation_not_found", "reason")
    raises(openai.BadRequestError, lambda: explain(""))


def generation_of_a_stream() -> None:
    chunks = list(say(stream=True, stream_options={"include_usage": True}, user="passenger-1"))
    record = generation(chunks[0].id)
    same((record["id"], record["model"]), (chunks[0].id, chunks[0].model), "the record")
    same((record["streamed"], record["cancelled"], record["finish_reason"]), (True, False, "stop"), "how it went")
    same(record["tokens_completion"], chunks[-1].usage.completion_tokens, "tokens_completion")
    same(record["total_cost"], chunks[-1].usage.cost, "total_cost")
    same(record["external_user"], "passenger-1", "external_user")


def generation_while_streaming() -> None:
    with say(stream=True) as stream:
        first = next(iter(stream))
        same(generation(first.id)["id"], first.id, "the record of a running stream")


def cost() -> None:
    models = {model.id: model for model in catalog(output_modalities="all")}
    answer = say(extra_body={"objective": "reliable"})
    expect(isinstance(answer.usage.cost, (int, float)), f"cost is {answer.usage.cost!r}")
    price = models[answer.model].pricing
    if price["prompt"] != "0":
        expect(answer.usage.cost > 0, "a priced model cost nothing")
    free = say(model="service/free")
    same(free.usage.cost, 0, "cost in the free pool")
    same({models[free.model].pricing[kind] for kind in ("prompt", "completion", "request")}, {"0"}, "free prices")


def objectives() -> None:
    """The client merges extra_body into the top level of the body."""
    for objective in ("cheapest", "fastest", "reliable", "balanced"):
        top = say(extra_body={"objective": objective})
        same(explain(top.id)["objective"], objective, "objective from the top level")
    tagged = say(metadata={"objective": "cheapest", "team": "night-shift"})
    same(explain(tagged.id)["objective"], "cheapest", "objective from metadata")


def lists() -> None:
    wanted, other = chat_models()[:2]
    for allowed in ([wanted], json.dumps([wanted]), f"{wanted}, acme/none-such"):
        same(say(extra_body={"allowed_models": allowed}).model, wanted, f"model with allowed_models {allowed!r}")
    namespace = other.split("/")[0]
    answer = say(extra_body={"allowed_models": [wanted, other], "blocked_models": [wanted]})
    same(answer.model, other, f"model with {wanted} blocked")
    within = say(metadata={"allowed_models": f"{namespace}/*"})
    expect(within.model.startswith(f"{namespace}/"), f"{within.model} is not in {namespace}")
    fault = raises(openai.NotFoundError, lambda: say(extra_body={"blocked_models": ["*"]}))
    same(fault.body["metadata"]["reason"], "no_candidates", "reason when everything is blocked")
    expect("blocked_model" in fault.body["availability"]["excluded_by"], f"{fault.body['availability']}")


def fallbacks() -> None:
    first, second = chat_models()[:2]
    answer = say(model=first, extra_body={"models": [second]})
    expect(answer.model in (first, second), f"served by {answer.model}")
    story = explain(answer.id)
    same(story["requested_model"], first, "requested_model")
    same({row["model"] for row in story["candidates"]} >= {first, second}, True, "both models are candidates")
    fault = raises(openai.NotFoundError, lambda: say(model=first, extra_body={"models": ["acme/none-such"]}))
    same(fault.param, "models[0]", "param of an unknown fallback")


def fallback_when_a_provider_fails() -> None:
    steady = chat_models()[0]
    for stream in (False, True):
        answer = say(model=FAILING_MODEL, extra_body={"models": [steady]}, stream=stream)
        served = list(answer)[0] if stream else answer
        same(served.model, steady, "the model that served")
        story = explain(served.id)
        same(story["decision_code"], "model_fallback", "decision_code")
        first = story["attempts"][0]
        same((first["model"], first["status"]), (FAILING_MODEL, 500), "the failed attempt")


def preview() -> None:
    body = {"messages": HELLO, "objective": "cheapest", "top_n": 3}
    plan = client.post("/route/preview", cast_to=object, body=body)
    same(plan["objective"], "cheapest", "objective")
    same([row["rank"] for row in plan["candidates"]], list(range(1, len(plan["candidates"]) + 1)), "ranks")
    expect(plan["candidates"][0]["selected"], "the first candidate is not selected")


def left_stream() -> None:
    with say(stream=True, messages=[{"role": "user", "content": "Tell me a very long story."}]) as stream:
        id = next(iter(stream)).id
    deadline = time.monotonic() + 5
    while not generation(id)["cancelled"]:
        expect(time.monotonic() < deadline, "a stream that its client left is not recorded as cancelled")
        time.sleep(0.05)


def at_once() -> None:
    async def one(session: AsyncOpenAI, number: int) -> str:
        messages = [{"role": "user", "content": f"Count to {number}."}]
        stream = await session.chat.completions.create(model="service/auto", messages=messages, stream=True)
        chunks = [chunk async for chunk in stream]
        expect(text_of(chunks), f"stream {number} said nothing")
        same(len({chunk.id for chunk in chunks}), 1, "ids in one stream")
        return chunks[0].id

    async def all_of_them() -> list[str]:
        async with AsyncOpenAI(base_url=BASE_URL, api_key=API_KEY, max_retries=0, timeout=30) as session:
            return await asyncio.gather(*(one(session, number) for number in range(20)))

    same(len(set(asyncio.run(all_of_them()))), 20, "the number of generations")


checks.check("a plain completion is answered", plain)
checks.check("ids and route travel in the headers", headers)
checks.check("a stream is whole and ends with its usage", streamed)
checks.check("the usage chunk comes as stream_options say", usage_of_a_stream)
checks.check("the same words come streamed and plain", same_words_streamed)
checks.check("a tool round trip works", tools_plain)
checks.check("streamed tool calls assemble to valid arguments", tools_streamed)
checks.check("the client's own stream assembly works", tool_events)
checks.check("structured output parses", structured_output)
checks.check("images come as base64", images_b64)
checks.check("images come as url", images_url)
checks.check("embeddings come in order, as base64 and as numbers", embeddings)
checks.check("responses call tools, stream and end", responses)
checks.check("models are listed, filtered and retrieved", models)
checks.check("a bad key raises AuthenticationError", bad_key)
checks.check("an unknown model raises NotFoundError", unknown_model)
checks.check("a bad body raises BadRequestError naming the field", bad_body)
checks.check("a route is explained by GET and by POST", explained)
checks.check("a generation is found by the id in its stream", generation_of_a_stream)
checks.check("a generation is found while it streams", generation_while_streaming)
checks.check("usage carries the cost", cost)
checks.check("objectives are taken from extra_body and metadata", objectives)
checks.check("allowed and blocked models restrict the choice", lists)
checks.check("models[] are fallbacks", fallbacks)
checks.check("a failing provider is fallen back from", fallback_when_a_provider_fails)
checks.check("a route is previewed", preview)
checks.check("a stream its client left is recorded as cancelled", left_stream)
checks.check("twenty streams run at once", at_once)
checks.finish()
