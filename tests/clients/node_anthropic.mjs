// Drives a running gateway with the official Anthropic client for Node, as its users do.
//
// Takes the base addresses and the key from the environment, where `run` puts them. Retries are off but in the check of
// retries, so that nothing the gateway answers is papered over. Models called depot/… are at a second gateway, in front
// of scripted_provider.py: depot/claude at an endpoint of the Anthropic dialect, the others at endpoints of the chat dialect.

import { randomUUID } from "node:crypto";

import Anthropic, { APIError, AuthenticationError, BadRequestError, NotFoundError, OverloadedError, RateLimitError } from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

import { Checks, expect, given, rejects, same, versionOf } from "./harness.mjs";

// The client appends /v1/messages by itself.
const baseURL = given("POINTSMAN_BASE_URL").replace(/\/v1$/, "");
const scriptedURL = given("POINTSMAN_SCRIPTED_BASE_URL").replace(/\/v1$/, "");
const apiKey = given("POINTSMAN_API_KEY");
// A model whose only provider answers every request with a 500.
const failingModel = given("POINTSMAN_FAILING_MODEL");
const client = new Anthropic({ baseURL, apiKey, maxRetries: 0, timeout: 30_000 });
const scripted = new Anthropic({ baseURL: scriptedURL, apiKey, maxRetries: 0, timeout: 30_000 });
const checks = new Checks(`node anthropic ${versionOf("@anthropic-ai/sdk")}`);

const CHAT = "meadow/large";
const THINKERS = ["depot/thinker", "depot/claude"];
const HELLO = [{ role: "user", content: "Say hello, please. — ¡Grüße! 你好" }];
const WEATHER = {
  name: "get_weather",
  description: "Get the current weather of a city",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const THINKING = { type: "enabled", budget_tokens: 1024 };
// A grey pixel.
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytgAAAABJRU5ErkJggg==";

function clientFor(model) {
  return /^(depot\/|claude-)/.test(model) ? scripted : client;
}

function say({ model = "service/auto", ...more } = {}) {
  return clientFor(model).messages.create({ model, max_tokens: 2000, messages: HELLO, ...more });
}

/** One streamed message, assembled by the client. */
function streamed({ model = CHAT, ...more } = {}) {
  return clientFor(model).messages.stream({ model, max_tokens: 2000, messages: HELLO, ...more }).finalMessage();
}

function textOf(message) {
  return message.content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

function callsOf(message) {
  return message.content.filter((block) => block.type === "tool_use");
}

function user(content) {
  return { role: "user", content };
}

function assistant(message) {
  return { role: "assistant", content: message.content };
}

function results(calls) {
  return user(calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: `${call.input.city}: rain` })));
}

await checks.check("a plain message is answered", async () => {
  const { data: message, response, request_id } = await say().withResponse();
  expect(/^gen-\d+-[A-Za-z0-9]{22}$/.test(message.id), `id is ${message.id}`);
  same([message.type, message.role, message.stop_reason, message.stop_sequence], ["message", "assistant", "end_turn", null], "the message");
  same(message.content.map((block) => block.type), ["text"], "the blocks");
  expect(textOf(message), "the answer is empty");
  expect(message.usage.input_tokens > 0 && message.usage.output_tokens > 0, `usage is ${JSON.stringify(message.usage)}`);
  same(response.headers.get("x-generation-id"), message.id, "x-generation-id");
  same(response.headers.get("x-route-model"), message.model, "x-route-model");
  same(response.headers.get("request-id"), request_id, "the request id");
  expect(request_id, "request-id is missing");
});

await checks.check("a stream is assembled to a whole message", async () => {
  const stream = client.messages.stream({ model: CHAT, max_tokens: 2000, messages: HELLO });
  let heard = "";
  stream.on("text", (piece) => (heard += piece));
  const message = await stream.finalMessage();
  same([message.role, message.stop_reason], ["assistant", "end_turn"], "the message");
  same(textOf(message), heard, "the pieces");
  expect(heard, "the stream said nothing");
  expect(message.usage.input_tokens > 0 && message.usage.output_tokens > 0, `usage is ${JSON.stringify(message.usage)}`);
});

await checks.check("a tool round trip works, plain and streamed", async () => {
  for (const ask of [(more) => say({ model: CHAT, ...more }), streamed]) {
    const messages = [user("What is the weather in Oslo?")];
    const first = await ask({ messages, tools: [WEATHER] });
    same(first.stop_reason, "tool_use", "stop_reason");
    const calls = callsOf(first);
    same(calls.map((call) => [call.name, call.input]), [["get_weather", { city: "Oslo" }]], "the calls");
    const second = await ask({ messages: [...messages, assistant(first), results(calls)], tools: [WEATHER] });
    same(second.stop_reason, "end_turn", "stop_reason after the result");
    expect(textOf(second), "no words after the tool's result");
  }
});

await checks.check("parallel calls come apart and their results go back together", async () => {
  const messages = [user("What is the weather in Oslo and Rome?")];
  for (const model of [CHAT, ...THINKERS]) {
    for (const ask of [say, streamed]) {
      const first = await ask({ model, messages, tools: [WEATHER] });
      const calls = callsOf(first);
      same(calls.map((call) => call.input.city), ["Oslo", "Rome"], `the calls of ${model}`);
      const second = await ask({ model, messages: [...messages, assistant(first), results(calls)], tools: [WEATHER] });
      same(second.stop_reason, "end_turn", `the end at ${model}`);
    }
  }
});

