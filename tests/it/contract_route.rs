//! Preview. What it promises is kept in `contract_records`.

use std::{fmt::Debug, time::Duration};

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    keyless::{model, provider},
    patience::eventually,
    scripted::{Script, Upstream},
    world::{and, ask, completion, http},
};

const OBJECTIVES: [&str; 4] = ["cheapest", "fastest", "reliable", "balanced"];
const OTHER_KEY: &str = "sk-other-9876543210fedcba";

/// Every reason an endpoint may be excluded for.
const REASONS: [&str; 25] = [
    "not_allowed_model",
    "blocked_model",
    "provider_not_allowed",
    "provider_ignored",
    "not_free",
    "unsupported_parameter",
    "input_modality",
    "output_modality",
    "context_length",
    "max_price",
    "max_cost_per_1k_tokens",
    "data_policy",
    "quantization",
    "key_policy",
    "model_expired",
    "disabled",
    "provider_off",
    "config_fault",
    "circuit_open",
    "probe_in_flight",
    "rate_limited",
    "paced",
    "saturated",
    "wrong_endpoint",
    "draining",
];

/// An upstream that answers everything after this long.
pub(crate) fn upstream(delay_ms: u64) -> Upstream {
    let pause = Duration::from_millis(delay_ms);
    Upstream::start([
        Script::new().repeat(Script::new().request().pause(pause).send(http(200, &completion("This way."))))
    ])
}

/// Three providers of different speed, which serve one model each and one together at different prices.
pub(crate) struct Field {
    upstreams: [Upstream; 3],
}

impl Field {
    /// Their upstreams.
    pub(crate) fn new() -> Field {
        Field { upstreams: [0, 15, 30].map(upstream) }
    }

    /// A configuration with these lines of routing.
    pub(crate) fn config(&self, routing: &str) -> String {
        let [quick, middling, slow] = &self.upstreams;
        [
            format!("[routing]\n{routing}\n"),
            provider("quick", &quick.url("/v1")),
            provider("middling", &middling.url("/v1")),
            provider("slow", &slow.url("/v1")),
            model(
                "acme/shared",
                "",
                &[
                    ("quick", "0.000009", "0.000009"),
                    ("middling", "0.000003", "0.000003"),
                    ("slow", "0.000001", "0.000001"),
                ],
            ),
            model("quick/own", "supported_parameters = [\"tools\"]", &[("quick", "0.000005", "0.000008")]),
            model("slow/own", "supported_parameters = [\"tools\"]", &[("slow", "0", "0")]),
        ]
        .concat()
    }

    fn calls(&self) -> usize {
        self.upstreams.iter().map(|upstream| upstream.log().requests.len()).sum()
    }
}

/// Does something until the statistics that the routing reads have not changed under it, and gives what came of it.
/// News of calls that ended is published a moment later.
async fn on_the_same_statistics<T: Debug>(gateway: &TestGateway, mut act: impl AsyncFnMut() -> T) -> T {
    let watched = async || {
        // The page has the workers hand in their news.
        gateway.get("/api/v1/health/providers").await.expect(200);
        let before = gateway.snapshot_version();
        let came = act().await;
        (before == gateway.snapshot_version(), came)
    };
    eventually("the statistics stay as they are", watched, |(same, _)| *same).await.1
}

async fn preview(gateway: &TestGateway, body: &Value) -> Value {
    gateway.post("/api/v1/route/preview", body).await.expect(200)
}

/// The explanation of a generation.
pub(crate) async fn explain(gateway: &TestGateway, id: &str) -> Value {
    gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200)
}

async fn ledger_records(gateway: &TestGateway) -> u64 {
    // A look-up asks the ledger after everything that happened: so does the count behind it.
    gateway.get("/api/v1/generation?id=gen-1763629500-AbCdEfGhIjKlMnOpQrStUv").await.expect(404);
    gateway.get("/health/ready").await.expect(200)["checks"]["ledger"]["records"].as_u64().unwrap()
}

/// Model and provider of rank 1.
fn first(preview: &Value) -> (String, String) {
    let first = &preview["candidates"][0];
    assert_eq!((&first["rank"], &first["selected"]), (&1.into(), &true.into()), "{preview}");
    (first["model"].as_str().unwrap().to_owned(), first["provider_name"].as_str().unwrap().to_owned())
}

/// Model and provider that served.
fn served(answer: &Value) -> (String, String) {
    (answer["model"].as_str().unwrap().to_owned(), answer["provider"].as_str().unwrap().to_owned())
}

