// Drives a running gateway with a client whose types come out of its own /openapi.json, which `run` generates before it compiles
// this file: what the document does not describe as it is does not compile, or fails here.

import createClient from "openapi-fetch";

import type { components, paths } from "./openapi.mjs";
import { Checks, expect, given, same } from "./harness.mjs";

const client = createClient<paths>({
  baseUrl: given("POINTSMAN_BASE_URL"),
  headers: { authorization: `Bearer ${given("POINTSMAN_API_KEY")}` },
});
const checks = new Checks("node generated client");

type Chat = components["schemas"]["ChatMembers"] & components["schemas"]["RoutingMembers"];
type Reason = NonNullable<components["schemas"]["Error"]["error"]["metadata"]["reason"]>;

const request: Chat & Required<Pick<Chat, "messages">> = {
  model: "service/auto",
  objective: "cheapest",
  max_tokens: 16,
  messages: [{ role: "user", content: "Which way?" }],
};
let generation = "";

await checks.check("a preview says where the request would go", async () => {
  const { data, error } = await client.POST("/route/preview", { body: { ...request, why_not: "sim-swift" } });
  expect(data !== undefined, JSON.stringify(error));
  const chosen = data!.candidates.find((candidate) => candidate.selected);
  expect(chosen !== undefined && chosen.score !== null && chosen.rank === 1, "the first candidate is selected and has a score");
  expect(data!.objective === "cheapest", `the objective is ${data!.objective}`);
});

await checks.check("the same request is answered", async () => {
  const { data, error, response } = await client.POST("/chat/completions", { body: request });
  expect(data !== undefined, JSON.stringify(error));
  generation = response.headers.get("x-generation-id") ?? "";
  // The document says that an answer may be a stream as well, whose type is text.
  expect(typeof data === "object" && "choices" in data!, `the answer is ${typeof data}`);
  const completion = data as components["schemas"]["ChatCompletion"];
  same(completion.id, generation, "the id of the answer");
  const usage = completion.usage;
  expect(usage !== undefined && usage.completion_tokens > 0 && usage.total_tokens > usage.prompt_tokens, "usage is counted");
});

await checks.check("its explanation names who was chosen, what was predicted and what happened", async () => {
  const { data, error } = await client.GET("/route/explain", { params: { query: { generation_id: generation } } });
  expect(data !== undefined, JSON.stringify(error));
  same(data!.generation_id, generation, "the generation");
  const served = data!.attempts.at(-1);
  expect(served?.model === data!.model, `${served?.model} served, and the answer is of ${data!.model}`);
  expect(data!.candidates.some((candidate) => candidate.selected && (candidate.predicted.ttft_ms.p50 ?? 0) > 0), "a prediction");
});

await checks.check("an error has one of the documented reasons", async () => {
  const { data, error, response } = await client.POST("/chat/completions", { body: { ...request, model: "no/such" } });
  expect(data === undefined && response.status === 404, `status ${response.status}`);
  const reason: Reason | undefined = error!.error.metadata?.reason;
  const expected: Reason = "model_not_found";
  same(reason, expected, "the reason");
});

checks.finish();
