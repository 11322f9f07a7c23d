//! The operations of both listeners.

mod parameters;

use serde_json::json;

use self::parameters::{activity, audit, change_of_cost, generations, models, of_key, of_owner};
use super::operation::{
    Headers, Operation, delete, get, in_header, in_path, integer, post, put, query, reference, required, text,
};
use crate::api::admin::config_values;

/// How streams of the chat API of OpenAI end.
const DONE: &str = " The last one is `[DONE]`. An error after the first token is an event with the member \
            `error`.";

/// The events of `/admin/live`.
const LIVE: &str = "\
    Server-sent events, each with a JSON object. `generation`: a row of `/admin/generations` of a call that \
    ended. `breaker`: a circuit breaker that moved, with `at`, `provider_slug`, `model` (`null`: of the \
    whole provider), `from` and `to` (`closed`, `open`, `half_open`, `cooldown`), `until` (when a probe is \
    allowed or the cooldown ends, or `null`), and the `error_type` and `status` of the failure behind it (or \
    `null`). `notice`: all `notices` of `/admin/verdict`, when they change. `config`: the `version` of the \
    configuration, when it changes. `tick`, once a second: `severity`, `code` and `sentence` of \
    `/admin/verdict`, `in_flight` and `running` (`in_flight` and `total` of `/admin/running`), and `minute` \
    and `hour`, the last complete minute and the last hour: `ok`, `rescued`, `failed`, `shed`, `tokens`, \
    `unknown_costs` and `cost` as in `/admin/series` of all calls.";

/// Addresses that the paths of health stand below, at the listener for callers.
const EVERYWHERE: &[&str] = &["/", "/api/v1", "/api", "/v1"];