#[actix_web::test]
async fn preview_makes_no_upstream_call_and_no_generation() {
    let field = Field::new();
    let gateway = TestGateway::start(&field.config("")).await;
    for body in [json!({}), ask("service/auto"), and(ask("acme/shared"), json!({"stream": true})), ask("slow/own")] {
        let reply = gateway.post("/api/v1/route/preview", &body).await;
        assert_eq!(reply.header("x-generation-id"), None);
        let shown = reply.expect(200);
        assert_eq!(shown["object"], "route.preview");
        assert!(shown["candidates_total"].as_u64().unwrap() > 0, "{shown}");
    }
    assert_eq!(field.calls(), 0);
    assert_eq!(field.upstreams.iter().map(Upstream::connections).sum::<usize>(), 0);
    assert_eq!(ledger_records(&gateway).await, 0);
}

#[actix_web::test]
async fn preview_ranks_without_gaps_and_its_terms_sum_to_the_score() {
    let field = Field::new();
    let gateway = TestGateway::start(&field.config("")).await;
    for objective in OBJECTIVES {
        let shown = preview(&gateway, &json!({"objective": objective, "top_n": 3})).await;
        assert_eq!((&shown["objective"], &shown["requested_model"]), (&objective.into(), &"service/auto".into()));
        assert!(!shown["decision_reason"].as_str().unwrap().is_empty());
        assert_eq!(shown["estimate"]["prompt_tokens"], 0);
        let candidates = shown["candidates"].as_array().unwrap();
        assert_eq!((candidates.len(), &shown["candidates_total"]), (3, &5.into()), "{shown}");
        for (position, candidate) in candidates.iter().enumerate() {
            assert_eq!(candidate["rank"], position + 1);
            assert_eq!(candidate["selected"], position == 0);
            let terms = candidate["score_terms"].as_array().unwrap();
            let sum: f64 = terms.iter().map(|term| term["value"].as_f64().unwrap()).sum();
            let score = candidate["score"].as_f64().unwrap();
            assert!((sum - score).abs() <= 1e-12_f64.max(score.abs() * 1e-9), "{candidate}");
            for name in ["score_unit", "predicted", "health", "pricing", "context_length", "provider_slug"] {
                assert!(!candidate[name].is_null(), "{name}: {candidate}");
            }
        }
    }
}

#[actix_web::test]
async fn preview_refuses_what_chat_refuses_and_answers_when_nothing_is_left() {
    let field = Field::new();
    let gateway = TestGateway::start(&field.config("")).await;
    for (body, status, param) in [
        (json!({"model": "acme/nope"}), 404, "model"),
        (json!({"objective": "prettiest"}), 400, "objective"),
        (json!({"messages": []}), 400, "messages"),
        (json!({"top_n": 0}), 400, "top_n"),
        (json!({"metadata": {"allowed_models": ["a*b"]}}), 400, "metadata.allowed_models[0]"),
    ] {
        let refused = gateway.post("/api/v1/route/preview", &body).await.expect(status);
        assert_eq!(refused["error"]["param"], param, "{body}");
    }
    let none = preview(&gateway, &json!({"blocked_models": ["*"]})).await;
    assert_eq!((&none["candidates"], &none["candidates_total"]), (&json!([]), &0.into()));
    assert_eq!(none["excluded_total"], 5, "{none}");
}

/// A preview, an answer and its explanation, of decisions that read the same statistics.
async fn previewed_and_served(gateway: &TestGateway, body: &Value) -> [Value; 3] {
    let all = async || {
        let shown =
            on_the_same_statistics(gateway, async || (gateway.snapshot_version(), preview(gateway, body).await));
        let (version, shown) = shown.await;
        let answer = gateway.chat(body).await.expect(200);
        let explained = explain(gateway, answer["id"].as_str().unwrap()).await;
        (explained["snapshot_version"] == version, [shown, answer, explained])
    };
    eventually("both read the same statistics", all, |(same, _)| *same).await.1
}

/// Models and providers in the order of their ranks.
fn ranking(told: &Value) -> Vec<(&str, &str)> {
    let candidates = told["candidates"].as_array().unwrap().iter();
    candidates.map(|one| (one["model"].as_str().unwrap(), one["provider_name"].as_str().unwrap())).collect()
}

