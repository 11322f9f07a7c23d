//! Who is chosen, and who is asked next.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    patience::eventually,
    scripted::{Script, Upstream},
    world::{Model, World, always, and, ask, column, completion, error_of, http, saying},
};

/// Two models whose providers differ only in price and pace: `acme/cheap` is slow, `bolt/quick` is dear. Both were
/// measured before this returns.
async fn cheap_and_quick() -> (TestGateway, [Upstream; 2]) {
    let answer = http(200, &completion("x"));
    let slow = Script::new().repeat(Script::new().request().pause(Duration::from_millis(400)).send(answer));
    let (slow, quick) = (Upstream::start([slow]), saying("x"));
    let world = World::new().provider("acme", slow.address()).provider("bolt", quick.address());
    let world = world.model(&Model::new("acme/cheap").at("acme", "0.000001", "0.000001"));
    let gateway = world.model(&Model::new("bolt/quick").at("bolt", "0.000002", "0.000002")).start().await;
    for _ in 0..6 {
        for model in ["acme/cheap", "bolt/quick"] {
            gateway.chat(&ask(model)).await.expect(200);
        }
    }
    becomes(&gateway, json!({"objective": "fastest"}), "bolt/quick").await;
    (gateway, [slow, quick])
}

/// The ids a preview ranks for this request, best first.
async fn ranked(gateway: &TestGateway, request: &Value) -> Vec<String> {
    let preview = gateway.post("/api/v1/route/preview", request).await.expect(200);
    let candidates = preview["candidates"].as_array().unwrap();
    candidates.iter().map(|candidate| candidate["model"].as_str().unwrap().to_owned()).collect()
}

/// Waits until the published statistics put `model` first for `service/auto` with these routing members.
async fn becomes(gateway: &TestGateway, more: Value, model: &str) {
    let request = and(ask("service/auto"), more);
    let order = async || ranked(gateway, &request).await;
    eventually(format!("{model} comes first"), order, |order| order.first().is_some_and(|first| first == model)).await;
}

/// The model that serves `service/auto` with these members.
async fn served(gateway: &TestGateway, more: Value) -> Value {
    gateway.chat(&and(ask("service/auto"), more)).await.expect(200)["model"].take()
}

#[actix_web::test]
async fn an_objective_has_the_same_effect_wherever_it_stands() {
    let (gateway, _upstreams) = cheap_and_quick().await;
    for (objective, expected) in [("cheapest", "acme/cheap"), ("fastest", "bolt/quick")] {
        assert_eq!(served(&gateway, json!({"metadata": {"objective": objective}})).await, expected);
        assert_eq!(served(&gateway, json!({"extra_body": {"objective": objective}})).await, expected);
        assert_eq!(served(&gateway, json!({"objective": objective})).await, expected);
    }
}

#[actix_web::test]
async fn metadata_wins_over_extra_body_and_explain_shows_it() {
    let (gateway, _upstreams) = cheap_and_quick().await;
    for (wins, loses, expected) in [("cheapest", "fastest", "acme/cheap"), ("fastest", "cheapest", "bolt/quick")] {
        let both = json!({"metadata": {"objective": wins}, "extra_body": {"objective": loses}, "objective": loses});
        let body = gateway.chat(&and(ask("service/auto"), both)).await.expect(200);
        assert_eq!(body["model"], expected);
        let id = body["id"].as_str().unwrap();
        let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
        assert_eq!(explained["objective"], wins);
        let shown = explained["parameters"]["objective"].to_string();
        assert!(shown.contains(wins) && shown.contains("metadata"), "{shown}");
    }
}

#[actix_web::test]
async fn cheapest_takes_the_lowest_cost_and_fastest_the_shortest_time() {
    let (gateway, [slow, quick]) = cheap_and_quick().await;
    let before = (slow.requests().len(), quick.requests().len());
    for _ in 0..5 {
        assert_eq!(served(&gateway, json!({"objective": "cheapest"})).await, "acme/cheap");
        assert_eq!(served(&gateway, json!({"objective": "fastest"})).await, "bolt/quick");
    }
    assert_eq!((slow.requests().len(), quick.requests().len()), (before.0 + 5, before.1 + 5));
}