/// The operations of the listener for callers.
pub(super) fn inference() -> Vec<Operation> {
    let mut operations = vec![
        post("/chat/completions", "createChatCompletion", "inference", "Chat, as OpenAI and OpenRouter offer it")
            .takes("ChatRequest")
            .headers(Headers::PricedGeneration)
            .answers("ChatCompletion")
            .streams(DONE),
        post("/messages", "createMessage", "inference", "Chat, as Anthropic offers it")
            .takes("MessagesRequest")
            .headers(Headers::UnpricedGeneration)
            .answers("MessagesAnswer")
            .streams("")
            .answers_with("default", "MessagesError"),
        post("/messages/count_tokens", "countMessageTokens", "inference", "Tokens of a request to /messages")
            .takes("CountTokensRequest")
            .headers(Headers::Count)
            .answers("TokenCount")
            .answers_with("default", "MessagesError"),
        post("/responses", "createResponse", "inference", "The Responses API of OpenAI")
            .takes("ResponsesRequest")
            .headers(Headers::UnpricedGeneration)
            .answers("ResponsesAnswer")
            .streams(""),
        post("/responses/input_tokens", "countResponseTokens", "inference", "Tokens of a request to /responses")
            .takes("ResponsesRequest")
            .headers(Headers::Count)
            .answers("InputTokens"),
        post("/embeddings", "createEmbedding", "inference", "Vectors of texts")
            .takes("EmbeddingRequest")
            .headers(Headers::PricedGeneration)
            .answers("EmbeddingList"),
        post(
            "/completions",
            "createCompletion",
            "inference",
            "Continue a text, as OpenAI offered it; only with `server.legacy_completions`, and at \
            endpoints with `legacy_completions`",
        )
        .with("deprecated", json!(true))
        .takes("CompletionRequest")
        .headers(Headers::PricedGeneration)
        .answers("Completion")
        .streams(DONE),
        post("/images/generations", "createImage", "inference", "Images from a text")
            .takes("ImageRequest")
            .headers(Headers::PricedGeneration)
            .answers("ImageList"),
        post("/images", "createImageShort", "inference", "The same as /images/generations")
            .takes("ImageRequest")
            .headers(Headers::PricedGeneration)
            .answers("ImageList"),
        get("/images/models", "listImageModels", "models", "Models that generate images")
            .open()
            .parameters(models())
            .answers("ModelList"),
        get("/images/files/{name}", "getImage", "inference", "An image that was answered as a link")
            .open()
            .parameters([in_path("name", "Name in the link.", text())])
            .answers_in("200", "Success.", "image/*", json!({ "type": "string", "contentMediaType": "image/png" })),
        post("/route/preview", "previewRoute", "routing", "Where a request would go and why; calls no provider")
            .takes("PreviewRequest")
            .answers("Preview"),
        get("/route/explain", "explainRoute", "routing", "Why a generation went where it went")
            .parameters([
                query("generation_id", "Id of the generation; `id` is the same.", text()),
                query("why_not", "Endpoint to compare with.", reference("WhyNotName")),
            ])
            .answers("Explanation"),
        post("/route/explain", "explainRouteByBody", "routing", "The same, with the question in the body")
            .takes("ExplainRequest")
            .answers("Explanation"),
        get("/route/replay", "replayRoute", "routing", "Repeats a recorded decision and names the differences")
            .parameters([query("generation_id", "Id of the generation; `id` is the same.", text())])
            .answers("Replay"),
        get("/generation", "getGeneration", "records", "One generation")
            .parameters([required(query("id", "Id of the generation.", text()))])
            .answers("Generation"),
        get("/generations", "listGenerations", "records", "Generations of this key, newest first")
            .parameters(generations(200))
            .answers("GenerationList"),
        get("/generations/{generation}/feedback", "listRatings", "records", "The ratings of an answer")
            .parameters([in_path("generation", "Id of the generation.", text())])
            .answers("Ratings"),
        post("/generations/{generation}/feedback", "rateAnswer", "records", "Rate an answer, within seven days")
            .parameters([in_path("generation", "Id of the generation.", text())])
            .takes("RatingRequest")
            .answers_with("202", "Rated"),
        delete("/generations/{generation}/feedback", "withdrawRatings", "records", "Withdraw ratings of an answer")
            .parameters([
                in_path("generation", "Id of the generation.", text()),
                query("name", "Only ratings of this name.", text()),
                query("source", "Only ratings of this source.", json!({ "enum": ["user", "program", "judge"] })),
            ])
            .answers("WithdrawnRatings"),
        post("/feedback", "rateAnswers", "records", "Rate up to 1,000 answers")
            .takes("RatingBatch")
            .answers_with("202", "RatedBatch"),
        get("/activity", "showActivity", "records", "Sums per day or hour and model")
            .parameters(activity())
            .answers("Activity"),
        get("/activity.csv", "exportActivity", "records", "The same as CSV")
            .parameters(activity())
            .answers_text("text/csv"),
        get("/activity/explain", "explainActivity", "records", "Why the cost of a period differs from that of another")
            .parameters(change_of_cost())
            .answers("CostChange"),
        get(
            "/models",
            "listModels",
            "models",
            "Models; below /api of every kind of output, below the versioned paths those that \
            generate text",
        )
        .open()
        .parameters(models().into_iter().chain([query(
            "client_version",
            "Sent by Codex, which gets an empty list in a form of its own: `{\"models\":[]}`. An \
            entry would replace the instructions that it has for a model.",
            json!({ "type": "string" }),
        )]))
        .answers_any("200", &["ModelList", "AnthropicModelList", "CodexModelList"])
        .answers_any("default", &["Error", "MessagesError"]),
        get("/models/count", "countModels", "models", "Number of models")
            .open()
            .with(
                "description",
                json!(
                    "As many as `GET /models` lists with the same filters, on all pages together: below \
            `/api/v1` and `/v1` models that generate text unless `output_modalities` says otherwise, \
             below `/api` models of every kind."
                ),
            )
            .parameters(models())
            .answers("ModelCount"),
        get("/models/stats", "showModelStats", "models", "Measurements of every endpoint")
            .parameters([query("model", "Only the endpoints of this model.", text())])
            .answers("ModelStats"),
        get("/models/{id}/endpoints", "listEndpoints", "models", "Endpoints of a model with prices and measurements")
            .open()
            .parameters([in_path("id", "Id of the model, with its slash.", text())])
            .answers("ModelEndpoints"),
        get("/models/{id}", "getModel", "models", "One model")
            .open()
            .parameters([in_path("id", "Id of the model, with its slash.", text())])
            .answers_any("200", &["Model", "AnthropicModel"])
            .answers_any("default", &["Error", "MessagesError"]),
        get("/model/{id}", "getModelEnveloped", "models", "One model in `data`")
            .open()
            .parameters([in_path("id", "Id of the model, with its slash.", text())])
            .answers("ModelEnvelope"),
        get("/providers", "listProviders", "models", "Enabled providers and their data policies")
            .open()
            .answers("ProviderList"),
        get("/health/calibration", "showCalibration", "health", "Predictions compared with what happened")
            .answers("Calibration"),
        get("/health/memory", "showMemory", "health", "State of the saved routing statistics").answers("Memory"),
        get("/health/providers", "listProviderHealth", "health", "Health of all providers").answers("ProviderHealth"),
        get("/health/providers/{slug}", "showProviderHealth", "health", "Health of one provider")
            .parameters([in_path("slug", "Short name of the provider.", text())])
            .answers("ProviderHealth"),
        get("/health/quality", "showQuality", "health", "How good the answers of models are, by scores and ratings")
            .answers("QualityHealth"),
        get("/health/slo", "showTargets", "health", "Attainment of latency targets").answers("Targets"),
        get("/health/shadows", "showShadows", "health", "What shadow policies would have chosen").answers("Shadows"),
        get("/health/splits", "showSplits", "health", "Parts of divided aliases, and their canaries").answers("Splits"),
        get("/key", "showOwnKey", "keys", "The key of this request: limits and spending").answers("OwnKey"),
        get("/auth/key", "showOwnKeyAlias", "keys", "The same as /key").answers("OwnKey"),
        get("/credits", "showCredits", "keys", "Spending of this key as credits").answers("Credits"),
    ];
    operations.extend(keys(""));
    operations.extend(health().into_iter().map(|operation| operation.below(EVERYWHERE)));
    operations.extend(documents().into_iter().map(|operation| operation.below(&["/"])));
    operations
}