#[actix_web::test]
async fn without_exploration_preview_names_what_chat_then_uses() {
    let field = Field::new();
    let gateway = TestGateway::start(&field.config("exploration = 0.0\nhedge = { objectives = [] }")).await;
    for slug in ["quick", "middling", "slow"] {
        for _ in 0..3 {
            let only = and(ask("acme/shared"), json!({"provider": {"only": [slug]}}));
            gateway.chat(&only).await.expect(200);
        }
    }
    let mut choices = Vec::new();
    for objective in OBJECTIVES {
        for body in [
            ask("service/auto"),
            ask("acme/shared"),
            and(ask("auto"), json!({"max_tokens": 900, "metadata": {"blocked_models": "slow/*"}})),
            and(ask("router"), json!({"extra_body": {"provider_policy": {"ignore": ["slow"]}}})),
        ] {
            let body = and(body, json!({"objective": objective}));
            let [shown, answer, explained] = previewed_and_served(&gateway, &body).await;
            assert_eq!(served(&answer), first(&shown), "{body}: {shown}");
            assert_eq!(ranking(&explained), ranking(&shown), "{body}");
            choices.push(served(&answer));
        }
    }
    choices.sort();
    choices.dedup();
    assert!(choices.len() > 1, "the objectives never differed: {choices:?}");
}

/// The seed a decision used brings it back.
#[actix_web::test]
async fn with_the_seed_of_a_decision_preview_names_what_that_decision_used() {
    let field = Field::new();
    let quiet = TestGateway::start(&field.config("exploration = 3.0")).await;
    let mut explored = 0;
    for instance in 0..12 {
        // A gateway that has served nothing yet decides on the same statistics as the quiet one.
        let gateway =
            TestGateway::start(&field.config(&format!("exploration = 3.0\nseed = 11\ninstance_id = {instance}"))).await;
        let objective = OBJECTIVES[instance % 4];
        let body = and(ask("service/auto"), json!({"objective": objective}));
        let answer = gateway.chat(&body).await.expect(200);
        let explained = explain(&gateway, answer["id"].as_str().unwrap()).await;
        explored += usize::from(explained["explored"] == true);
        let seeded = and(body, json!({"route_seed": explained["route_seed"]}));
        let shown = preview(&quiet, &seeded).await;
        assert_eq!(first(&shown), served(&answer), "{seeded}: {shown}");
        gateway.stop().await;
    }
    assert!(explored > 0, "no decision was explored: the test shows nothing");
}

#[actix_web::test]
async fn every_excluded_endpoint_has_a_reason_and_the_totals_are_the_pool() {
    let lines = |more: &str| format!("supported_parameters = [\"seed\"]\n{more}");
    let config = [
        "[providers.open]\nbase_url = \"http://127.0.0.1:9\"\n".to_owned(),
        "[providers.shut]\nbase_url = \"http://127.0.0.1:9\"\nenabled = false\n".to_owned(),
        "[providers.strict]\nbase_url = \"http://127.0.0.1:9\"\ndata_collection = \"deny\"\nzdr = true\n".to_owned(),
        model(
            "acme/first",
            &lines("input_modalities = [\"text\", \"image\"]"),
            &[("open", "0.000001", "0.000002"), ("shut", "0", "0"), ("strict", "0.00001", "0.00002")],
        ),
        model("acme/free", &lines("context_length = 100"), &[("open", "0", "0")]),
        model("acme/tools", "supported_parameters = [\"tools\", \"tool_choice\"]", &[("open", "0.000001", "0.000001")]),
        model("acme/canvas", "output_modalities = [\"image\"]", &[("open", "0.000001", "0")]),
        model("acme/gone", "expiration_date = 2020-01-01", &[("open", "0", "0")]),
        "[[keys]]\nname = \"narrow\"\nenv = \"OTHER\"\nallowed_models = [\"acme/first\"]\n".to_owned(),
    ];
    let gateway = TestGateway::start_with(&config.concat(), &[("OTHER", OTHER_KEY)]).await;
    // An alias stands for every endpoint of a text model at a provider that is on.
    const POOL: u64 = 5;
    let tool = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
    let picture =
        json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://h/i.png"}}]}]);
    let long = json!([{"role": "user", "content": "word ".repeat(400)}]);
    for (more, reason) in [
        (json!({}), "model_expired"),
        (json!({"allowed_models": ["acme/f*"]}), "not_allowed_model"),
        (json!({"blocked_models": ["acme/tools"]}), "blocked_model"),
        (json!({"provider": {"only": ["strict"]}}), "provider_not_allowed"),
        (json!({"provider": {"ignore": ["Strict"]}}), "provider_ignored"),
        (json!({"model": "service/free"}), "not_free"),
        (json!({"tools": tool}), "unsupported_parameter"),
        (json!({"seed": 1, "provider": {"require_parameters": true}}), "unsupported_parameter"),
        (json!({"messages": picture}), "input_modality"),
        (json!({"messages": long}), "context_length"),
        (json!({"provider": {"max_price": {"prompt": 5}}}), "max_price"),
        (json!({"max_cost_per_1k_tokens": 0.005}), "max_cost_per_1k_tokens"),
        (json!({"provider": {"data_collection": "deny"}}), "data_policy"),
        (json!({"provider": {"zdr": true}}), "data_policy"),
        (json!({"provider": {"quantizations": ["fp8"]}}), "quantization"),
        (json!({"modalities": ["image", "text"]}), "output_modality"),
    ] {
        let shown = preview(&gateway, &and(json!({"model": "service/auto"}), &more)).await;
        check_pool(&shown, POOL, reason, &more);
    }
    for (model, pool, reason) in [("acme/first", 3, "provider_off"), ("acme/canvas", 1, "wrong_endpoint")] {
        check_pool(&preview(&gateway, &json!({"model": model})).await, pool, reason, &json!(model));
    }
    let narrow = ("authorization", format!("Bearer {OTHER_KEY}"));
    let body = json!({"model": "service/auto"}).to_string().into_bytes();
    let headers = [(narrow.0, narrow.1.as_str()), ("content-type", "application/json")];
    let reply = gateway.call(Method::POST, "/api/v1/route/preview", &headers, Some(body)).await;
    check_pool(&reply.expect(200), POOL, "key_policy", &json!("a key with a list"));
}

