// Drives a running gateway with the official OpenAI client for Node, as its users do.
//
// Takes the base address and the key from the environment, where `run` puts them. Retries are off, so
// that nothing the gateway answers is papered over. Unlike the Python client this one sends `extra_body`
// literally, as a member of the body.

import OpenAI from "openai";

import { Checks, expect, given, rejects, same, versionOf } from "./harness.mjs";

const baseURL = given("POINTSMAN_BASE_URL");
const apiKey = given("POINTSMAN_API_KEY");
// A model whose only provider answers every request with a 500.
const failingModel = given("POINTSMAN_FAILING_MODEL");
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 30_000 });
const checks = new Checks(`node openai ${versionOf("openai")}`);

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const HELLO = [{ role: "user", content: "Say hello, please. — ¡Grüße! 你好" }];
const WEATHER = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Get the current weather of a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const EXPLAINED = [
  "generation_id",
  "model",
  "provider_name",
  "latency_ms",
  "generation_time_ms",
  "router",
  "total_cost",
  "decision_reason",
];

async function catalog(query = {}) {
  return (await client.models.list({ query })).data;
}

/** Ids of working models that read and write text and call tools. */
async function chatModels() {
  const models = await catalog({ output_modalities: "text", supported_parameters: "tools,tool_choice" });
  return models.map((model) => model.id).filter((id) => id !== failingModel);
}

async function imageModel() {
  return (await catalog({ output_modalities: "image" }))[0].id;
}

function say(more = {}) {
  return client.chat.completions.create({ model: "service/auto", messages: HELLO, ...more });
}

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) {
    chunks.push(chunk);
  }
  return chunks;
}

function textOf(chunks) {
  return chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.delta.content ?? "")).join("");
}

function explain(id) {
  return client.get("/route/explain", { query: { generation_id: id } });
}

async function generation(id) {
  return (await client.get("/generation", { query: { id } })).data;
}

await checks.check("a plain completion is answered", async () => {
  const { data: answer, response, request_id } = await say().withResponse();
  expect(/^gen-\d+-[A-Za-z0-9]{22}$/.test(answer.id), `id is ${answer.id}`);
  same(answer.object, "chat.completion", "object");
  const [choice] = answer.choices;
  same([choice.index, choice.finish_reason, choice.message.role], [0, "stop", "assistant"], "the choice");
  expect(choice.message.content, "the answer is empty");
  expect(!("tool_calls" in choice.message), "tool_calls is there without a call");
  expect(typeof answer.system_fingerprint === "string", "system_fingerprint is no string");
  const { usage } = answer;
  same(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens, "total_tokens");
  same(response.headers.get("x-generation-id"), answer.id, "x-generation-id");
  same(response.headers.get("x-route-model"), answer.model, "x-route-model");
  expect(request_id, "x-request-id is missing");
});

await checks.check("a stream is whole and ends with its usage", async () => {
  const chunks = await collect(await say({ stream: true, stream_options: { include_usage: true } }));
  same(new Set(chunks.map((chunk) => chunk.id)).size, 1, "the number of ids");
  same(chunks[0].choices[0].delta.role, "assistant", "the first role");
  const ends = chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.finish_reason)).filter(Boolean);
  same(ends, ["stop"], "finish reasons");
  expect(textOf(chunks), "the stream said nothing");
  const last = chunks.at(-1);
  same(last.choices, [], "choices of the usage chunk");
  same(chunks.filter((chunk) => "usage" in chunk).length, 1, "the number of chunks with usage");
  expect(!chunks.some((chunk) => "error" in chunk), "a chunk carries an error");
});

await checks.check("the usage chunk comes as stream_options say", async () => {
  const unasked = await collect(await say({ stream: true }));
  same(unasked.filter((chunk) => "usage" in chunk).length, 1, "usage chunks when nothing is said");
  expect(unasked.every((chunk) => chunk.choices.length > 0), "a chunk without choices though nothing asked for it");
  const refused = await collect(await say({ stream: true, stream_options: { include_usage: false } }));
  same(refused.filter((chunk) => "usage" in chunk).length, 0, "usage chunks when they are refused");
});

await checks.check("a tool round trip works", async () => {
  const [model] = await chatModels();
  const messages = [{ role: "user", content: "What is the weather in Oslo?" }];
  const first = await say({ model, messages, tools: [WEATHER], tool_choice: "auto" });
  const [choice] = first.choices;
  same(choice.finish_reason, "tool_calls", "finish_reason");
  const [call] = choice.message.tool_calls;
  same([call.type, call.function.name], ["function", "get_weather"], "the call");
  same(JSON.parse(call.function.arguments), { city: "Oslo" }, "arguments");
  messages.push(choice.message, { role: "tool", tool_call_id: call.id, content: '{"celsius": -4}' });
  const second = await say({ model, messages, tools: [WEATHER] });
  same(second.choices[0].finish_reason, "stop", "finish_reason after the result");
  expect(second.choices[0].message.content, "no words after the tool's result");
});