/// The operations of the listener for administrators.
pub(super) fn admin() -> Vec<Operation> {
    let version = json!({ "type": "integer", "minimum": 1 });
    let mut operations = vec![
        get("/api/v1/admin/status", "showStatus", "process", "State of the process and its configuration")
            .answers("AdminStatus"),
        get(
            "/api/v1/admin/config",
            "showConfig",
            "process",
            "Every key of the configuration with its value and source",
        )
        .parameters([
            query("q", "A part of the keys that are listed.", json!({ "type": "string" })),
            query(
                "source",
                "Which keys are listed; `set`: those of the file and of variables.",
                json!({ "type": "string", "enum": config_values::SOURCES }),
            ),
            query("from", "A version that is compared with `to`.", version.clone()),
            query("to", "The other version; without it the one in force.", version),
        ])
        .answers("AdminConfig"),
        post("/api/v1/admin/reload", "reload", "process", "Read the configuration again").answers("Reload"),
        get("/api/v1/admin/reload/preview", "previewReload", "process", "What a reload would change")
            .with(
                "description",
                json!(
                    "Reads the configuration from its file and compares it with the one in force. Changes \
            nothing. A reload may be refused although this finds no fault, when the new \
            configuration cannot be prepared."
                ),
            )
            .answers("ReloadPreview"),
        get(
            "/api/v1/admin/series",
            "showSeries",
            "process",
            "Calls, cost, tokens and times to the first output in slots of time",
        )
        .parameters([
            query(
                "span",
                "How far back; by=endpoint reaches back one hour only.",
                json!({ "type": "string", "enum": ["1h", "24h"] }),
            ),
            query(
                "by",
                "What the series divide the calls by.",
                json!({ "type": "string", "enum": ["all", "endpoint", "provider", "key"] }),
            ),
        ])
        .answers("AdminSeries"),
        get(
            "/api/v1/admin/refused",
            "listRefused",
            "process",
            "Inference calls that were refused before an endpoint was called, newest first",
        )
        .parameters([
            query("reason", "Only calls with this reason of the error.", text()),
            query("key", "Only calls of the key with this name.", text()),
            query("limit", "Most calls; 100 without it.", integer(1, 1200)),
        ])
        .answers("AdminRefused"),
        get("/api/v1/admin/running", "listRunning", "process", "Calls in progress, oldest first, at most 200")
            .answers("AdminRunning"),
        get(
            "/api/v1/admin/live",
            "streamLive",
            "process",
            "What happens, as server-sent events: `generation`, `breaker`, `notice`, `config`, and \
            `tick` once a second",
        )
        .parameters([in_header(
            "Last-Event-ID",
            "Number of the last event that the client saw; up to 200 later ones are sent again.",
        )])
        .answers_in(
            "200",
            "Events until the gateway stops.",
            "text/event-stream",
            json!({ "type": "string", "description": LIVE }),
        ),
        get(
            "/api/v1/admin/verdict",
            "showVerdict",
            "process",
            "One sentence about the gateway, and what needs attention",
        )
        .answers("AdminVerdict"),
        get("/api/v1/admin/keys", "listAllKeys", "keys", "Keys of the configuration and issued ones")
            .answers("AdminKeyList"),
        get("/api/v1/admin/keys/{name}", "showKeyByName", "keys", "One key").by_name().answers("AdminKey"),
        post("/api/v1/admin/keys/{name}/disable", "disableKey", "keys", "Refuse a key until it is enabled")
            .by_name()
            .answers("AdminKey"),
        post("/api/v1/admin/keys/{name}/enable", "enableKey", "keys", "Accept a disabled key again")
            .by_name()
            .answers("AdminKey"),
        get(
            "/api/v1/admin/alerts",
            "listAlertReceivers",
            "process",
            "Receivers of alerts, and what they were told last",
        )
        .answers("AlertReceivers"),
        post(
            "/api/v1/admin/alerts/test",
            "testAlerts",
            "process",
            "Send a test to all receivers of alerts or one, now and once; waits for how it ends, at most 5 s",
        )
        .parameters([query("receiver", "Name of the receiver; all without it.", text())])
        .answers("AlertTests"),
        get("/api/v1/admin/audit", "showAudit", "process", "Changes by administrators, newest first")
            .parameters(audit())
            .answers("Audit"),
        get("/api/v1/admin/activity", "showAllActivity", "records", "Sums of all keys per day or hour and model")
            .parameters(activity().into_iter().chain([of_owner()]))
            .answers("AdminActivity"),
        get("/api/v1/admin/activity.csv", "exportAllActivity", "records", "The same as CSV")
            .parameters(activity().into_iter().chain([of_owner()]))
            .answers_text("text/csv"),
        get(
            "/api/v1/admin/activity/explain",
            "explainAllActivity",
            "records",
            "Why the cost of a period differs from that of another",
        )
        .parameters(change_of_cost().into_iter().chain([of_owner()]))
        .answers("CostChange"),
        get("/api/v1/admin/generations", "listAllGenerations", "records", "Generations of all keys, newest first")
            .parameters(generations(200).into_iter().chain(of_key()))
            .answers("AdminGenerations"),
        get("/api/v1/admin/generations.csv", "exportGenerations", "records", "The same as CSV")
            .parameters(generations(10000).into_iter().chain(of_key()))
            .headers(Headers::Page)
            .answers_text("text/csv"),
        get("/api/v1/admin/ledger", "showLedger", "records", "Size and owners of the stored records")
            .answers("AdminLedger"),
        get("/api/v1/admin/ledger/verification", "verifyLedger", "records", "Read every record and compare the sums")
            .answers("Verification"),
        post("/api/v1/admin/diff", "beginDiff", "records", "Compare what another configuration would have chosen")
            .takes("DiffRequest")
            .answers_with("202", "DiffJob"),
        get("/api/v1/admin/diff/{diff}", "getDiff", "records", "A comparison and its report")
            .parameters([in_path("diff", "Id of the comparison.", text())])
            .answers("DiffJob"),
        delete("/api/v1/admin/diff/{diff}", "cancelDiff", "records", "Cancel a comparison")
            .parameters([in_path("diff", "Id of the comparison.", text())])
            .answers("DiffJob"),
        post(
            "/api/v1/admin/regret",
            "beginRegret",
            "records",
            "Review what recorded decisions came to beyond better ones",
        )
        .takes("RegretRequest")
        .answers_with("202", "RegretJob"),
        get("/api/v1/admin/regret/{regret}", "getRegret", "records", "A review and its report")
            .parameters([in_path("regret", "Id of the review.", text())])
            .answers("RegretJob"),
        delete("/api/v1/admin/regret/{regret}", "cancelRegret", "records", "Cancel a review")
            .parameters([in_path("regret", "Id of the review.", text())])
            .answers("RegretJob"),
        post(
            "/api/v1/admin/shadows/{name}/promote",
            "promoteShadow",
            "process",
            "Say whether a shadow may be tried on a share of the requests, and the lines that do it",
        )
        .by_name()
        .takes("PromotionRequest")
        .answers("Promotion"),
        delete("/api/v1/admin/ledger/records", "deleteRecords", "records", "Delete records by age, key or owner")
            .parameters([
                query("older_than_secs", "Age; 0: all.", integer(0, 4294967295)),
                query("key", "Name of a key.", text()),
                query(
                    "owner",
                    "Owner as in GET /ledger; instead of `key`.",
                    json!({ "type": "string", "pattern": "^[0-9A-Fa-f]{16}$" }),
                ),
            ])
            .answers("Deletion"),
    ];
    operations.extend(holders("account", "Account", ["an account"; 2]));
    operations.extend(holders("team", "Team", ["a team", "the accounts of a team"]));
    operations.extend(keys("/api/v1"));
    operations.extend(health());
    operations.extend(documents());
    operations
}

