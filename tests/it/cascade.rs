//! Cascades: a second model answers in the place of a plain answer that is verifiably broken, and both are paid.

use std::path::Path;

use actix_web::http::Method;
use pointsman_config::{Config, Environment};
use pointsman_routing::decide::splitmix64;
use serde_json::{Value, json};

use crate::{
    dialect_pairs::{DOORS, Door},
    folder::Folder,
    harness::{Reply, TestGateway},
    issued_keys::{call, issue},
    patience::{PATIENCE, eventually},
    process::{self, ConfigFile},
    raw_client::RawClient,
    scrape::Scrape,
    scripted::{Script, Upstream},
    world::{Model, World, always, and, answer, ask, completion, http, stream_of},
};

/// Dollars of a token at each model. An answer has 12 and 5 tokens.
const WEAK: &str = "0.000001";
const STRONG: &str = "0.00001";
const WEAK_COST: f64 = 0.000_017;
const STRONG_COST: f64 = 0.000_17;

const CASCADE: &str = "cascade = { to = \"acme/strong\" }";
/// Of a model that can be held to a format.
const PARAMETERS: [&str; 6] = ["max_tokens", "stop", "tools", "tool_choice", "response_format", "structured_outputs"];

/// Both models, each at a provider of its own with these keys.
fn models(weak: &Upstream, strong: &Upstream, keys: &str) -> World {
    let world = World::new().provider_with("first", weak.address(), keys);
    let world = world.provider_with("second", strong.address(), keys);
    let world = world.model(&Model::new("acme/weak").taking(&PARAMETERS).at("first", WEAK, WEAK));
    world.model(&Model::new("acme/strong").taking(&PARAMETERS).at("second", STRONG, STRONG))
}

fn world(weak: &Upstream, strong: &Upstream, alias: &str) -> World {
    let alias = format!("[[aliases]]\nname = \"chat\"\nallowed_models = [\"acme/weak\"]\n{alias}");
    models(weak, strong, "").with(&alias)
}

/// `service/chat` is the weak model, with these keys of the alias.
async fn gateway(weak: &Upstream, strong: &Upstream, alias: &str) -> TestGateway {
    world(weak, strong, alias).start().await
}

fn strong() -> Upstream {
    always(200, &completion("{\"price\": 1}"))
}