fn check_pool(shown: &Value, pool: u64, reason: &str, of: &Value) {
    let excluded = shown["excluded"].as_array().unwrap();
    let reasons: Vec<&str> = excluded.iter().map(|one| one["reason"].as_str().unwrap()).collect();
    assert!(reasons.contains(&reason), "{of}: {reason} is not among {reasons:?}");
    assert!(reasons.iter().all(|reason| REASONS.contains(reason)), "{of}: {reasons:?}");
    for one in excluded {
        assert!(one["model"].is_string() && one["provider_name"].is_string(), "{of}: {one}");
        assert!(!one["detail"].as_str().unwrap().is_empty(), "{of}: {one}");
    }
    let (left, out) = (shown["candidates_total"].as_u64().unwrap(), shown["excluded_total"].as_u64().unwrap());
    assert_eq!((left + out, excluded.len() as u64), (pool, out), "{of}: {shown}");
    assert_eq!(shown["candidates"].as_array().unwrap().len() as u64, left, "{of}");
}

/// The names of everything in a JSON value, at any depth; a list counts once for each of its elements.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), shape(value))).collect(),
        Value::Array(items) => items.iter().map(shape).collect(),
        _ => Value::Null,
    }
}

#[actix_web::test]
async fn the_unversioned_paths_behave_as_their_versioned_forms() {
    let field = Field::new();
    let gateway = TestGateway::start(&field.config("exploration = 0.0")).await;
    let body = ask("acme/shared");
    for mount in ["/api", "/v1"] {
        let path = |path: &str| format!("{mount}{path}");
        let versioned = gateway.chat(&body).await.expect(200);
        let other = gateway.post(&path("/chat/completions"), &body).await.expect(200);
        assert_eq!(shape(&versioned), shape(&other));
        let id = versioned["id"].as_str().unwrap();

        let (here, there) = (format!("/generation?id={id}"), format!("/route/explain?generation_id={id}"));
        assert_eq!(
            gateway.get(&path(&here)).await.expect(200),
            gateway.get(&format!("/api/v1{here}")).await.expect(200)
        );
        assert_eq!(gateway.get(&path(&there)).await.expect(200), explain(&gateway, id).await);

        let (shown, there) = on_the_same_statistics(&gateway, async || {
            let there = gateway.post(&path("/route/preview"), &body).await.expect(200);
            (preview(&gateway, &body).await, there)
        })
        .await;
        assert_eq!(shape(&shown), shape(&there));
        for wrong in ["/chat/completions", "/route/preview", "/images/generations"] {
            let no = json!({"model": "acme/nope", "prompt": "p", "messages": [{"role": "user", "content": "c"}]});
            let (a, b) = (gateway.post(&path(wrong), &no).await, gateway.post(&format!("/api/v1{wrong}"), &no).await);
            assert_eq!((a.status, a.json()["error"]["message"].clone()), (404, b.json()["error"]["message"].clone()));
        }
    }
}
