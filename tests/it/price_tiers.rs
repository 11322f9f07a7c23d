//! Prices that change above a length of the prompt: what is billed, reserved, compared and shown.

use std::path::Path;

use actix_web::http::Method;
use pointsman_config::{BUILT_IN, Config, Environment};
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::TestGateway,
    issued_keys::{call, issue, world},
    scripted::Upstream,
    world::{Model, World, always, and, answer, ask, column, error_of},
};

/// A dollar per million tokens of the prompt and two for the answer; above 1,000 tokens two, five and 50 cents for cached ones.
const TIERED: &str = "prompt = \"0.000001\", completion = \"0.000002\", input_cache_read = \"0.0000001\", tiers = [\
    { above_prompt_tokens = 1000, prompt = \"0.000002\", completion = \"0.000005\", input_cache_read = \"0.0000005\" }]";

/// An upstream that counted so many tokens.
fn counting(prompt: u64, cached: u64, completion: u64) -> Upstream {
    let usage = json!({"prompt_tokens": prompt, "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached}});
    always(200, &answer(json!({"role": "assistant", "content": "x"}), usage))
}

/// A request whose prompt is estimated to have about so many tokens.
fn ask_at_length(model: &str, tokens: usize) -> Value {
    and(ask(model), json!({"messages": [{"role": "user", "content": "way ".repeat(tokens)}]}))
}

async fn explained(gateway: &TestGateway, id: &Value) -> Value {
    gateway.get(&format!("/api/v1/route/explain?generation_id={}", id.as_str().unwrap())).await.expect(200)
}

#[actix_web::test]
async fn an_answer_costs_what_the_tier_of_its_counted_prompt_says_and_the_explanation_names_the_tier() {
    let (long, short) = (counting(1_201, 201, 100), counting(1_000, 0, 100));
    let world = World::new().provider("acme", long.address()).provider("bolt", short.address());
    let models = ["acme", "bolt"].map(|slug| Model::new(&format!("{slug}/one")).priced(slug, TIERED));
    let gateway = world.model(&models[0]).model(&models[1]).start().await;

    let above = gateway.chat(&ask("acme/one")).await.expect(200);
    // 1,000 × 2 + 201 × 0.5 + 100 × 5 millionths.
    assert_eq!(above["usage"]["cost"].to_string(), "0.0026005");
    let told = explained(&gateway, &above["id"]).await;
    assert_eq!(told["price_tier"], json!({"above_prompt_tokens": 1000}));
    let parts = ["prompt", "cache_read", "completion"].map(|part| told["cost_breakdown"][part].to_string());
    assert_eq!(parts, ["0.002", "0.0001005", "0.0005"]);

    let at = gateway.chat(&ask("bolt/one")).await.expect(200);
    assert_eq!(at["usage"]["cost"].to_string(), "0.0012", "1,000 tokens are not above 1,000");
    assert_eq!(explained(&gateway, &at["id"]).await.get("price_tier"), None);
}

#[actix_web::test]
async fn cheapest_compares_the_prices_of_the_length_at_hand_and_shows_them() {
    let upstream = counting(10, 0, 1);
    let world = World::new().provider("acme", upstream.address()).provider("bolt", upstream.address());
    let model = Model::new("acme/both").priced("acme", TIERED).at("bolt", "0.0000015", "0.000003");
    let gateway = world.model(&model).start().await;
    let preview = async |tokens| {
        let request = and(ask_at_length("acme/both", tokens), json!({"objective": "cheapest"}));
        gateway.post("/api/v1/route/preview", &request).await.expect(200)["candidates"].take()
    };
    let short = preview(100).await;
    assert_eq!(column(&short, "provider_slug"), ["acme", "bolt"]);
    assert_eq!(short[0]["pricing"], json!({"prompt": "0.000001", "completion": "0.000002"}));
    let long = preview(4_000).await;
    assert_eq!(column(&long, "provider_slug"), ["bolt", "acme"]);
    let shown = json!({"prompt": "0.000002", "completion": "0.000005", "above_prompt_tokens": 1000});
    assert_eq!(long[1]["pricing"], shown);
}

#[actix_web::test]
async fn a_limit_on_prices_holds_for_the_dearest_tier_that_the_prompt_may_be_in() {
    let upstream = counting(10, 0, 1);
    let world = World::new().provider("acme", upstream.address()).model(&Model::new("acme/one").priced("acme", TIERED));
    let gateway = world.start().await;
    let limits = [json!({"provider": {"max_price": {"prompt": 1.5}}}), json!({"max_cost_per_1k_tokens": 0.004})];
    for limit in limits {
        gateway.chat(&and(ask_at_length("acme/one", 100), limit.clone())).await.expect(200);
        // About 900 tokens by estimate may be 1,200.
        error_of(&gateway.chat(&and(ask_at_length("acme/one", 900), limit)).await, 404);
    }
}

#[actix_web::test]
async fn a_budget_reserves_the_tier_that_a_prompt_may_turn_out_to_be_in() {
    let (upstream, folder) = (counting(10, 0, 1), Folder::new());
    let tiered = "prompt = \"0.001\", completion = \"0\", tiers = [{ above_prompt_tokens = 1000, prompt = \"0.002\", completion = \"0\" }]";
    let gateway = world(&upstream, &folder).model(&Model::new("acme/tiered").priced("acme", tiered)).start().await;
    // About 900 tokens cost 90 cents below the tier, and 1.80 dollars in it.
    let (key, _) = issue(&gateway, json!({ "name": "ci", "limit": 1.5 })).await;
    let send = async |tokens| {
        let request = and(ask_at_length("acme/tiered", tokens), json!({"max_tokens": 1}));
        call(&gateway, Method::POST, "/api/v1/chat/completions", &key, Some(request)).await
    };
    let error = error_of(&send(900).await, 402);
    assert!(error["metadata"]["budget"]["needed"].as_f64().unwrap() > 1.7, "{error}");
    assert!(upstream.bodies().is_empty());
    send(700).await.expect(200);
}

#[actix_web::test]
async fn the_model_list_shows_the_tiers_of_a_model_and_nothing_where_there_are_none() {
    let upstream = counting(10, 0, 1);
    let world = World::new().provider("acme", upstream.address()).model(&Model::new("acme/one").priced("acme", TIERED));
    let gateway = world.model(&Model::new("acme/flat").at("acme", "0.000001", "0.000002")).start().await;
    let one = gateway.get("/api/v1/models/acme/one").await.expect(200);
    let tier = json!({"above_prompt_tokens": 1000, "prompt": "0.000002", "completion": "0.000005", "input_cache_read": "0.0000005"});
    assert_eq!((&one["pricing"]["prompt"], &one["pricing"]["tiers"]), (&json!("0.000001"), &json!([tier])));
    assert_eq!(gateway.get("/api/v1/models/acme/flat").await.expect(200)["pricing"].get("tiers"), None);
}

fn faults(prices: &str) -> Vec<String> {
    let text = format!(
        "[providers.acme]\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key = \"none\"\n[[models]]\nid = \"acme/one\"\ncontext_length = 9\n\
         endpoints = [{{ provider = \"acme\", upstream_model = \"one\", usd_per_million = {{ {prices} }} }}]\n"
    );
    let read = Config::parse(&text, "f", Path::new("."), &Environment::default());
    let faults = read.err().unwrap_or_default();
    faults.iter().map(ToString::to_string).filter(|fault| fault.contains("usd_per_million")).collect()
}

#[test]
fn a_tier_without_a_length_or_a_price_or_with_a_negative_price_is_refused() {
    let base = "prompt = \"1\", completion = \"2\"";
    assert_eq!(faults(&format!("{base}, tiers = [{{ above_prompt_tokens = 5, {base} }}]")), Vec::<String>::new());
    for (tiers, wrong) in [
        ("{ prompt = \"1\", completion = \"2\" }", "tiers[0].above_prompt_tokens: is missing"),
        ("{ above_prompt_tokens = 5, prompt = \"1\" }", "tiers[0].completion: is missing"),
        ("{ above_prompt_tokens = 5, prompt = \"-1\", completion = \"2\" }", "tiers[0].prompt: is negative"),
        ("{ above_prompt_tokens = 0, prompt = \"1\", completion = \"2\" }", "tiers[0].above_prompt_tokens"),
        (
            "{ above_prompt_tokens = 5, prompt = \"1\", completion = \"2\", image = \"1\" }",
            "tiers[0].image: unknown key",
        ),
        (
            "{ above_prompt_tokens = 5, prompt = \"1\", completion = \"2\" }, { above_prompt_tokens = 5, prompt = \"1\", completion = \"2\" }",
            "tiers: are not in order",
        ),
    ] {
        let told = faults(&format!("{base}, tiers = [{tiers}]")).join("\n");
        assert!(told.contains(wrong), "{tiers}: {told}");
    }
}

#[test]
fn the_built_in_catalogue_has_the_tiers_of_its_price_list() {
    let config = Config::parse(BUILT_IN, "built-in", Path::new("."), &Environment::default()).unwrap();
    let catalog = config.catalog(1);
    let tiers = |upstream: &str| {
        let endpoint = catalog.endpoints.iter().find(|endpoint| &*endpoint.upstream_model == upstream).unwrap();
        let pricing = endpoint.pricing.as_deref().unwrap();
        let tiers = pricing.tiers.iter();
        tiers
            .map(|tier| (tier.above_prompt_tokens, tier.prompt.to_string(), tier.completion.to_string()))
            .collect::<Vec<_>>()
    };
    let one = |above, prompt: &str, completion: &str| vec![(above, prompt.to_owned(), completion.to_owned())];
    assert_eq!(tiers("gemini-3.1-pro-preview"), one(200_000, "0.000004", "0.000018"));
    assert_eq!(tiers("gpt-6-sol"), one(272_000, "0.000004", "0.000015"));
    assert_eq!(tiers("claude-haiku-5-5"), one(100_000, "0.0000005", "0.0000025"));
    assert_eq!(tiers("gpt-4o-mini"), []);
}
