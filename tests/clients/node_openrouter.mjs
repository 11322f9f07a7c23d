// Drives a running gateway with @openrouter/sdk, as its users do.
//
// This client checks every answer against its own schema and throws when a key is missing, so that
// each call that returns proves a shape. Takes the base address and the key from the environment, where
// `run` puts them. Retries are off: its default repeats a 5xx for up to an hour.

import { OpenRouter } from "@openrouter/sdk";
import * as errors from "@openrouter/sdk/models/errors";

import { Checks, expect, given, rejects, same, versionOf } from "./harness.mjs";

const serverURL = given("POINTSMAN_BASE_URL");
const apiKey = given("POINTSMAN_API_KEY");
// A model whose only provider answers every request with a 500.
const failingModel = given("POINTSMAN_FAILING_MODEL");
const settings = { serverURL, retryConfig: { strategy: "none" }, timeoutMs: 30_000 };
const client = new OpenRouter({ ...settings, apiKey });
const checks = new Checks(`node @openrouter/sdk ${versionOf("@openrouter/sdk")}`);

const HELLO = [{ role: "user", content: "Say hello, please. — ¡Grüße! 你好" }];
const WEATHER = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Get the current weather of a city",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

function say(more = {}, sdk = client) {
  return sdk.chat.send({ chatRequest: { model: "service/auto", messages: HELLO, ...more } });
}

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) {
    chunks.push(chunk);
  }
  return chunks;
}

/** Every entry that the catalog lists for the query, over all its pages. */
async function catalog(query = {}) {
  const models = [];
  for await (const page of await client.models.list(query)) {
    models.push(...page.result.data);
    expect(models.length < 10_000, "the catalog has no last page");
  }
  return models;
}

/** Ids of working models that read and write text and call tools. */
async function chatModels() {
  const models = await catalog({ supportedParameters: "tools,tool_choice" });
  return models.map((model) => model.id).filter((id) => id !== failingModel);
}

/** The explanation of a route: no call of this client, so it is fetched as anybody would. */
async function explain(id) {
  const address = `${serverURL}/route/explain?generation_id=${id}`;
  const answer = await fetch(address, { headers: { authorization: `Bearer ${apiKey}` } });
  same(answer.status, 200, `status of ${address}`);
  return answer.json();
}

await checks.check("a plain completion is answered", async () => {
  const answer = await say();
  expect(answer.id.startsWith("gen-"), `id is ${answer.id}`);
  const [choice] = answer.choices;
  same([choice.finishReason, choice.message.role], ["stop", "assistant"], "the choice");
  expect(choice.message.content, "the answer is empty");
  expect(answer.systemFingerprint, "systemFingerprint is empty");
  same(answer.usage.totalTokens, answer.usage.promptTokens + answer.usage.completionTokens, "totalTokens");
});

await checks.check("a stream is whole and ends with its usage", async () => {
  const chunks = await collect(await say({ stream: true, streamOptions: { includeUsage: true } }));
  same(new Set(chunks.map((chunk) => chunk.id)).size, 1, "the number of ids");
  const ends = chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.finishReason)).filter(Boolean);
  same(ends, ["stop"], "finish reasons");
  expect(chunks.some((chunk) => chunk.choices[0]?.delta.content), "the stream said nothing");
  expect(!chunks.some((chunk) => chunk.error), "a chunk carries an error");
  same(chunks.filter((chunk) => chunk.usage).length, 1, "the number of chunks with usage");
  expect(chunks.at(-1).usage.cost >= 0, "the last chunk has no cost");
});

await checks.check("a tool round trip works", async () => {
  const [model] = await chatModels();
  const messages = [{ role: "user", content: "What is the weather in Oslo?" }];
  const first = await say({ model, messages, tools: [WEATHER], toolChoice: "auto" });
  const [choice] = first.choices;
  same(choice.finishReason, "tool_calls", "finishReason");
  const [call] = choice.message.toolCalls;
  same([call.function.name, JSON.parse(call.function.arguments)], ["get_weather", { city: "Oslo" }], "the call");
  messages.push(choice.message, { role: "tool", toolCallId: call.id, content: '{"celsius": -4}' });
  const second = await say({ model, messages, tools: [WEATHER] });
  expect(second.choices[0].message.content, "no words after the tool's result");
});

await checks.check("streamed tool calls assemble to valid arguments", async () => {
  const [model] = await chatModels();
  const messages = [{ role: "user", content: "What is the weather in Oslo and Rome?" }];
  const calls = [];
  for (const chunk of await collect(await say({ model, messages, tools: [WEATHER], stream: true }))) {
    for (const delta of chunk.choices.flatMap((choice) => choice.delta.toolCalls ?? [])) {
      calls[delta.index] ??= { name: delta.function.name, arguments: "" };
      calls[delta.index].arguments += delta.function?.arguments ?? "";
    }
  }
  const said = calls.map((call) => [call.name, JSON.parse(call.arguments).city]);
  same(said, [["get_weather", "Oslo"], ["get_weather", "Rome"]], "the calls");
});