/// The expected cost counts, not the price of one token.
#[actix_web::test]
async fn cheapest_weighs_prompt_and_completion_prices_by_what_is_expected() {
    let upstream = saying("x");
    let world = World::new().provider("acme", upstream.address());
    let world = world.model(&Model::new("acme/talk").at("acme", "0.00001", "0.000001"));
    let gateway = world.model(&Model::new("acme/read").at("acme", "0.000001", "0.00001")).start().await;
    let long = "word ".repeat(4000);
    let reading = json!({"objective": "cheapest", "max_tokens": 1, "messages": [{"role": "user", "content": long}]});
    assert_eq!(served(&gateway, reading).await, "acme/read");
    assert_eq!(served(&gateway, json!({"objective": "cheapest", "max_tokens": 4000})).await, "acme/talk");
}

#[actix_web::test]
async fn reliable_takes_the_one_that_fails_least() {
    let (good, bad) = (http(200, &completion("x")), http(500, &json!({"error": {"message": "no"}})));
    let shaky = Script::new().request().send(good).request().send(bad);
    let (shaky, steady) = (Upstream::start([Script::new().repeat(shaky)]), saying("x"));
    let world = World::new().provider("acme", shaky.address()).provider("bolt", steady.address());
    let world = world.with("[routing.breaker]\nconsecutive = 50");
    let world = world.model(&Model::new("acme/shaky").at("acme", "0.000001", "0.000001"));
    let gateway = world.model(&Model::new("bolt/steady").at("bolt", "0.000002", "0.000002")).start().await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(gateway.chat(&ask("acme/shaky")).await.status);
        gateway.chat(&ask("bolt/steady")).await.expect(200);
    }
    assert_eq!(statuses, [200, 502, 200, 502]);
    becomes(&gateway, json!({"objective": "reliable"}), "bolt/steady").await;
    assert_eq!(served(&gateway, json!({"objective": "reliable"})).await, "bolt/steady");
}

/// Four models in three namespaces, at one provider, the first the cheapest.
async fn pool() -> (TestGateway, Upstream) {
    let upstream = saying("x");
    let ids = ["acme/small", "acme/large", "acmex/small", "bolt/one"];
    let world = ids.iter().zip(1..).fold(World::new().provider("acme", upstream.address()), |world, (id, n)| {
        let price = format!("0.00000{n}");
        world.model(&Model::new(id).at("acme", &price, &price))
    });
    (world.start().await, upstream)
}

/// Fails the test unless exactly these are left, in this order, for these routing members.
async fn leaves(gateway: &TestGateway, more: &Value, expected: &[&str]) {
    let request = and(and(ask("service/auto"), json!({"objective": "cheapest"})), more.clone());
    assert_eq!(ranked(gateway, &request).await, expected, "{more}");
    let chosen = gateway.chat(&request).await;
    match expected.first() {
        Some(first) => assert_eq!(chosen.expect(200)["model"], *first, "{more}"),
        None => assert_eq!(error_of(&chosen, 404)["metadata"]["reason"], "no_candidates", "{more}"),
    }
}

#[actix_web::test]
async fn a_list_may_be_an_array_a_json_text_or_a_comma_text() {
    let (gateway, _upstream) = pool().await;
    for list in [json!(["acme/large", "bolt/*"]), json!("[\"acme/large\",\"bolt/*\"]"), json!("acme/large, bolt/*")] {
        leaves(&gateway, &json!({"metadata": {"allowed_models": list}}), &["acme/large", "bolt/one"]).await;
        leaves(&gateway, &json!({"extra_body": {"allowed_models": list}}), &["acme/large", "bolt/one"]).await;
        leaves(&gateway, &json!({"allowed_models": list}), &["acme/large", "bolt/one"]).await;
        leaves(&gateway, &json!({"metadata": {"blocked_models": list}}), &["acme/small", "acmex/small"]).await;
    }
}

#[actix_web::test]
async fn a_trailing_star_matches_exactly_what_begins_so() {
    let (gateway, _upstream) = pool().await;
    let allowed = |entry: &str| json!({"allowed_models": [entry]});
    leaves(&gateway, &allowed("acme/*"), &["acme/small", "acme/large"]).await;
    leaves(&gateway, &allowed("acme/sm*"), &["acme/small"]).await;
    leaves(&gateway, &allowed("acme*"), &["acme/small", "acme/large", "acmex/small"]).await;
    leaves(&gateway, &allowed("*"), &["acme/small", "acme/large", "acmex/small", "bolt/one"]).await;
    leaves(&gateway, &allowed("nobody/*"), &[]).await;
    leaves(&gateway, &json!({"allowed_models": []}), &["acme/small", "acme/large", "acmex/small", "bolt/one"]).await;
}