await checks.check("streamed tool calls assemble to valid arguments", async () => {
  const [model] = await chatModels();
  const messages = [{ role: "user", content: "What is the weather in Oslo and Rome?" }];
  const calls = [];
  for (const chunk of await collect(await say({ model, messages, tools: [WEATHER], stream: true }))) {
    for (const delta of chunk.choices.flatMap((choice) => choice.delta.tool_calls ?? [])) {
      if (!calls[delta.index]) {
        expect(delta.id && delta.function.name, `the first delta of call ${delta.index} lacks id or name`);
        calls[delta.index] = { name: delta.function.name, arguments: "" };
      }
      calls[delta.index].arguments += delta.function.arguments ?? "";
    }
  }
  const said = calls.map((call) => [call.name, JSON.parse(call.arguments).city]);
  same(said, [["get_weather", "Oslo"], ["get_weather", "Rome"]], "the calls");
});

await checks.check("the client's own tool runner ends with words", async () => {
  const [model] = await chatModels();
  const asked = [];
  const parse = JSON.parse;
  const run = ({ city }) => {
    asked.push(city);
    return JSON.stringify({ city, celsius: -4 });
  };
  const tool = { type: "function", function: { ...WEATHER.function, parse, function: run } };
  const messages = [{ role: "user", content: "What is the weather in Oslo?" }];
  const runner = client.chat.completions.runTools({ model, messages, tools: [tool], stream: true });
  expect(await runner.finalContent(), "the runner ended without words");
  same(asked, ["Oslo"], "the cities the tool was asked for");
});

await checks.check("images come as base64", async () => {
  const made = await client.images.generate({ model: await imageModel(), prompt: "A pointsman", size: "256x256" });
  expect(Buffer.from(made.data[0].b64_json, "base64").subarray(0, 8).equals(PNG), "the image is no PNG");
  expect(!("url" in made.data[0]), "a url beside b64_json");
});

await checks.check("images come as url", async () => {
  const model = await imageModel();
  const made = await client.images.generate({ model, prompt: "A signal box", response_format: "url" });
  expect(!("b64_json" in made.data[0]), "b64_json beside a url");
  const fetched = await fetch(made.data[0].url);
  same(fetched.status, 200, `status of ${made.data[0].url}`);
  const bytes = Buffer.from(await fetched.arrayBuffer());
  expect(bytes.subarray(0, 8).equals(PNG), "what the url gives is no PNG");
});

await checks.check("models are listed, filtered and retrieved", async () => {
  const listed = await catalog();
  expect(listed.length >= 2, `only ${listed.length} models`);
  expect(listed.every((model) => model.architecture.output_modalities.includes("text")), "a model writes no text");
  const drawn = await catalog({ output_modalities: "image" });
  expect(drawn.length > 0, "no image model");
  same(await client.models.retrieve(listed[0].id), listed[0], "the entry retrieved by its id");
  await rejects(OpenAI.NotFoundError, () => client.models.retrieve("acme/none-such"));
});

await checks.check("a bad key rejects with AuthenticationError", async () => {
  const stranger = new OpenAI({ baseURL, apiKey: "sk-nobody-knows-this-key", maxRetries: 0 });
  const fault = await rejects(OpenAI.AuthenticationError, () =>
    stranger.chat.completions.create({ model: "service/auto", messages: HELLO }),
  );
  same([fault.status, fault.code, fault.type], [401, 401, "authentication_error"], "status, code and type");
  same(fault.error.metadata.reason, "invalid_key", "reason");
});

await checks.check("an unknown model rejects with NotFoundError", async () => {
  for (const stream of [false, true]) {
    const fault = await rejects(OpenAI.NotFoundError, () => say({ model: "acme/none-such", stream }));
    same([fault.param, fault.type], ["model", "invalid_request_error"], "param and type");
    same(fault.error.metadata.reason, "model_not_found", "reason");
  }
});

await checks.check("a bad body rejects with BadRequestError naming the field", async () => {
  const table = [
    [{ messages: [] }, "messages"],
    [{ messages: [{ role: "wizard", content: "x" }] }, "messages[0].role"],
    [{ messages: [{ role: "tool", content: "x" }] }, "messages[0].tool_call_id"],
    [{ top_p: 1.5 }, "top_p"],
    [{ extra_body: { objective: "luckiest" } }, "extra_body.objective"],
    [{ metadata: { blocked_models: "a*b/c" } }, "metadata.blocked_models[0]"],
  ];
  for (const [body, param] of table) {
    const fault = await rejects(OpenAI.BadRequestError, () => say(body));
    same([fault.param, fault.code], [param, 400], `param and code for ${JSON.stringify(body)}`);
  }
});

await checks.check("a route is explained by GET and by POST", async () => {
  const answer = await say();
  const byGet = await explain(answer.id);
  same(await client.post("/route/explain", { body: { generation_id: answer.id } }), byGet, "explain by POST");
  same(EXPLAINED.filter((name) => !(name in byGet)), [], "fields missing from explain");
  same([byGet.generation_id, byGet.model], [answer.id, answer.model], "what explain is about");
  same(byGet.total_cost, answer.usage.cost, "total_cost");
  const fault = await rejects(OpenAI.NotFoundError, () => explain("gen-1-none-such"));
  same(fault.error.metadata.reason, "generation_not_found", "reason");
});

