// The AI SDK with a tool, by its three providers: compatible with OpenAI, OpenAI's Responses API, and Anthropic.

import { readFileSync } from "node:fs";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { OPENAI_URL: openaiURL, KEY: apiKey } = process.env;
const [kind, prompt] = process.argv.slice(2);

const providers = {
  // usage in streams has to be asked for
  chat: () => createOpenAICompatible({ name: "pointsman", baseURL: openaiURL, apiKey, includeUsage: true })("depot/agent"),
  responses: () => createOpenAI({ baseURL: openaiURL, apiKey })("depot/agent"),
  // unlike Anthropic's own client this one wants the base with /v1
  messages: () => createAnthropic({ baseURL: openaiURL, apiKey })("depot/agent"),
};
const tools = {
  read_file: tool({
    description: "Reads a file",
    inputSchema: z.object({ path: z.string() }),
    execute: ({ path }) => readFileSync(path, "utf8"),
  }),
};
// Without store = false it refers to items of earlier answers by their ids, and the gateway keeps none.
const providerOptions = { openai: { store: false } };
const asked = { model: providers[kind](), tools, prompt, providerOptions, stopWhen: stepCountIs(4), maxRetries: 0 };
const whole = await generateText(asked);
console.log(`${kind}: ${whole.text.trim()} ${whole.steps.length} steps, ${whole.usage.inputTokens} tokens`);
const streamed = streamText({
  ...asked,
  onError: ({ error }) => {
    throw error;
  },
});
console.log(`${kind} streamed: ${(await streamed.text).trim()} ${(await streamed.steps).length} steps, ${(await streamed.usage).inputTokens} tokens`);