#[actix_web::test]
async fn a_star_elsewhere_is_a_400_that_says_where() {
    let (gateway, upstream) = pool().await;
    for bad in [json!("*/small"), json!("ac*me/small"), json!("acme/**"), json!(""), json!(7), Value::Null] {
        for (place, list) in [("metadata", "allowed_models"), ("extra_body", "blocked_models")] {
            let request = and(ask("service/auto"), json!({place: {list: ["acme/*", bad]}}));
            let error = error_of(&gateway.chat(&request).await, 400);
            assert_eq!(error["param"], format!("{place}.{list}[1]"), "{bad}");
            let reason = if bad.is_string() { "invalid_value" } else { "invalid_type" };
            assert_eq!(error["metadata"]["reason"], reason, "{bad}");
        }
    }
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn a_model_in_both_lists_is_excluded() {
    let (gateway, _upstream) = pool().await;
    let both = json!({"allowed_models": ["acme/small", "acme/large"], "blocked_models": ["acme/small"]});
    leaves(&gateway, &both, &["acme/large"]).await;
    let fixed = and(ask("acme/small"), both);
    let error = error_of(&gateway.chat(&fixed).await, 404);
    assert_eq!(
        error["availability"]["excluded_by"],
        json!(["blocked_model"]),
        "a fixed model is bound by the lists too"
    );
}

#[actix_web::test]
async fn lists_from_different_places_only_tighten() {
    let (gateway, _upstream) = pool().await;
    let narrowing = json!({"metadata": {"allowed_models": ["acme/*"]},
        "extra_body": {"allowed_models": ["acme/small", "bolt/one"]}});
    leaves(&gateway, &narrowing, &["acme/small"]).await;
    let disjoint = json!({"metadata": {"allowed_models": ["acme/*"]}, "allowed_models": ["bolt/one"]});
    leaves(&gateway, &disjoint, &[]).await;
    let blocking = json!({"metadata": {"blocked_models": ["acme/small"]}, "extra_body": {"blocked_models": ["bolt/*"]},
        "blocked_models": "acmex/*"});
    leaves(&gateway, &blocking, &["acme/large"]).await;
}

#[actix_web::test]
async fn client_tags_leave_routing_alone_whatever_they_hold() {
    let (gateway, upstream) = pool().await;
    let everybody = &["acme/small", "acme/large", "acmex/small", "bolt/one"];
    let tags = json!({"team": "blue", "n": 7, "nested": {"objective": "nicest", "allowed_models": ["bolt/*"]},
        "list": [1, [2]], "none": null, "objectives": "nicest"});
    leaves(&gateway, &json!({"metadata": tags}), everybody).await;
    leaves(&gateway, &json!({"metadata": {"big": "x".repeat(15 * 1024)}}), everybody).await;
    assert!(upstream.bodies().iter().all(|body| body.get("metadata").is_none()));
}

#[actix_web::test]
async fn the_free_alias_takes_only_what_costs_nothing() {
    let upstream = saying("x");
    let models = [
        ("acme/prompt", "prompt = \"0.0000001\", completion = \"0\""),
        ("acme/completion", "prompt = \"0\", completion = \"0.0000001\""),
        ("acme/request", "prompt = \"0\", completion = \"0\", request = \"0.0000001\""),
    ];
    let paid = models.iter().fold(World::new().provider("acme", upstream.address()), |world, (id, prices)| {
        world.model(&Model::new(id).priced("acme", prices))
    });
    let gateway = paid.start().await;
    let error = error_of(&gateway.chat(&ask("service/free")).await, 404);
    assert_eq!(error["availability"]["excluded_by"], json!(["not_free"]));
    let gateway = paid.model(&Model::new("acme/gift").at("acme", "0", "0")).start().await;
    for _ in 0..5 {
        assert_eq!(gateway.chat(&ask("service/free")).await.expect(200)["model"], "acme/gift");
    }
    assert!(upstream.bodies().iter().all(|body| body["model"] == "acme-gift"));
}

#[actix_web::test]
async fn operators_restrict_the_built_in_aliases_and_requests_cannot_undo_it() {
    let upstream = saying("x");
    let world = World::new()
        .provider("acme", upstream.address())
        .with("[[aliases]]\nname = \"auto\"\nobjective = \"cheapest\"\nblocked_models = [\"acme/cheap\"]")
        .with("[[aliases]]\nname = \"free\"\nallowed_models = [\"acme/gift\", \"acme/paid\"]")
        .model(&Model::new("acme/cheap").at("acme", "0.0000001", "0.0000001"))
        .model(&Model::new("acme/paid").at("acme", "0.000001", "0.000001"))
        .model(&Model::new("acme/dear").at("acme", "0.00001", "0.00001"))
        .model(&Model::new("acme/other").at("acme", "0", "0").with("expiration_date = 2020-01-01"))
        .model(&Model::new("acme/gift").at("acme", "0", "0"))
        .model(&Model::new("acme/present").at("acme", "0", "0"));
    let gateway = world.start().await;
    let preview = async |body: Value| gateway.post("/api/v1/route/preview", &body).await.expect(200);
    for name in ["auto", "service/auto", "router"] {
        let body = preview(and(ask(name), json!({"blocked_models": ["acme/gift", "acme/present"]}))).await;
        assert_eq!((&body["objective"], &body["router"]), (&json!("cheapest"), &json!("service/auto")), "{name}");
        assert_eq!(body["candidates"][0]["model"], "acme/paid", "{name}");
    }
    let body = preview(json!({"messages": ask("auto")["messages"]})).await;
    assert_eq!(body["objective"], "cheapest", "it is what stands for no model, too");
    let body = preview(and(ask("auto"), json!({"allowed_models": ["acme/cheap"]}))).await;
    assert_eq!(body["candidates_total"], 0);
    let body = preview(ask("free")).await;
    assert_eq!(column(&body["candidates"], "model"), ["acme/gift"], "neither what costs nor what is not allowed");
    assert_eq!(gateway.chat(&ask("free")).await.expect(200)["model"], "acme/gift");
}

/// A model `acme/first` whose two providers answer as told, and `bolt/second`, which works.
async fn fallible(first: &Upstream, also_first: &Upstream, second: &Upstream) -> TestGateway {
    let world = World::new().provider("acme", first.address()).provider("bolt", also_first.address());
    let world = world.provider("crow", second.address());
    let twice = Model::new("acme/first").at("acme", "0.000001", "0.000001").at("bolt", "0.000002", "0.000002");
    world.model(&twice).model(&Model::new("bolt/second").at("crow", "0", "0")).start().await
}

#[actix_web::test]
async fn the_next_model_is_tried_only_after_every_endpoint_of_the_first_failed() {
    let broken = json!({"error": {"message": "broken"}});
    let (one, two, three) = (always(500, &broken), always(500, &broken), saying("second"));
    let gateway = fallible(&one, &two, &three).await;
    let reply = gateway.chat(&and(ask("acme/first"), json!({"models": ["bolt/second"]}))).await;
    assert_eq!(reply.expect(200)["model"], "bolt/second");
    assert_eq!(reply.header("x-route-attempts"), Some("3"));
    assert_eq!([&one, &two, &three].map(|upstream| upstream.requests().len()), [1, 1, 1]);
    let id = reply.header("x-generation-id").unwrap();
    let explained = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
    let tried: Vec<&Value> = explained["attempts"].as_array().unwrap().iter().map(|a| &a["model"]).collect();
    assert_eq!(tried, ["acme/first", "acme/first", "bolt/second"]);
    assert_eq!(explained["decision_code"], "model_fallback");
}

#[actix_web::test]
async fn a_working_first_model_keeps_the_second_out() {
    let (one, two, three) = (saying("first"), saying("first"), saying("second"));
    let gateway = fallible(&one, &two, &three).await;
    for _ in 0..4 {
        let request = and(ask("acme/first"), json!({"models": ["bolt/second"], "objective": "cheapest"}));
        assert_eq!(gateway.chat(&request).await.expect(200)["model"], "acme/first");
    }
    assert_eq!(three.connections(), 0);
}

#[actix_web::test]
async fn without_fallbacks_exactly_one_upstream_is_asked() {
    let broken = json!({"error": {"message": "broken"}});
    for member in ["provider", "provider_policy"] {
        let (one, two, three) = (always(500, &broken), always(500, &broken), saying("second"));
        let gateway = fallible(&one, &two, &three).await;
        let request = and(ask("acme/first"), json!({"models": ["bolt/second"], member: {"allow_fallbacks": false}}));
        let error = error_of(&gateway.chat(&request).await, 502);
        assert_eq!(error["metadata"]["previous_errors"].as_array().unwrap().len(), 1);
        let asked: usize = [&one, &two, &three].map(|upstream| upstream.requests().len()).iter().sum();
        assert_eq!(asked, 1, "{member}");
    }
}