await checks.check("images come as base64", async () => {
  const [model] = await catalog({ outputModalities: "image" });
  const imageGenerationRequest = { model: model.id, prompt: "A pointsman in the rain" };
  const made = await client.images.generate({ imageGenerationRequest });
  const bytes = Buffer.from(made.data[0].b64Json, "base64");
  same(bytes.subarray(1, 4).toString(), "PNG", "the kind of image");
});

await checks.check("models are listed, filtered, paged and counted", async () => {
  const listed = await catalog();
  expect(listed.length >= 2, `only ${listed.length} models`);
  expect(listed.every((model) => model.architecture.outputModalities.includes("text")), "a model writes no text");
  const paged = await catalog({ limit: 1 });
  same(paged.map((model) => model.id), listed.map((model) => model.id), "the list in pages of one");
  same((await client.models.count()).data.count, listed.length, "count");
  const drawn = await catalog({ outputModalities: "image" });
  expect(drawn.length > 0, "no image model");
});

await checks.check("the catalog's neighbours are answered", async () => {
  const [{ id }] = await catalog();
  const [author, slug] = id.split("/");
  same((await client.models.get({ author, slug })).data.id, id, "the entry retrieved by its id");
  const { endpoints } = (await client.endpoints.list({ author, slug })).data;
  expect(endpoints.length > 0, `${id} has no endpoint`);
  expect((await client.providers.list()).data.length > 0, "no provider");
  expect((await client.apiKeys.getCurrentKeyMetadata()).data.label, "the key has no label");
});

await checks.check("a bad key rejects with UnauthorizedResponseError", async () => {
  const stranger = new OpenRouter({ ...settings, apiKey: "sk-nobody-knows-this-key" });
  const fault = await rejects(errors.UnauthorizedResponseError, () => say({}, stranger));
  same([fault.statusCode, fault.error.code], [401, 401], "status and code");
});

await checks.check("an unknown model rejects with NotFoundResponseError", async () => {
  for (const stream of [false, true]) {
    const fault = await rejects(errors.NotFoundResponseError, () => say({ model: "acme/none-such", stream }));
    same([fault.statusCode, fault.error.code], [404, 404], "status and code");
    expect(fault.error.message.includes("acme/none-such"), `message: ${fault.error.message}`);
  }
});

await checks.check("a bad body rejects with BadRequestResponseError", async () => {
  const fault = await rejects(errors.BadRequestResponseError, () => say({ messages: [] }));
  same(fault.error.code, 400, "code");
  same(JSON.parse(fault.body).error.param, "messages", "param");
  const metadata = { objective: "luckiest" };
  const other = await rejects(errors.BadRequestResponseError, () => say({ metadata }));
  same(JSON.parse(other.body).error.param, "metadata.objective", "param");
});

await checks.check("a generation is found by the id in its stream", async () => {
  const chunks = await collect(await say({ stream: true }));
  const { data } = await client.generations.getGeneration({ id: chunks[0].id });
  same([data.id, data.model], [chunks[0].id, chunks[0].model], "the record");
  same([data.streamed, data.cancelled, data.finishReason], [true, false, "stop"], "how it went");
  same(data.totalCost, chunks.at(-1).usage.cost, "totalCost");
  const id = "gen-1-none-such";
  await rejects(errors.NotFoundResponseError, () => client.generations.getGeneration({ id }));
});

await checks.check("a route is explained", async () => {
  const answer = await say();
  const story = await explain(answer.id);
  same([story.generation_id, story.model], [answer.id, answer.model], "what explain is about");
  same(story.total_cost, answer.usage.cost, "total_cost");
});

await checks.check("usage carries the cost", async () => {
  const { usage } = await say();
  expect(typeof usage.cost === "number", `cost is ${JSON.stringify(usage.cost)}`);
  same((await say({ model: "service/free" })).usage.cost, 0, "cost in the free pool");
});

await checks.check("objective and model lists are taken from metadata's strings", async () => {
  const [wanted] = await chatModels();
  const metadata = { objective: "cheapest", allowed_models: JSON.stringify([wanted]), team: "night-shift" };
  const answer = await say({ metadata });
  same(answer.model, wanted, "model");
  same((await explain(answer.id)).objective, "cheapest", "objective");
});

await checks.check("models, provider and the router plugin restrict the choice", async () => {
  const [first, second] = await chatModels();
  const either = await say({ model: first, models: [second] });
  expect([first, second].includes(either.model), `served by ${either.model}`);
  const plugin = { id: "auto-router", allowedModels: [second] };
  same((await say({ plugins: [plugin] })).model, second, "model that the plugin allows");
  const { provider_name: name } = await explain(either.id);
  const only = await say({ model: either.model, provider: { only: [name], allowFallbacks: false } });
  same((await explain(only.id)).provider_name, name, "provider");
});

await checks.check("a failing provider is fallen back from", async () => {
  const [steady] = await chatModels();
  same((await say({ model: failingModel, models: [steady] })).model, steady, "the model that served");
});

await checks.check("how the route was chosen is told on request", async () => {
  const chatRequest = { model: "service/auto", messages: HELLO };
  const answer = await client.chat.send({ chatRequest, xOpenRouterMetadata: "enabled" });
  same(answer.openrouterMetadata?.requested, "service/auto", "the model that was asked for");
});

checks.finish();