fn usage() -> Value {
    json!({"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17})
}

fn finished(message: Value, finish: &str) -> Value {
    let mut whole = answer(message, usage());
    whole["choices"][0]["finish_reason"] = json!(finish);
    whole
}

fn empty() -> Value {
    finished(json!({"role": "assistant", "content": null}), "stop")
}

fn schema() -> Value {
    let schema = json!({"type": "object", "properties": {"price": {"type": "number"}}});
    json!({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}})
}

/// Every safe signal: a request, a broken answer to it, and how the reason says it.
fn broken_answers() -> Vec<(&'static str, Value, Value, &'static str)> {
    let says = |text: &str| completion(text);
    let call = json!({"id": "c1", "type": "function", "function": {"name": "unheard_of", "arguments": "{}"}});
    let tools = json!({"tools": [{"type": "function", "function": {"name": "map", "parameters": {"type": "object"}}}]});
    let json_object = json!({"response_format": {"type": "json_object"}});
    let of_items = json!({"type": "object", "properties": {"items": {"type": "array", "items": {"type": "object",
        "properties": {"price": {"type": "number"}}}}}});
    let prices = json!({"tools": [{"type": "function", "function": {"name": "put", "parameters": of_items}}]});
    let items = json!({"items": [{"price": 1}, {"price": 2}, {}, {"price": "4"}]}).to_string();
    let priced = json!({"id": "c1", "type": "function", "function": {"name": "put", "arguments": items}});
    vec![
        ("empty", json!({}), empty(), "was empty"),
        (
            "length",
            json!({"max_tokens": 4000}),
            finished(json!({"role": "assistant", "content": "Left and"}), "length"),
            "was cut off below the limit of the request",
        ),
        ("invalid_json", json_object, says("Sure: {}"), "was no JSON"),
        ("schema", schema(), says("{\"price\": \"1\"}"), "broke the schema at /price (number expected)"),
        (
            "tool_arguments",
            prices,
            finished(json!({"role": "assistant", "content": null, "tool_calls": [priced]}), "tool_calls"),
            "called a tool with arguments that break its schema at /items/3/price (number expected)",
        ),
        (
            "tool_arguments",
            tools,
            finished(json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls"),
            "called a tool that was not declared, or with arguments that are no JSON",
        ),
    ]
}

async fn explained(gateway: &TestGateway, reply: &Reply) -> Value {
    let id = reply.header("x-generation-id").expect("an id");
    gateway.get(&format!("/api/v1/route/explain?id={id}")).await.expect(200)
}

async fn counted(gateway: &TestGateway, signal: &str, outcome: &str) -> f64 {
    Scrape::of(gateway).await.sum("cascades_total", &[("signal", signal), ("outcome", outcome)])
}

fn calls(upstreams: [&Upstream; 2]) -> [usize; 2] {
    upstreams.map(|upstream| upstream.bodies().len())
}

fn headers(reply: &Reply) -> [&str; 3] {
    ["x-route-model", "x-route-reason", "x-route-attempts"].map(|name| reply.header(name).unwrap())
}

fn near(value: &Value, expected: f64) -> bool {
    (value.as_f64().unwrap_or(f64::NAN) - expected).abs() < 1e-12
}

#[actix_web::test]
async fn each_safe_signal_escalates_once_and_both_answers_are_billed_listed_and_explained() {
    for (signal, asked, broken, words) in broken_answers() {
        let (weak, strong) = (always(200, &broken), strong());
        let gateway = gateway(&weak, &strong, CASCADE).await;
        let reply = gateway.chat(&and(ask("service/chat"), &asked)).await;
        let body = reply.expect(200);
        assert_eq!((&body["model"], calls([&weak, &strong])), (&json!("acme/strong"), [1, 1]), "{signal}: {body}");
        assert_eq!(headers(&reply), ["acme/strong", "cascade", "2"], "{signal}");
        let shown = explained(&gateway, &reply).await;
        let reason = shown["decision_reason"].as_str().unwrap();
        let sentence = format!(
            "Escalated: the answer of acme/weak {words}. acme/strong answered; both are billed: $0.000017 + $0.00017."
        );
        assert!(reason.ends_with(&sentence), "{reason}");
        assert_eq!((&shown["model"], &shown["decision_code"]), (&json!("acme/strong"), &json!("cascade")), "{shown}");
        let attempts = shown["attempts"].as_array().unwrap();
        let of = |name: &str| attempts.iter().map(|attempt| attempt[name].clone()).collect::<Vec<_>>();
        assert_eq!(of("model"), ["acme/weak", "acme/strong"]);
        assert_eq!(
            (of("reason"), of("outcome")),
            (vec![json!("first"), json!("cascade")], vec![json!("completed"); 2])
        );
        assert!(attempts[0]["cause"].as_str().unwrap().starts_with(signal) && attempts[1]["cause"].is_null());
        let costs = ["total_cost", "failed_cost", "ledger_cost"].map(|name| find(&shown, name));
        assert!(near(&costs[0], STRONG_COST) && near(&costs[1], WEAK_COST), "{costs:?}");
        assert!(near(&costs[2], STRONG_COST + WEAK_COST), "{costs:?}");
        assert_eq!(counted(&gateway, signal, "answered").await, 1.0);
        let id = shown["generation_id"].as_str().unwrap();
        let replay = gateway.get(&format!("/api/v1/route/replay?id={id}")).await.expect(200)["data"].take();
        assert_eq!(replay["identical"], true, "{replay}");
    }
}

/// The member of that name, wherever it is.
fn find(value: &Value, name: &str) -> Value {
    match value {
        Value::Object(members) => members.get(name).filter(|found| found.is_number()).cloned().unwrap_or_else(|| {
            let found = members.values().map(|member| find(member, name));
            found.into_iter().find(|found| !found.is_null()).unwrap_or_default()
        }),
        _ => Value::Null,
    }
}

#[actix_web::test]
async fn a_whole_answer_a_stream_a_named_model_and_an_alias_without_a_cascade_never_escalate() {
    let strong = strong();
    let whole = always(200, &completion("Left."));
    let gateway_of_whole = gateway(&whole, &strong, CASCADE).await;
    assert_eq!(headers(&gateway_of_whole.chat(&ask("service/chat")).await)[0], "acme/weak");

    let streaming = Upstream::start([Script::answering(stream_of(&[]))]);
    let gateway_of_streams = gateway(&streaming, &strong, CASCADE).await;
    let reply = gateway_of_streams.chat(&and(ask("service/chat"), json!({"stream": true}))).await;
    assert_eq!((headers(&reply)[0], reply.content()), ("acme/weak", String::new()));

    let weak = always(200, &empty());
    let with = gateway(&weak, &strong, CASCADE).await;
    let without = gateway(&weak, &strong, "").await;
    let alone = and(ask("service/chat"), json!({"provider": {"allow_fallbacks": false}}));
    let listed = and(ask("acme/weak"), json!({"models": ["service/chat"]}));
    for (gateway, chat) in [(&with, ask("acme/weak")), (&with, alone), (&with, listed), (&without, ask("service/chat"))]
    {
        let reply = gateway.chat(&chat).await;
        reply.expect(200);
        assert_eq!((headers(&reply)[0], headers(&reply)[2]), ("acme/weak", "1"), "{chat}");
    }
    assert_eq!(strong.bodies().len(), 0);
}

#[actix_web::test]
async fn refusals_and_content_filters_never_escalate_without_the_operators_word() {
    let refused = finished(json!({"role": "assistant", "content": null, "refusal": "I cannot help."}), "stop");
    let filtered = finished(json!({"role": "assistant", "content": ""}), "content_filter");
    let in_words = completion("I'm sorry, but I cannot help with that.");
    let all = "cascade = { to = \"acme/strong\", on = [\"empty\", \"refusal\"], acknowledge = \"safety\" }";
    // A format that a refusal breaks changes nothing. What is refused in words alone is a text like every other.
    let cases =
        [(refused, schema(), "acme/strong"), (filtered, schema(), "acme/strong"), (in_words, json!({}), "acme/weak")];
    for (broken, asked, with_consent) in cases {
        let (weak, strong) = (always(200, &broken), strong());
        let without = gateway(&weak, &strong, CASCADE).await;
        assert_eq!(headers(&without.chat(&and(ask("service/chat"), asked)).await)[0], "acme/weak", "{broken}");
        assert_eq!(strong.bodies().len(), 0, "{broken}");
        let with = gateway(&weak, &strong, all).await;
        assert_eq!(headers(&with.chat(&ask("service/chat")).await)[0], with_consent, "{broken}");
    }
}

#[actix_web::test]
async fn if_the_second_answer_fails_the_client_gets_the_first_and_the_record_says_so() {
    let (weak, strong) = (always(200, &completion("Sure: {}")), always(500, &json!({"error": {"message": "No."}})));
    let gateway = gateway(&weak, &strong, CASCADE).await;
    let reply = gateway.chat(&and(ask("service/chat"), schema())).await;
    let body = reply.expect(200);
    assert_eq!((&body["model"], &body["choices"][0]["message"]["content"]), (&json!("acme/weak"), &json!("Sure: {}")));
    assert_eq!((headers(&reply)[0], headers(&reply)[2], calls([&weak, &strong])), ("acme/weak", "2", [1, 1]));
    assert_ne!(headers(&reply)[1], "cascade");
    let shown = explained(&gateway, &reply).await;
    let reason = shown["decision_reason"].as_str().unwrap();
    let sentence = "Escalated: the answer of acme/weak was no JSON. acme/strong failed (500), so the first answer was sent; both \
                    are billed: $0.000017 + $0.";
    assert!(reason.ends_with(sentence), "{reason}");
    assert_eq!((&shown["model"], &shown["attempts"][1]["error_type"]), (&json!("acme/weak"), &json!("server")));
    assert!(near(&find(&shown, "total_cost"), WEAK_COST) && near(&find(&shown, "ledger_cost"), WEAK_COST), "{shown}");
    assert_eq!(counted(&gateway, "invalid_json", "failed").await, 1.0);
    // No client was saved by an attempt that came to nothing.
    let ended = async |result| Scrape::of(&gateway).await.sum("generations_total", &[("result", result)]);
    assert_eq!((ended("failed").await, ended("rescued").await), (0.0, 0.0));
}

#[actix_web::test]
async fn a_second_answer_is_sent_whatever_it_is_like_and_no_third_is_asked_for() {
    let (weak, strong) = (always(200, &empty()), always(200, &empty()));
    let alias = format!(
        "{CASCADE}\n[[aliases]]\nname = \"better\"\nallowed_models = [\"acme/strong\"]\ncascade = {{ to = \"acme/weak\" }}"
    );
    let gateway = gateway(&weak, &strong, &alias.replace("\"acme/strong\" }", "\"service/better\" }")).await;
    let reply = gateway.chat(&ask("service/chat")).await;
    reply.expect(200);
    assert_eq!((headers(&reply), calls([&weak, &strong])), (["acme/strong", "cascade", "2"], [1, 1]));
}

#[actix_web::test]
async fn an_alias_may_escalate_to_another_model_of_its_own() {
    let (weak, strong) = (always(200, &empty()), strong());
    let alias = "[[aliases]]\nname = \"chat\"\nobjective = \"cheapest\"\ncascade = { to = \"service/chat\" }";
    let gateway = models(&weak, &strong, "").with(alias).start().await;
    let reply = gateway.chat(&ask("service/chat")).await;
    reply.expect(200);
    assert_eq!(headers(&reply), ["acme/strong", "cascade", "2"]);
}

#[actix_web::test]
async fn a_model_of_a_ladder_escalates_as_the_alias_says() {
    let (weak, strong) = (always(200, &empty()), strong());
    let gateway = gateway(&weak, &strong, &format!("ladder = [\"acme/weak\"]\n{CASCADE}")).await;
    assert_eq!(headers(&gateway.chat(&ask("service/chat")).await), ["acme/strong", "cascade", "2"]);
    let named = and(ask("service/chat"), json!({"models": ["acme/weak"]}));
    assert_eq!(headers(&gateway.chat(&named).await)[0], "acme/weak", "the request names the model itself");
}

#[actix_web::test]
async fn max_cost_holds_for_both_answers_together() {
    let (weak, strong) = (always(200, &empty()), strong());
    let gateway = gateway(&weak, &strong, CASCADE).await;
    let chat = |max_tokens: u32, max_cost: f64| {
        and(ask("service/chat"), json!({"max_tokens": max_tokens, "max_cost": max_cost}))
    };
    // Less than a prompt costs at the second model, once the first answer is paid.
    let kept = gateway.chat(&chat(60, 0.000_1)).await;
    kept.expect(200);
    assert_eq!((headers(&kept)[0], strong.bodies().len()), ("acme/weak", 0));
    let reason = explained(&gateway, &kept).await["decision_reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("Not escalated, though the answer of acme/weak was empty"), "{reason}");
    assert_eq!(counted(&gateway, "empty", "no_candidate").await, 1.0);
    // What is left of it lowers the limit of the second answer.
    gateway.chat(&chat(4000, 0.004)).await.expect(200);
    let limit = strong.last_body()["max_tokens"].as_u64().unwrap();
    assert!((200..400).contains(&limit), "{limit}");
    gateway.chat(&chat(60, 0.01)).await.expect(200);
    assert_eq!(strong.last_body()["max_tokens"], 60);
}

#[actix_web::test]
async fn the_second_answer_keeps_the_least_quality_of_its_alias() {
    let (weak, strong) = (always(200, &empty()), strong());
    let score = "quality = { source = \"own-eval\", date = 2026-11-02, general = { score = 0.7, n = 400 } }";
    let scored = |least: f64| {
        let world = World::new().provider("first", weak.address()).provider("second", strong.address());
        let world = world.model(&Model::new("acme/weak").at("first", WEAK, WEAK).with(score));
        let world = world.model(&Model::new("acme/strong").at("second", STRONG, STRONG).with(score));
        world.with(&format!(
            "[[aliases]]\nname = \"chat\"\nallowed_models = [\"acme/weak\"]\ncascade = {{ to = \"service/better\" }}\n\
             [[aliases]]\nname = \"better\"\nallowed_models = [\"acme/strong\"]\nmin_quality = {least}\n"
        ))
    };
    for (least, model) in [(0.8, "acme/weak"), (0.6, "acme/strong")] {
        let gateway = scored(least).start().await;
        let reply = gateway.chat(&ask("service/chat")).await;
        reply.expect(200);
        assert_eq!(headers(&reply)[0], model, "{least}");
        assert_eq!(counted(&gateway, "empty", "no_candidate").await, f64::from(u8::from(model == "acme/weak")));
        let reason = explained(&gateway, &reply).await["decision_reason"].as_str().unwrap().to_owned();
        let why = "no endpoint could be asked for another answer (min_quality is 0.8), or no budget was left";
        assert_eq!(reason.contains(why), model == "acme/weak", "{reason}");
    }
    assert_eq!(strong.bodies().len(), 1);
}

#[actix_web::test]
async fn the_hourly_budget_of_an_alias_holds() {
    let (weak, strong) = (always(200, &empty()), strong());
    // Room for three second answers of $0.00017, and for what the next one may cost at most until then.
    let gateway = gateway(&weak, &strong, "cascade = { to = \"acme/strong\", budget = \"0.0009\" }").await;
    let chat = and(ask("service/chat"), json!({"max_tokens": 5}));
    for _ in 0..20 {
        gateway.chat(&chat).await.expect(200);
    }
    let escalated = strong.bodies().len();
    assert!((2..=5).contains(&escalated), "{escalated}");
    assert!(escalated as f64 * STRONG_COST <= 0.0009);
    assert_eq!(counted(&gateway, "empty", "over_budget").await, (20 - escalated) as f64);
}

#[actix_web::test]
async fn an_endpoint_without_a_free_place_takes_nothing_of_the_hourly_budget() {
    let (weak, full, free) = (always(200, &empty()), Upstream::start([Script::new().request()]), strong());
    let world = World::new()
        .provider("first", weak.address())
        .provider_with("second", full.address(), "max_in_flight = 1")
        .provider("third", free.address())
        .model(&Model::new("acme/weak").taking(&PARAMETERS).at("first", WEAK, WEAK))
        .model(&Model::new("acme/strong").taking(&PARAMETERS).at("second", "0", "0.00001").at("third", "0", "0.00002"));
    // More than five tokens cost at the third, less than they cost at both.
    let cascade = "cascade = { to = \"acme/strong\", budget = \"0.000125\" }";
    let alias = "[[aliases]]\nname = \"chat\"\nallowed_models = [\"acme/weak\"]\nobjective = \"cheapest\"";
    let gateway = world.with(&format!("{alias}\n{cascade}")).start().await;
    let only = json!({"provider": {"only": ["second"]}});
    let _holds_its_place = RawClient::chat(&gateway, &and(ask("acme/strong"), only)).await;
    assert!(full.eventually(PATIENCE, |log| log.requests.len() == 1).await);
    let reply = gateway.chat(&and(ask("service/chat"), json!({"max_tokens": 5}))).await;
    reply.expect(200);
    assert_eq!((headers(&reply), free.bodies().len()), (["acme/strong", "cascade", "2"], 1));
}

/// Both providers keep prompts in their caches, and the strong model is hardly dearer than the weak one.
#[actix_web::test]
async fn a_conversation_stays_with_the_model_that_answers_first() {
    let usage = json!({"prompt_tokens": 2000, "completion_tokens": 5, "total_tokens": 2005,
        "prompt_tokens_details": {"cached_tokens": 1900}});
    let cached = |text: &str| always(200, &answer(json!({"role": "assistant", "content": text}), usage.clone()));
    let (weak, strong) = (cached(""), cached("Left."));
    let alias = "[[aliases]]\nname = \"chat\"\nobjective = \"cheapest\"\ncascade = { to = \"service/chat\" }";
    let prices = |prompt| format!("prompt = \"{prompt}\", completion = \"0.000001\", input_cache_read = \"0.0000001\"");
    let world = World::new().provider("first", weak.address()).provider("second", strong.address());
    let world = world.model(&Model::new("acme/weak").priced("first", &prices("0.000001")));
    let world = world.model(&Model::new("acme/strong").priced("second", &prices("0.0000011")));
    let gateway = world.with(alias).start().await;
    let mut chat = ask("service/chat");
    chat["messages"] =
        json!([{"role": "system", "content": "Be brief. ".repeat(800)}, {"role": "user", "content": "Which way?"}]);
    for _ in 0..3 {
        let reply = gateway.chat(&chat).await;
        assert_eq!(headers(&reply), ["acme/strong", "cascade", "2"], "{}", reply.text());
        let shown = explained(&gateway, &reply).await;
        assert_eq!(shown["attempts"][0]["model"], "acme/weak", "{shown}");
        let messages = chat["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": "Left."}));
        messages.push(json!({"role": "user", "content": "And then?"}));
    }
}

#[actix_web::test]
async fn a_second_answer_that_does_not_fit_the_limit_of_the_key_is_not_asked_for() {
    let (weak, strong, folder) = (always(200, &empty()), strong(), Folder::new());
    let world = crate::issued_keys::world(&weak, &folder).provider("second", strong.address());
    let world = world.model(&Model::new("acme/weak").at("acme", WEAK, WEAK));
    let world = world.model(&Model::new("acme/strong").at("second", STRONG, STRONG));
    let alias = format!("[[aliases]]\nname = \"chat\"\nallowed_models = [\"acme/weak\"]\n{CASCADE}");
    let gateway = world.with(&alias).start().await;
    for (limit, model) in [("0.0001", "acme/weak"), ("1", "acme/strong")] {
        let (key, _) = issue(&gateway, json!({"name": model.replace('/', "-"), "limit": limit})).await;
        let body = and(ask("service/chat"), json!({"max_tokens": 20}));
        let reply = call(&gateway, Method::POST, "/api/v1/chat/completions", &key, Some(body)).await;
        reply.expect(200);
        assert_eq!(headers(&reply)[0], model, "{limit}");
        let spent = call(&gateway, Method::GET, "/api/v1/key", &key, None).await.expect(200)["data"]["usage"].take();
        let expected = if model == "acme/strong" { WEAK_COST + STRONG_COST } else { WEAK_COST };
        assert!(near(&spent, expected), "{spent}");
    }
}

#[actix_web::test]
async fn every_door_escalates_and_names_who_served() {
    let tool = json!({"id": "c1", "type": "function", "function": {"name": "unheard_of", "arguments": "{}"}});
    let broken = finished(json!({"role": "assistant", "content": null, "tool_calls": [tool]}), "tool_calls");
    let (weak, strong) = (always(200, &broken), strong());
    let gateway = gateway(&weak, &strong, CASCADE).await;
    for door in DOORS {
        let request = and(door.request(), json!({"model": "service/chat"}));
        let reply = gateway.post(door.path(), &request).await;
        let body = reply.expect(200);
        assert_eq!(
            (&body["model"], headers(&reply)),
            (&json!("acme/strong"), ["acme/strong", "cascade", "2"]),
            "{body}"
        );
        assert_eq!(reply.header("x-route-cost"), (door != Door::Chat).then_some("0.00017"), "{door:?}");
        assert!(body.to_string().contains("price"), "{body}");
    }
}

#[actix_web::test]
async fn a_text_completion_escalates() {
    let of = |text: &str| {
        let choices = json!([{"index": 0, "text": text, "finish_reason": "stop"}]);
        always(
            200,
            &json!({"id": "x", "object": "text_completion", "created": 1, "model": "p", "choices": choices,
            "usage": usage()}),
        )
    };
    let (weak, strong) = (of(""), of("x): ..."));
    let world = models(&weak, &strong, "legacy_completions = true");
    let world = world.variable("POINTSMAN__SERVER__LEGACY_COMPLETIONS", "true");
    let alias = format!("[[aliases]]\nname = \"chat\"\nallowed_models = [\"acme/weak\"]\n{CASCADE}");
    let gateway = world.with(&alias).start().await;
    let reply = gateway.post("/v1/completions", &json!({"model": "service/chat", "prompt": "def f("})).await;
    let body = reply.expect(200);
    assert_eq!((&body["model"], &body["choices"][0]["text"]), (&json!("acme/strong"), &json!("x): ...")), "{body}");
    assert_eq!(headers(&reply), ["acme/strong", "cascade", "2"]);
}

#[actix_web::test]
async fn a_client_that_leaves_during_the_second_answer_is_billed_for_both() {
    let weak = always(200, &empty());
    let strong = Upstream::start([Script::new().request()]);
    let folder = Folder::new();
    let world = world(&weak, &strong, CASCADE);
    let world = world.variable("POINTSMAN__LEDGER__DATA_DIR", folder.at("data").to_str().unwrap());
    let gateway = world.start().await;
    let client = RawClient::chat(&gateway, &ask("service/chat")).await;
    assert!(strong.eventually(PATIENCE, |log| log.requests.len() == 1).await);
    client.hang_up();
    let last = async || gateway.get("/api/v1/generations?limit=1").await.expect(200)["data"][0].take();
    let row = eventually("the record ends", last, |row| row["status"] == "cancelled").await;
    let id = row["id"].as_str().or(row["generation_id"].as_str()).unwrap_or_else(|| panic!("{row}"));
    let shown = gateway.get(&format!("/api/v1/route/explain?id={id}")).await.expect(200);
    let reason = shown["decision_reason"].as_str().unwrap();
    assert!(reason.contains("acme/strong was asked when the client left; both are billed"), "{reason}");
    assert_eq!(shown["summary"], "The client left before an answer came.", "{shown}");
    let cost = find(&shown, "ledger_cost").as_f64().unwrap();
    assert!(cost > WEAK_COST, "the second request was sent: {cost}");
    assert_eq!(counted(&gateway, "empty", "left").await, 1.0);
}

#[actix_web::test]
async fn nothing_of_a_broken_answer_is_recorded() {
    let told = "canary-5ec2e7";
    let asked = json!({"type": "object", "additionalProperties": false, "properties": {"price": {"type": "number"}}});
    let asked = json!({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": asked}}});
    let weak = always(200, &completion(&json!({told: told}).to_string()));
    let strong = strong();
    let gateway = gateway(&weak, &strong, CASCADE).await;
    let reply = gateway.chat(&and(ask("service/chat"), asked)).await;
    assert_eq!(headers(&reply)[0], "acme/strong");
    let shown = explained(&gateway, &reply).await.to_string();
    assert!(shown.contains("/* (nothing expected)") && !shown.contains(told), "{shown}");
}

/// The prices of `check` are those of a thousand calls of 1,000 and 250 tokens: an hour of such calls is made here, of which chance lets
/// about seven of ten be accepted.
#[actix_web::test]
async fn the_cost_that_check_expects_is_that_of_an_hour_of_calls_within_a_twentieth() {
    const CALLS: u64 = 240;
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 250, "total_tokens": 1250});
    let says = |text: &str| http(200, &answer(json!({"role": "assistant", "content": text}), usage.clone()));
    let is_accepted = |n: u64| splitmix64(n) % 10 < 7;
    let script = (0..CALLS)
        .fold(Script::new(), |script, n| script.request().send(says(if is_accepted(n) { "Left." } else { "" })));
    let (weak, strong) = (Upstream::start([script]), Upstream::start([Script::answering(says("Right."))]));
    let folder = Folder::new();
    let world = world(&weak, &strong, CASCADE);
    let world = world.variable("POINTSMAN__LEDGER__DATA_DIR", folder.at("data").to_str().unwrap());
    let file = ConfigFile::new(world.toml());
    let environment: Vec<(&str, &str)> =
        world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let check = || {
        let output = process::run(&["check", "--config", file.path()], &environment);
        let page = String::from_utf8(output.stdout).unwrap();
        let line = page.lines().find(|line| line.contains("service/chat -> ")).unwrap_or_else(|| panic!("{page}"));
        line.trim().to_owned()
    };
    let arithmetic = "service/chat -> acme/strong: at $1.25 against $12.50 this pays as long as more than 10 % are accepted: $1.25 \
                      + (1 - accepted) x $12.50; ";
    let unknown = "how many are accepted is not known, for no recorded answer was judged by these signals";
    assert_eq!(check(), format!("{arithmetic}{unknown}"));
    let gateway = world.start().await;
    for _ in 0..CALLS {
        gateway.chat(&ask("service/chat")).await.expect(200);
    }
    let spent = gateway.get("/api/v1/key").await.expect(200)["data"]["usage"].as_f64().unwrap();
    gateway.stop().await;
    drop(gateway);
    // Records are in the database a few seconds later.
    let line = eventually("all are recorded", async || check(), |line| line.contains(&format!("of {CALLS} "))).await;
    let accepted = (0..CALLS).filter(|n| is_accepted(*n)).count() as f64 / CALLS as f64 * 100.0;
    let now = format!("{arithmetic}now {accepted:.1} % of {CALLS} recorded answers, which comes to $");
    let rest = line.strip_prefix(&now).unwrap_or_else(|| panic!("{line}, not {now}"));
    let (expected, waits) = rest.split_once("; ").unwrap();
    let expected: f64 = expected.parse().unwrap();
    let per_thousand = spent / CALLS as f64 * 1000.0;
    assert!((expected / per_thousand - 1.0).abs() < 0.05, "{expected}, and {per_thousand} were spent");
    assert!(waits.starts_with(&format!("{:.1} % wait ", 100.0 - accepted)) && waits.ends_with(" s longer"), "{waits}");
    // A comparison with a file whose cascade differs says the same of the other one, whose signals judged nothing yet.
    let other = ConfigFile::new(&world.toml().replace("\"acme/strong\" }", "\"acme/strong\", on = [\"empty\"] }"));
    let output = process::run(&["diff", "--config", other.path()], &environment);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains(&format!("{arithmetic}{unknown}")), "{page}");
    let output = process::run(&["diff", "--config", file.path()], &environment);
    assert!(!String::from_utf8(output.stdout).unwrap().contains("this pays"), "nothing changes");
}

