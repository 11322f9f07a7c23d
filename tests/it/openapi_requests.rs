//! Request schemas of `/openapi.json`, compared with what the server takes and refuses.
//!
//! Each table changes one member of a request that is good. What the schema takes the server must take, and what the schema
//! refuses the server must refuse with a 4xx.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    openapi::{Both, Described, both},
    schema,
    world::{World, always, completion},
};

/// A value for a member, and whether it is good.
pub(crate) type Case = (&'static str, Value, bool);

/// A schema, a request that fits it, and changes of it.
struct Table {
    schema: &'static str,
    base: Value,
    cases: Vec<Case>,
}

impl Table {
    /// Compares the schema in `document` with what the server says. The examples of the schema are good.
    async fn check(self, document: &Value, mut status: impl AsyncFnMut(&Value) -> (u16, String)) {
        let schema = &document["components"]["schemas"][self.schema];
        assert!(schema.is_object(), "no schema {}", self.schema);
        let examples = schema["examples"].as_array().cloned().unwrap_or_default();
        assert!(!examples.is_empty(), "{} has no examples", self.schema);
        let mut cases: Vec<(Value, bool)> = examples.into_iter().map(|example| (example, true)).collect();
        cases.push((self.base.clone(), true));
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        cases.extend(required.map(|name| {
            let mut body = self.base.clone();
            body.as_object_mut().unwrap().remove(name);
            (body, false)
        }));
        cases.extend(self.cases.into_iter().map(|(name, value, good)| {
            let mut body = self.base.clone();
            body[name] = value;
            (body, good)
        }));
        let mut wrong = Vec::new();
        for (body, good) in cases {
            let fault = schema::fault(&body, schema, document);
            let (status, text) = status(&body).await;
            let taken = !(400..500).contains(&status);
            if (fault.is_none(), taken) != (good, good) {
                wrong.push(format!("{body}: schema {fault:?}, server {status} {text}"));
            }
        }
        assert!(wrong.is_empty(), "{}:\n{}", self.schema, wrong.join("\n"));
    }

    async fn check_post(self, gateway: &TestGateway, path: &str) {
        let document = gateway.get("/openapi.json").await.expect(200);
        self.check(&document, async |body| {
            let reply = gateway.post(path, body).await;
            (reply.status, reply.text())
        })
        .await;
    }
}

/// Members that say where a request may go, which all inference requests have.
pub(crate) fn routing() -> Vec<Case> {
    vec![
        ("objective", json!("cheapest"), true),
        ("objective", json!("best"), false),
        ("objective", Value::Null, true),
        ("allowed_models", json!(["meadow/*", "lantern/*", "acme/*"]), true),
        ("allowed_models", json!("meadow/*, lantern/*, acme/*"), true),
        ("allowed_models", json!(7), false),
        ("allowed_models", json!([7]), false),
        ("blocked_models", json!([]), true),
        ("blocked_models", json!({}), false),
        ("max_cost", json!(5), true),
        ("max_cost", json!("5"), true),
        ("max_cost", json!(0), false),
        ("max_cost", json!(-1), false),
        ("max_cost_per_1k_tokens", json!(true), false),
        ("preferred_max_latency", json!(30), true),
        ("preferred_max_latency", json!({"p50": 10, "p99": 30}), true),
        ("preferred_max_latency", json!({}), false),
        ("preferred_max_latency", json!({"p42": 1}), false),
        ("preferred_max_latency", json!(0), false),
        ("preferred_min_throughput", json!({"p50": "fast"}), false),
        ("weights", json!({"latency": 1}), true),
        ("weights", json!({"latency": -1, "cost": 1}), false),
        ("weights", json!({"speed": 1}), false),
        ("provider", json!({"allow_fallbacks": true, "sort": "price", "data_collection": "allow"}), true),
        ("provider", json!({"sort": {"by": "latency", "partition": "none"}, "max_price": {"prompt": 1000}}), true),
        ("provider", json!({"a_member_of_tomorrow": 1}), true),
        ("provider", json!([]), false),
        ("provider", json!({"order": 7}), false),
        ("provider", json!({"allow_fallbacks": "yes"}), false),
        ("provider", json!({"data_collection": "maybe"}), false),
        ("provider", json!({"sort": "beauty"}), false),
        ("provider", json!({"max_price": {"audacity": 1}}), false),
        ("provider", json!({"max_price": {"prompt": -1}}), false),
        ("metadata", json!({"user_id": "u-1", "team": "a"}), true),
        ("metadata", json!("a"), false),
        ("session_id", json!("s-1"), true),
        ("session_id", json!(7), false),
        ("session_id", json!("s".repeat(257)), false),
        ("trace", json!({"a": 1}), true),
        ("trace", json!([]), false),
        ("route", json!("fallback"), true),
        ("route", json!("elsewhere"), false),
        ("transforms", json!([7]), false),
        ("plugins", json!([{"id": "auto-router"}]), true),
        ("plugins", json!([{"enabled": true}]), false),
        ("plugins", json!([{"id": "web"}]), false),
        ("plugins", json!([{"id": "auto-router", "allowed_models": ["*"], "excluded_models": ["none/*"]}]), true),
        ("plugins", json!([{"id": "auto-router", "excluded_models": 7}]), false),
        ("plugins", json!([{"id": "auto-router", "excluded_models": [7]}]), false),
        ("plugins", json!([{"id": "auto-router", "enabled": false, "excluded_models": {}}]), false),
        ("weights", json!({"latency": 0, "cost": 0}), false),
        ("weights", json!({"latency": null, "cost": 2}), true),
        ("plugins", json!({}), false),
        ("usage", json!({"include": true}), true),
        ("usage", json!({"include": 1}), false),
        ("debug", json!({"echo_upstream_body": "yes"}), false),
        ("extra_body", json!(7), false),
        ("a_member_of_tomorrow", json!({"any": "thing"}), true),
    ]
}

fn with_routing(cases: Vec<Case>) -> Vec<Case> {
    cases.into_iter().chain(routing()).collect()
}

#[actix_web::test]
async fn a_chat_is_taken_and_refused_as_its_schema_says() {
    let cases = vec![
        ("temperature", json!(0), true),
        ("temperature", json!(2), true),
        ("temperature", json!(2.1), false),
        ("temperature", json!(-0.1), false),
        ("temperature", json!("1"), false),
        ("temperature", Value::Null, true),
        ("top_p", json!(1.5), false),
        ("top_k", json!(-1), false),
        ("top_logprobs", json!(21), false),
        ("frequency_penalty", json!(-2), true),
        ("presence_penalty", json!(-2.5), false),
        ("max_tokens", json!(0), false),
        ("max_tokens", json!(1), true),
        ("max_tokens", json!(1.5), false),
        ("seed", json!(-7), true),
        ("seed", json!("7"), false),
        ("stop", json!(["a", "b"]), true),
        ("stop", json!(7), false),
        ("stream", json!("yes"), false),
        ("models", json!("meadow/small"), false),
        ("provider", json!([]), false),
        ("metadata", json!("a"), false),
        ("user", json!(7), false),
        ("model", json!(7), false),
        ("messages", json!([]), false),
        ("messages", json!("Hello"), false),
        ("messages", json!([{"content": "Hello"}]), false),
        ("messages", json!([{"role": "wizard", "content": "Hello"}]), false),
        ("messages", json!([{"role": "user", "content": 7}]), false),
        ("messages", json!([{"role": "user"}]), false),
        ("messages", json!([{"role": "tool", "tool_call_id": "c1"}]), false),
        ("messages", json!([{"role": "tool", "content": "It rains."}]), false),
        (
            "messages",
            json!([{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello"}]),
            true,
        ),
        ("a_member_of_tomorrow", json!({"any": "thing"}), true),
        ("model", Value::Null, false),
        ("n", json!(0), false),
        ("logit_bias", json!({"50256": 101}), false),
        ("response_format", json!({"type": "json_object"}), true),
        ("response_format", json!({"type": "xml"}), true),
        ("response_format", json!({"type": "json_schema"}), false),
        ("reasoning", json!({"effort": "huge"}), false),
        ("repetition_penalty", json!(0), false),
        ("modalities", json!(["smell"]), false),
        ("stop", json!([""]), false),
        ("service_tier", json!(7), false),
        ("user", json!(7), false),
    ];
    let table = Table {
        schema: "ChatRequest",
        base: json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5}),
        cases: with_routing(cases),
    };
    table.check_post(&TestGateway::simulated().await, "/api/v1/chat/completions").await;
}

#[actix_web::test]
async fn a_message_is_taken_and_refused_as_its_schema_says() {
    let table = Table {
        schema: "MessagesRequest",
        base: json!({"model": "meadow/small", "max_tokens": 5, "messages": [{"role": "user", "content": "Hello"}]}),
        cases: with_routing(
            [vec![("max_tokens", json!(1.5), false), ("max_tokens", json!(-1), false)], message()].concat(),
        ),
    };
    table.check_post(&TestGateway::simulated().await, "/api/v1/messages").await;
}

#[actix_web::test]
async fn tokens_are_counted_and_refused_as_the_schema_says() {
    let table = Table {
        schema: "CountTokensRequest",
        base: json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Hello"}]}),
        cases: with_routing([vec![("max_tokens", json!("many"), true)], message()].concat()),
    };
    table.check_post(&TestGateway::simulated().await, "/api/v1/messages/count_tokens").await;
}

/// Members of the Messages API.
fn message() -> Vec<Case> {
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    let assistant = |block: Value| {
        let call = json!({"type": "tool_result", "tool_use_id": "t1", "content": "a tree"});
        json!([{"role": "user", "content": "Look"}, {"role": "assistant", "content": [block]}, {"role": "user", "content": [call]}])
    };
    let call = json!({"type": "tool_use", "id": "t1", "name": "look", "input": {}});
    let tool = json!({"name": "look", "input_schema": {"type": "object"}});
    let without = |value: &Value, name: &str| {
        let mut value = value.clone();
        value.as_object_mut().unwrap().remove(name);
        value
    };
    vec![
        ("model", json!(""), false),
        ("model", json!(7), false),
        ("model", Value::Null, false),
        ("model", json!("m".repeat(257)), false),
        ("messages", json!([]), false),
        ("messages", json!("Hello"), false),
        ("messages", json!([{"content": "Hello"}]), false),
        ("messages", json!([{"role": "user"}]), false),
        ("messages", json!([{"role": "wizard", "content": "Hello"}]), false),
        ("messages", user(json!(7)), false),
        ("messages", user(json!([{"type": "text", "text": "Hello"}])), true),
        ("messages", user(json!([{"type": "text"}])), false),
        ("messages", user(json!([{"text": "Hello"}])), false),
        ("messages", user(json!([{"type": "image"}])), false),
        ("messages", user(json!([{"type": "document"}])), false),
        ("messages", user(json!([{"type": "tool_result", "content": "a tree"}])), false),
        ("messages", json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]), true),
        ("messages", json!([{"role": "system", "content": [{"type": "image"}]}]), false),
        ("messages", assistant(call.clone()), true),
        ("messages", assistant(without(&call, "id")), false),
        ("messages", assistant(without(&call, "name")), false),
        ("messages", assistant(without(&call, "input")), false),
        ("messages", assistant(json!({"type": "tool_use", "id": "", "name": "look", "input": {}})), false),
        ("messages", assistant(json!({"type": "tool_use", "id": "t1", "name": "look", "input": "{}"})), false),
        ("system", json!("Be brief."), true),
        ("system", json!([{"type": "text", "text": "Be brief."}]), true),
        ("system", json!([{"type": "text"}]), false),
        ("system", json!([{"text": "Be brief."}]), false),
        ("service_tier", json!({}), false),
        ("speed", json!(1), false),
        ("tools", json!([{"name": "look", "input_schema": {"type": "object"}, "description": 5}]), false),
        ("tool_choice", json!({"type": "auto", "disable_parallel_tool_use": "x"}), false),
        ("system", json!(7), false),
        ("temperature", json!(1), true),
        ("temperature", json!(1.1), false),
        ("temperature", json!("1"), false),
        ("top_p", json!(1.5), false),
        ("top_k", json!(-1), false),
        ("top_k", json!(5), true),
        ("stream", json!("yes"), false),
        ("stop_sequences", json!(["a", ""]), true),
        ("stop_sequences", json!("a"), false),
        ("stop_sequences", json!([7]), false),
        ("tools", json!([tool.clone()]), true),
        ("tools", json!([without(&tool, "name")]), false),
        ("tools", json!([without(&tool, "input_schema")]), false),
        ("tools", json!([{"name": "look there", "input_schema": {"type": "object"}}]), false),
        ("tools", json!([{"name": "l".repeat(129), "input_schema": {"type": "object"}}]), false),
        ("tools", json!([{"name": "look", "input_schema": "object"}]), false),
        ("tools", json!({}), false),
        ("tools", json!([7]), false),
        ("tool_choice", json!({"type": "maybe"}), false),
        ("tool_choice", json!({"type": "tool"}), false),
        ("tool_choice", json!({"type": "auto"}), true),
        ("thinking", json!({"type": "enabled"}), false),
        ("thinking", json!({"type": "deep"}), false),
        ("thinking", json!({"type": "disabled"}), true),
        ("output_config", json!({"effort": "huge"}), false),
        ("output_config", json!({"format": {"type": "json_schema"}}), false),
        ("output_config", json!({"format": {"type": "text"}}), false),
        ("cache_control", json!("ephemeral"), false),
        ("thread", json!("t-1"), false),
        ("thread", Value::Null, true),
    ]
}