await checks.check("the client's own loop of tools works", async () => {
  for (const stream of [false, true]) {
    const asked = [];
    const tool = betaTool({
      name: WEATHER.name,
      description: WEATHER.description,
      inputSchema: WEATHER.input_schema,
      run: ({ city }) => (asked.push(city), "rain"),
    });
    const messages = [user("What is the weather in Oslo?")];
    const runner = client.beta.messages.toolRunner({ model: CHAT, max_tokens: 2000, messages, tools: [tool], stream });
    const last = await runner.runUntilDone();
    same([asked, last.stop_reason], [["Oslo"], "end_turn"], `the loop, streaming ${stream}`);
  }
});

await checks.check("thoughts go to the client and come back", async () => {
  for (const model of THINKERS) {
    for (const ask of [say, streamed]) {
      const messages = [user("Which track?")];
      const first = await ask({ model, messages, thinking: THINKING });
      same(first.content.map((block) => block.type), ["thinking", "text"], `the blocks of ${model}`);
      same(first.content[0].thinking, "The left track is free.", `the thought of ${model}`);
      expect(first.content[0].signature, `the thought of ${model} has no signature`);
      const second = await ask({ model, messages: [...messages, assistant(first), user("Sure?")], thinking: THINKING });
      same(textOf(second), "Take the left track. Thoughts that came back: 1.", `the second turn of ${model}`);
    }
  }
});

await checks.check("images go to models that take them", async () => {
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } };
  for (const model of [CHAT, "depot/claude"]) {
    const message = await say({ model, messages: [user([image, { type: "text", text: "What is this?" }])] });
    expect(textOf(message), `${model} says nothing about an image`);
  }
  const fault = await rejects(BadRequestError, () => say({ model: "meadow/small", messages: [user([image])] }));
  expect(fault.message.includes("image"), `message: ${fault.message}`);
});

await checks.check("tokens are counted", async () => {
  const few = await client.messages.countTokens({ model: CHAT, messages: HELLO });
  const many = await client.messages.countTokens({ model: CHAT, messages: [user("word ".repeat(500))], tools: [WEATHER] });
  expect(few.input_tokens > 0 && many.input_tokens > few.input_tokens + 400, `counted ${few.input_tokens} and ${many.input_tokens}`);
});

await checks.check("models are listed in pages and retrieved", async () => {
  const names = [];
  for await (const model of client.models.list({ limit: 2 })) {
    names.push(model.id);
  }
  expect(names.includes(CHAT) && names.includes("meadow/small"), `models are ${names}`);
  same(new Set(names).size, names.length, "the number of different models on all pages");
  const one = await client.models.retrieve(CHAT);
  same([one.id, one.type], [CHAT, "model"], "the model retrieved by its id");
  await rejects(NotFoundError, () => client.models.retrieve("acme/none-such"));
});

await checks.check("errors have the classes of the original", async () => {
  const stranger = new Anthropic({ baseURL, apiKey: "sk-nobody-knows-this-key", maxRetries: 0 });
  const cases = [
    [AuthenticationError, "authentication_error", () => stranger.messages.create({ model: CHAT, max_tokens: 9, messages: HELLO })],
    [NotFoundError, "not_found_error", () => say({ model: "acme/none-such" })],
    [NotFoundError, "not_found_error", () => say({ model: "claude-none-such", stream: true })],
    [BadRequestError, "invalid_request_error", () => say({ messages: [] })],
    [RateLimitError, "rate_limit_error", () => say({ model: "depot/limited" })],
    [OverloadedError, "overloaded_error", () => say({ model: "depot/overloaded" })],
    [OverloadedError, "overloaded_error", () => streamed({ model: "depot/overloaded" })],
    // The class of an error in a stream follows from the status, which was 200.
    [APIError, "overloaded_error", () => streamed({ model: "depot/breaking" })],
  ];
  for (const [kind, type, body] of cases) {
    const fault = await rejects(kind, body);
    same(fault.type, type, `type of ${kind.name}`);
    expect(fault.requestID, `${kind.name} has no request id`);
  }
});

await checks.check("the client's retries meet an answer", async () => {
  const patient = new Anthropic({ baseURL: scriptedURL, apiKey, maxRetries: 3, timeout: 30_000 });
  const messages = [user(`Try again, ${randomUUID()}`)];
  expect(textOf(await patient.messages.create({ model: "depot/recovering", max_tokens: 64, messages })), "no answer");
});

await checks.check("a failing provider is fallen back from", async () => {
  const message = await say({ model: failingModel, models: [CHAT] });
  same(message.model, CHAT, "the model that served");
});

await checks.check("twenty streams run at once", async () => {
  const one = (_, number) => streamed({ model: "service/auto", messages: [user(`Count to ${number}.`)] });
  const messages = await Promise.all(Array.from({ length: 20 }, one));
  same(new Set(messages.map((message) => message.id)).size, 20, "the number of generations");
  expect(messages.every((message) => textOf(message)), "a stream said nothing");
});

checks.finish();