#[test]
fn faults_of_a_cascade_are_named_with_their_place() {
    let faults = |cascade: &str| {
        let toml = format!(
            "[[aliases]]\nname = \"chat\"\ncascade = {{ {cascade} }}\n[[aliases]]\nname = \"divided\"\nladder = [\"service/auto\"]\n"
        );
        match Config::parse(&toml, "f", Path::new("."), &Environment::default()) {
            Ok(_) => Vec::new(),
            Err(faults) => faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }
    };
    let cases = [
        ("on = [\"empty\"]", "aliases[0].cascade.to: is missing"),
        ("to = \"acme/none\"", "aliases[0].cascade.to: 'acme/none' is neither a model nor an alias"),
        (
            "to = \"service/divided\"",
            "aliases[0].cascade.to: 'service/divided' is an alias that divides its requests itself",
        ),
        ("to = \"service/auto\", on = []", "aliases[0].cascade.on: is empty"),
        ("to = \"service/auto\", on = [\"emty\"]", "'emty' is no signal, did you mean 'empty'?"),
        ("to = \"service/auto\", on = [\"empty\", \"empty\"]", "is there twice"),
        ("to = \"service/auto\", on = [\"refusal\"]", "aliases[0].cascade.on: holds \"refusal\""),
        (
            "to = \"service/auto\", on = [\"refusal\"], acknowledge = \"yes\"",
            "aliases[0].cascade.acknowledge: 'yes' is unknown",
        ),
        ("to = \"service/auto\", budget = \"five\"", "aliases[0].cascade.budget: is not an amount of money"),
        ("to = \"service/auto\", stream = true", "aliases[0].cascade.stream: unknown key"),
    ];
    let missed: Vec<_> = cases
        .iter()
        .map(|(cascade, expected)| (faults(cascade), expected))
        .filter(|(faults, expected)| !faults.iter().any(|fault| fault.contains(*expected)))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
    assert_eq!(
        faults("to = \"service/auto\", on = [\"refusal\"], acknowledge = \"safety\", budget = \"5.00\""),
        Vec::<String>::new()
    );
    let free = "[[aliases]]\nname = \"none\"\nfree_only = true\ncascade = { to = \"service/auto\" }\n";
    let refused = Config::parse(free, "f", Path::new("."), &Environment::default()).err().unwrap();
    assert!(refused[0].to_string().contains("must not lead elsewhere"), "{refused:?}");
}