await checks.check("embeddings come in order, as base64 and as numbers", async () => {
  const [{ id: model }] = await catalog({ output_modalities: "embeddings" });
  const asked = { model, input: ["The night train to Vienna", "Sugar and cream"], dimensions: 64 };
  // Left to itself the client asks for base64, and decodes it.
  const made = await client.embeddings.create(asked);
  same(made.data.map((entry) => [entry.index, entry.embedding.length]), [[0, 64], [1, 64]], "the vectors");
  const numbers = await client.embeddings.create({ ...asked, encoding_format: "float" });
  const differs = made.data.some((entry, at) =>
    entry.embedding.some((number, place) => Math.abs(number - numbers.data[at].embedding[place]) > 1e-7),
  );
  expect(!differs, "base64 and numbers differ");
  expect(made.usage.prompt_tokens > 0, "no prompt tokens");
});

await checks.check("responses call tools, stream and end", async () => {
  const tool = { type: "function", ...WEATHER.function, strict: false };
  const question = { role: "user", content: "What is the weather in Oslo?" };
  for (const model of [(await chatModels())[0], "beacon/think"]) {
    const first = await client.responses.create({ model, input: [question], tools: [tool] });
    const call = first.output.find((item) => item.type === "function_call");
    same([call.name, JSON.parse(call.arguments)], ["get_weather", { city: "Oslo" }], `the call of ${model}`);
    const result = { type: "function_call_output", call_id: call.call_id, output: '{"celsius": -4}' };
    const input = [question, ...first.output, result];
    const second = await client.responses.create({ model, input, tools: [tool] });
    expect(second.output_text.includes("-4"), `the result of the tool is not in ${second.output_text}`);
    const stream = client.responses.stream({ model, input: "Say hello, please." });
    const events = await collect(stream);
    const whole = await stream.finalResponse();
    same(events.map((event) => event.sequence_number), [...events.keys()], "numbers of the events");
    const deltas = events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta);
    expect(whole.output_text && deltas.join("") === whole.output_text, "the stream and its end differ");
    same(events.at(-1).type, "response.completed", "the last event");
  }
});

await checks.check("a generation is found by the id in its stream", async () => {
  const chunks = await collect(await say({ stream: true, stream_options: { include_usage: true } }));
  const record = await generation(chunks[0].id);
  same([record.id, record.model], [chunks[0].id, chunks[0].model], "the record");
  same([record.streamed, record.cancelled, record.finish_reason], [true, false, "stop"], "how it went");
  same(record.total_cost, chunks.at(-1).usage.cost, "total_cost");
  same(Date.parse(record.created_at) > 0, true, "created_at is a moment");
});

await checks.check("usage carries the cost", async () => {
  const { usage, model } = await say({ extra_body: { objective: "reliable" } });
  expect(typeof usage.cost === "number", `cost is ${JSON.stringify(usage.cost)}`);
  const { pricing } = await client.models.retrieve(model);
  expect(pricing.prompt === "0" || usage.cost > 0, "a priced model cost nothing");
  same((await say({ model: "service/free" })).usage.cost, 0, "cost in the free pool");
});

await checks.check("objectives are taken from a literal extra_body and from metadata", async () => {
  for (const objective of ["cheapest", "fastest", "reliable", "balanced"]) {
    const answer = await say({ extra_body: { objective } });
    same((await explain(answer.id)).objective, objective, "objective from extra_body");
  }
  const both = await say({ metadata: { objective: "cheapest" }, extra_body: { objective: "fastest" } });
  same((await explain(both.id)).objective, "cheapest", "objective when metadata says otherwise");
});

await checks.check("allowed and blocked models restrict the choice", async () => {
  const [wanted, other] = await chatModels();
  same((await say({ extra_body: { allowed_models: [wanted] } })).model, wanted, "model with one allowed");
  const body = { allowed_models: [wanted, other], blocked_models: [wanted] };
  same((await say({ extra_body: body })).model, other, "model with one of two blocked");
  const fault = await rejects(OpenAI.NotFoundError, () => say({ extra_body: { blocked_models: ["*"] } }));
  same(fault.error.metadata.reason, "no_candidates", "reason when everything is blocked");
});

await checks.check("a failing provider is fallen back from", async () => {
  const [steady] = await chatModels();
  const answer = await say({ model: failingModel, models: [steady] });
  same(answer.model, steady, "the model that served");
  same((await explain(answer.id)).decision_code, "model_fallback", "decision_code");
});

await checks.check("a stream its client left is recorded as cancelled", async () => {
  const messages = [{ role: "user", content: "Tell me a very long story." }];
  const stream = await say({ stream: true, messages });
  let id;
  for await (const chunk of stream) {
    id = chunk.id;
    break; // the client aborts the request
  }
  const deadline = Date.now() + 5_000;
  while (!(await generation(id)).cancelled) {
    expect(Date.now() < deadline, "a stream that its client left is not recorded as cancelled");
    await new Promise((wake) => setTimeout(wake, 50));
  }
});

checks.finish();