/// Accounts or teams. `one` and whose keys it holds are parts of sentences.
fn holders(word: &str, name: &str, [one, keys_of]: [&str; 2]) -> [Operation; 5] {
    let at = |path: &str| format!("/api/v1/admin/{word}s{path}");
    let operation = |make: fn(&str, &str, &str, &str) -> Operation, path: &str, verb: &str, summary: String| {
        make(&at(path), &format!("{verb}{name}"), "accounts", &summary).by_name().answers(&format!("{name}s"))
    };
    [
        get(&at(""), &format!("list{name}s"), "accounts", &format!("{name}s with limits and spending"))
            .answers(&format!("{name}s")),
        operation(put, "/{name}", "put", format!("Set the limits of {one}")).takes(&format!("{name}Limits")),
        operation(delete, "/{name}", "delete", format!("Remove the limits of {one}")),
        operation(post, "/{name}/disable", "disable", format!("Refuse all keys of {keys_of}")),
        operation(post, "/{name}/enable", "enable", format!("Accept the keys of {one} again")),
    ]
}

/// Issuing keys, at both listeners.
fn keys(below: &str) -> Vec<Operation> {
    let at = |path: &str| format!("{below}{path}");
    let hash = || in_path("hash", "The hash in the list.", json!({ "type": "string", "pattern": "^[0-9a-f]{16}$" }));
    vec![
        get(&at("/keys"), "listKeys", "keys", "Issued keys; scope admin")
            .parameters([
                query("offset", "Keys to leave out.", integer(0, 9007199254740991)),
                query("include_disabled", "Whether disabled keys are listed.", json!({ "type": "boolean" })),
            ])
            .answers("KeyList"),
        post(&at("/keys"), "createKey", "keys", "Issue a key; its text is shown once; scope admin")
            .takes("NewKey")
            .answers_with("201", "CreatedKey"),
        post(
            &at("/keys/{hash}/rotate"),
            "rotateKey",
            "keys",
            "Give a key a new text, shown once; the old one is refused from then on; scope admin",
        )
        .parameters([hash()])
        .answers("CreatedKey"),
        get(&at("/keys/{hash}"), "getKey", "keys", "One issued key; scope admin")
            .parameters([hash()])
            .answers("KeyBody"),
        Operation::new("patch", &at("/keys/{hash}"), "updateKey", "keys", "Change a key; scope admin")
            .parameters([hash()])
            .takes("KeyChange")
            .answers("KeyBody"),
        delete(&at("/keys/{hash}"), "revokeKey", "keys", "Remove a key for good; scope admin")
            .parameters([hash()])
            .answers("Deleted"),
    ]
}