#[actix_web::test]
async fn a_response_is_taken_and_refused_as_its_schema_says() {
    let gateway = TestGateway::simulated().await;
    for path in ["/api/v1/responses", "/api/v1/responses/input_tokens"] {
        let table = Table {
            schema: "ResponsesRequest",
            base: json!({"model": "meadow/small", "input": "Hello", "max_output_tokens": 20}),
            cases: with_routing(response()),
        };
        table.check_post(&gateway, path).await;
    }
}

/// Members of the Responses API.
fn response() -> Vec<Case> {
    let user = |content: Value| json!([{"role": "user", "content": content}]);
    let after = |item: Value| json!([{"role": "user", "content": "Look"}, item]);
    let function = json!({"type": "function", "name": "look", "parameters": {"type": "object"}});
    vec![
        ("model", json!(""), false),
        ("model", Value::Null, false),
        ("input", json!([]), false),
        ("input", json!(7), false),
        ("input", json!({}), false),
        ("input", user(json!("Hello")), true),
        ("input", user(json!([{"type": "input_text", "text": "Hello"}])), true),
        ("input", user(json!([{"type": "input_text"}])), false),
        ("input", user(json!([{"type": "input_image"}])), false),
        ("input", user(json!([{"type": "input_file"}])), false),
        ("input", user(json!([{"type": "input_audio"}])), false),
        ("input", user(json!([{"type": "smell", "text": "roses"}])), false),
        ("input", json!([{"role": "wizard", "content": "Hello"}]), false),
        ("input", json!([{"role": "user"}]), false),
        ("input", json!(["Hello"]), false),
        ("input", after(json!({"role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]})), true),
        ("input", after(json!({"role": "assistant", "content": [{"type": "input_image", "image_url": "x"}]})), false),
        ("input", after(json!({"type": "function_call", "name": "look", "arguments": "{}"})), false),
        ("input", after(json!({"type": "function_call", "call_id": "c", "name": "look", "arguments": {}})), false),
        ("input", after(json!({"type": "function_call_output", "call_id": "c"})), false),
        ("input", after(json!({"type": "item_reference", "id": "i"})), false),
        ("input", after(json!({"type": "additional_tools"})), false),
        ("instructions", json!("Be brief."), true),
        ("instructions", json!(7), false),
        ("tools", json!([function]), true),
        ("tools", json!([{"type": "function"}]), false),
        ("tools", json!([{"name": "look"}]), false),
        ("tools", json!([{"type": "function", "name": "look", "parameters": "x"}]), false),
        ("tools", json!([{"type": "namespace", "name": "n"}]), false),
        ("tools", json!("look"), false),
        ("tool_choice", json!("auto"), true),
        ("tool_choice", json!({}), false),
        ("tool_choice", json!(7), false),
        ("max_output_tokens", json!(0), false),
        ("max_output_tokens", json!("5"), false),
        ("max_output_tokens", Value::Null, true),
        ("reasoning", json!({"effort": 7}), false),
        ("reasoning", json!({"effort": "huge"}), false),
        ("reasoning", json!("low"), false),
        ("text", json!({"format": {"type": "text"}, "verbosity": "low"}), true),
        ("text", json!({"format": {"type": "xml"}}), false),
        ("text", json!({"format": {"type": "json_schema", "name": "x"}}), false),
        ("text", json!("low"), false),
        ("include", json!(["reasoning.encrypted_content"]), true),
        ("include", json!("reasoning"), false),
        ("truncation", json!("auto"), true),
        ("truncation", json!("hard"), false),
        ("store", json!(true), true),
        ("store", json!("yes"), false),
        ("background", json!(false), true),
        ("background", json!(true), false),
        ("previous_response_id", json!("resp_1"), false),
        ("previous_response_id", Value::Null, true),
        ("conversation", json!("conv_1"), false),
        ("prompt", json!({"id": "p"}), false),
        ("temperature", json!(2), true),
        ("temperature", json!(2.5), false),
        ("top_p", json!(-1), false),
        ("top_logprobs", json!(21), false),
        ("stream", json!(1), false),
        ("stream_options", json!(1), false),
        ("stream_options", json!({"include_obfuscation": false}), true),
        ("max_tool_calls", json!("x"), false),
        ("tools", json!([{"type": "function", "name": "look", "description": 5}]), false),
        ("tools", json!([{"type": "function", "name": "look", "strict": "x"}]), false),
        ("parallel_tool_calls", json!("no"), false),
        ("service_tier", json!(1), false),
        ("user", json!(7), false),
    ]
}

#[actix_web::test]
async fn an_embedding_is_taken_and_refused_as_its_schema_says() {
    let answer = json!({"object": "list", "model": "v", "usage": {"prompt_tokens": 1, "total_tokens": 1},
        "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]});
    let upstream = always(200, &answer);
    let gateway = World::new()
        .provider("acme", upstream.address())
        .with(
            "[[models]]\nid = \"acme/vectors\"\ncontext_length = 8192\noutput_modalities = [\"embeddings\"]\n\
             supported_parameters = [\"dimensions\", \"token_ids\"]\nendpoints = [{ provider = \"acme\", upstream_model = \"v\", \
             pricing = { prompt = \"0.000001\", completion = \"0\" } }]",
        )
        .start()
        .await;
    let table = Table {
        schema: "EmbeddingRequest",
        base: json!({"model": "acme/vectors", "input": "Hello"}),
        cases: with_routing(vec![
            ("model", json!(""), false),
            ("model", Value::Null, false),
            ("models", json!(["acme/vectors"]), false),
            ("models", json!([]), true),
            ("input", json!(""), false),
            ("input", json!([]), false),
            ("input", json!([""]), false),
            ("input", json!({}), false),
            ("input", json!(["Hello"]), true),
            ("input", json!([1, 2, 3]), true),
            ("input", json!([[1, 2, 3]]), true),
            ("input", json!([-1]), false),
            ("input", json!([1.5]), false),
            ("input", json!([[]]), false),
            ("input", json!([1, "Hello"]), false),
            ("input", json!(vec!["a"; 2049]), false),
            ("encoding_format", json!("base64"), true),
            ("encoding_format", json!("hex"), false),
            ("dimensions", json!(0), false),
            ("dimensions", json!(256), true),
            ("dimensions", json!(1_000_001), false),
            ("input_type", json!("query"), true),
            ("user", json!(7), false),
            ("input_type", json!(7), false),
            ("seed", json!("7"), false),
        ]),
    };
    table.check_post(&gateway, "/api/v1/embeddings").await;
}

#[actix_web::test]
async fn a_completion_is_taken_and_refused_as_its_schema_says() {
    let upstream = always(200, &completion("x):"));
    let keys = "legacy_completions = true";
    let gateway = World::new()
        .variable("POINTSMAN__SERVER__LEGACY_COMPLETIONS", "true")
        .provider_with("acme", upstream.address(), keys)
        .with(
            "[[models]]\nid = \"acme/small\"\ncontext_length = 8192\nendpoints = [{ provider = \"acme\", upstream_model = \"v\", \
             pricing = { prompt = \"0.000001\", completion = \"0\" } }]",
        )
        .start()
        .await;
    let table = Table {
        schema: "CompletionRequest",
        base: json!({"model": "acme/small", "prompt": "def f("}),
        cases: vec![
            ("prompt", json!(7), false),
            ("prompt", json!([]), false),
            ("prompt", json!(["a"]), true),
            ("prompt", json!(["a", "b"]), true),
            ("prompt", json!(["a", 1]), false),
            ("prompt", json!([1, 2]), true),
            ("prompt", json!([1, -2]), false),
            ("prompt", json!([[1], [2]]), true),
            ("prompt", json!([[1], []]), false),
            ("suffix", json!(")"), true),
            ("suffix", json!(1), false),
            ("echo", json!(true), true),
            ("echo", json!(1), false),
            ("best_of", json!(0), false),
            ("best_of", json!(3), true),
            ("logprobs", json!(5), true),
            ("logprobs", json!(6), false),
            ("logprobs", json!(true), false),
            ("max_tokens", json!(0), false),
            ("temperature", json!(3), false),
            ("messages", json!([]), false),
            ("objective", json!("best"), false),
        ],
    };
    table.check_post(&gateway, "/v1/completions").await;
}

#[actix_web::test]
async fn an_image_is_taken_and_refused_as_its_schema_says() {
    let gateway = TestGateway::simulated().await;
    let table = Table {
        schema: "ImageRequest",
        base: json!({"model": "lantern/canvas", "prompt": "A cat"}),
        cases: with_routing(vec![
            ("prompt", json!(""), false),
            ("prompt", json!(7), false),
            ("prompt", json!("c".repeat(32_001)), false),
            ("models", json!("lantern/canvas"), false),
            ("models", json!([""]), false),
            ("n", json!(2), true),
            ("n", json!(0), false),
            ("n", json!(11), false),
            ("size", json!("auto"), true),
            ("size", json!("0x10"), false),
            ("size", json!("large"), false),
            ("size", json!(1024), false),
            ("response_format", json!("b64_json"), true),
            ("response_format", json!("png"), false),
            ("input_references", json!("https://x.test/a.png"), false),
            ("input_references", json!([7]), false),
            ("quality", json!("hd"), true),
            ("user", json!(7), false),
            ("quality", json!(1), false),
            ("output_compression", json!(101), false),
            ("seed", json!(7), true),
            ("stream", json!(true), false),
            ("stream", json!(false), true),
        ]),
    };
    table.check_post(&gateway, "/api/v1/images/generations").await;
    let error = gateway.post("/api/v1/images/generations", &json!({"prompt": "A cat"})).await.expect(400);
    assert_eq!(error["error"]["param"], "model");
}

#[actix_web::test]
async fn keys_accounts_and_teams_are_taken_and_refused_as_their_schemas_say() {
    let Both { inference, admin, .. } = &both().await;
    let below = "/api/v1/keys";
    for (described, name) in [(inference, "renamed"), (admin, "renamed again")] {
        let created = described.call(Method::POST, below, Some(&json!({"name": "changed"}))).await.expect(201);
        let path = format!("{below}/{}", created["data"]["hash"].as_str().unwrap());
        let new = [("account", json!("acme"), true), ("account", json!(""), false), ("account", Value::Null, false)];
        let new = Table { schema: "NewKey", base: json!({"name": "described"}), cases: [key(), new.to_vec()].concat() };
        check(new, described, Method::POST, below).await;
        let change = [("account", json!("acme"), false), ("name", json!(name), true)];
        let change = Table { schema: "KeyChange", base: json!({}), cases: [key(), change.to_vec()].concat() };
        check(change, described, Method::PATCH, &path).await;
    }
    let limits = || {
        let rates = ["requests_per_minute", "tokens_per_minute", "concurrency"].into_iter().flat_map(rate);
        rates.collect::<Vec<Case>>()
    };
    let teams = vec![("limit", json!(-1), false), ("limit_reset", Value::Null, true), ("team", json!("a"), false)];
    let teams = Table { schema: "TeamLimits", base: json!({"limit": 5}), cases: teams };
    check(teams, admin, Method::PUT, "/api/v1/admin/teams/described").await;
    let accounts = [
        limits(),
        spend(),
        vec![("team", json!("described"), true), ("team", json!(7), false), ("x", json!(1), false)],
    ];
    let accounts = Table { schema: "AccountLimits", base: json!({"limit": 5}), cases: accounts.concat() };
    check(accounts, admin, Method::PUT, "/api/v1/admin/accounts/described").await;
}

async fn check(table: Table, described: &Described, method: Method, path: &str) {
    let status = async |body: &Value| {
        let reply = described.call(method.clone(), path, Some(body)).await;
        if reply.status == 201 {
            // Names of keys are unique.
            let path = format!("{path}/{}", reply.json()["data"]["hash"].as_str().unwrap());
            described.call(Method::DELETE, &path, None).await.expect(200);
        }
        (reply.status, reply.text())
    };
    table.check(&described.document, status).await;
}

fn rate(name: &'static str) -> Vec<Case> {
    vec![
        (name, json!(0), true),
        (name, json!(1_000_000_000), true),
        (name, Value::Null, true),
        (name, json!(1_000_000_001), false),
        (name, json!(-1), false),
        (name, json!(1.5), false),
        (name, json!("60"), false),
    ]
}

fn spend() -> Vec<Case> {
    vec![
        ("limit", json!(0), true),
        ("limit", json!("0.50"), true),
        ("limit", Value::Null, true),
        ("limit", json!(-1), false),
        ("limit", json!(1_000_000_000_001_u64), false),
        ("limit", json!(true), false),
        ("limit_reset", Value::Null, true),
        ("limit_reset", json!("hourly"), false),
        ("limit_reset", json!(1), false),
    ]
}

/// Members of a key.
fn key() -> Vec<Case> {
    let names = ["allowed_models", "blocked_models", "allowed_providers", "blocked_providers"];
    let lists = names.into_iter().flat_map(|name| {
        [
            (name, json!(["meadow"]), name.ends_with("providers")),
            (name, Value::Null, true),
            (name, json!([]), true),
            (name, json!("meadow"), false),
            (name, json!([7]), false),
            (name, json!([""]), false),
        ]
    });
    // Whether a text is the id of a model is no question of its form.
    let lists = lists.filter(|(name, value, _)| !name.ends_with("models") || *value != json!(["meadow"]));
    let others = vec![
        ("name", json!(""), false),
        ("name", json!(7), false),
        ("name", Value::Null, false),
        ("name", json!("n".repeat(129)), false),
        ("disabled", json!(false), true),
        ("disabled", Value::Null, false),
        ("disabled", json!("no"), false),
        ("scopes", json!(["read"]), true),
        ("scopes", json!([]), false),
        ("scopes", json!(["write"]), false),
        ("scopes", Value::Null, false),
        ("expires_at", Value::Null, true),
        ("expires_at", json!("2999-12-31"), true),
        ("expires_at", json!(7), false),
        ("allowed_models", json!(["meadow/*"]), true),
        ("objective", json!("fastest"), true),
        ("objective", json!("best"), false),
        ("aliases", json!({"small": "meadow/small"}), true),
        ("aliases", json!({"small": 7}), false),
        ("aliases", json!([]), false),
        ("external_user", json!("u-1"), true),
        ("external_user", json!(""), false),
        ("workspace_id", json!("w"), true),
        ("a_member_of_tomorrow", json!(1), false),
    ];
    let rates = ["requests_per_minute", "tokens_per_minute", "concurrency"].into_iter().flat_map(rate);
    lists.chain(others).chain(rates).chain(spend()).collect()
}