fn health() -> Vec<Operation> {
    vec![
        get("/health", "health", "health", "Version, uptime and state of configuration and ledger")
            .open()
            .answers("Health"),
        get("/health/live", "live", "health", "Whether the process runs").open().answers("Live"),
        get("/healthz", "healthz", "health", "The same as /health/live").open().answers("Live"),
        get("/health/ready", "ready", "health", "Whether a model can be served").open().answers("Ready").answers_in(
            "503",
            "Not ready, or draining.",
            "application/json",
            reference("Ready"),
        ),
        get("/readyz", "readyz", "health", "The same as /health/ready").open().answers("Ready").answers_in(
            "503",
            "Not ready, or draining.",
            "application/json",
            reference("Ready"),
        ),
        get("/metrics", "metrics", "health", "Metrics in the text format of Prometheus")
            .open()
            .answers_text("text/plain"),
    ]
}

fn documents() -> Vec<Operation> {
    vec![
        get("/openapi.json", "openapi", "documents", "This document").open().answers_in(
            "200",
            "Success.",
            "application/json",
            json!({ "type": "object" }),
        ),
        get("/docs", "docs", "documents", "This document as a page for people").open().answers_text("text/html"),
        get("/", "frontPage", "documents", "What this is and where to go: HTML where it is accepted, else JSON")
            .open()
            .answers("FrontPage")
            .answers_text("text/html"),
    ]
}
