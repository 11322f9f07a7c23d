//! The `provider` object, `models[]` and the price limits over the public surface: each member does what clients of the
//! convention know it to do, in preview and when serving alike.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    patience::eventually,
    scripted::{Script, Upstream},
    world::{Model, World, always, and, ask, completion, error_of, http, saying},
};

/// A model at three providers, the first the cheapest, that differ in all that a request may ask for.
const SHARED: &str = r#"
[[models]]
id = "acme/shared"
context_length = 100000
[[models.endpoints]]
provider = "acme"
upstream_model = "a"
supported_parameters = ["max_tokens", "temperature"]
quantization = "fp8"
pricing = { prompt = "0.000001", completion = "0.000002", request = "0.000000001" }
[[models.endpoints]]
provider = "bolt"
upstream_model = "b"
supported_parameters = ["max_tokens", "temperature", "tools", "seed"]
quantization = "bf16"
pricing = { prompt = "0.000004", completion = "0.000004" }
[[models.endpoints]]
provider = "cove"
variant = "eu"
upstream_model = "c"
supported_parameters = ["max_tokens"]
pricing = { prompt = "0.000005", completion = "0.000009" }
"#;

async fn shared() -> (TestGateway, [Upstream; 3]) {
    let upstreams = [saying("a"), saying("b"), saying("c")];
    let world = World::new()
        .provider_with("acme", upstreams[0].address(), "data_collection = \"allow\"\n")
        .provider_with("bolt", upstreams[1].address(), "data_collection = \"deny\"\n")
        .provider_with("cove", upstreams[2].address(), "data_collection = \"deny\"\nzdr = true\n")
        .with(SHARED);
    (world.start().await, upstreams)
}

/// A request for the shared model at least cost with these members.
fn wanting(more: &Value) -> Value {
    and(and(ask("acme/shared"), json!({"objective": "cheapest", "max_tokens": 1000})), more.clone())
}

/// The slugs a preview ranks, best first, and those it excludes with the reason.
async fn preview(gateway: &TestGateway, request: &Value) -> (Vec<String>, Vec<(String, String)>) {
    let preview = gateway.post("/api/v1/route/preview", request).await.expect(200);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let candidates = preview["candidates"].as_array().unwrap().iter().map(|c| text(&c["provider_slug"])).collect();
    let excluded = preview["excluded"].as_array().unwrap().iter();
    (candidates, excluded.map(|e| (text(&e["provider_name"]).to_lowercase(), text(&e["reason"]))).collect())
}

#[actix_web::test]
async fn every_member_of_the_provider_object_has_its_effect() {
    let (gateway, _upstreams) = shared().await;
    type Case = (Value, &'static [&'static str], &'static [(&'static str, &'static str)]);
    let all = &["acme", "bolt", "cove"][..];
    let cases: Vec<Case> = vec![
        (json!({}), all, &[]),
        (json!({"order": ["cove", "bolt"]}), &["cove", "bolt", "acme"], &[]),
        (json!({"order": ["COVE/EU"]}), &["cove", "acme", "bolt"], &[]),
        (json!({"order": ["nobody", "Bolt"]}), &["bolt", "acme", "cove"], &[]),
        (json!({"only": ["bolt", "cove/eu"]}), &["bolt", "cove"], &[("acme", "provider_not_allowed")]),
        (json!({"only": []}), all, &[]),
        (json!({"ignore": ["acme"]}), &["bolt", "cove"], &[("acme", "provider_ignored")]),
        (
            json!({"only": ["acme", "bolt"], "ignore": ["acme"]}),
            &["bolt"],
            &[("acme", "provider_ignored"), ("cove", "provider_not_allowed")],
        ),
        (json!({"sort": "price"}), all, &[]),
        (json!({"quantizations": ["fp8", "unknown"]}), &["acme", "cove"], &[("bolt", "quantization")]),
        (json!({"quantizations": ["BF16"]}), &["bolt"], &[("acme", "quantization"), ("cove", "quantization")]),
        (json!({"data_collection": "deny"}), &["bolt", "cove"], &[("acme", "data_policy")]),
        (json!({"data_collection": "allow", "zdr": false}), all, &[]),
        (json!({"zdr": true}), &["cove"], &[("acme", "data_policy"), ("bolt", "data_policy")]),
        (json!({"max_price": {"prompt": 4}}), &["acme", "bolt"], &[("cove", "max_price")]),
        (json!({"max_price": {"prompt": "3.99"}}), &["acme"], &[("bolt", "max_price"), ("cove", "max_price")]),
        (json!({"max_price": {"completion": 4}}), &["acme", "bolt"], &[("cove", "max_price")]),
        (json!({"max_price": {"request": 0}}), &["bolt", "cove"], &[("acme", "max_price")]),
        (json!({"require_parameters": true}), &["acme", "bolt"], &[("cove", "unsupported_parameter")]),
        (json!({"require_parameters": false}), all, &[]),
    ];
    for (policy, expected, out) in cases {
        for member in ["provider", "provider_policy"] {
            let request = wanting(&json!({member: policy, "temperature": 0.5}));
            let (candidates, excluded) = preview(&gateway, &request).await;
            assert_eq!(candidates, expected, "{member} {policy}");
            let excluded: Vec<(&str, &str)> = excluded.iter().map(|(who, why)| (who.as_str(), why.as_str())).collect();
            assert_eq!(excluded, out, "{member} {policy}");
            let served = gateway.chat(&request).await.expect(200);
            assert_eq!(served["provider"].as_str().unwrap().to_lowercase(), expected[0], "{member} {policy}");
        }
    }
}

#[actix_web::test]
async fn limits_on_cost_stand_beside_the_provider_object() {
    let (gateway, _upstreams) = shared().await;
    for (limits, expected) in [
        (json!({"max_cost_per_1k_tokens": 0.004}), &["acme", "bolt"][..]),
        (json!({"metadata": {"max_cost_per_1k_tokens": "0.002"}}), &["acme"]),
        (json!({"max_cost": 0.002}), &["acme", "bolt"]),
    ] {
        assert_eq!(preview(&gateway, &wanting(&limits)).await.0, expected, "{limits}");
    }
}

/// With fallbacks off an order is binding: who is not in it does not serve, whether or not the first works.
#[actix_web::test]
async fn an_order_without_fallbacks_lets_nobody_else_serve() {
    let (gateway, upstreams) = shared().await;
    let strict = |order: Value| wanting(&json!({"provider": {"order": order, "allow_fallbacks": false}}));
    let (candidates, excluded) = preview(&gateway, &strict(json!(["cove", "bolt"]))).await;
    assert_eq!(candidates, ["cove"]);
    assert_eq!(excluded.iter().map(|(_, why)| why.as_str()).collect::<Vec<_>>(), ["provider_not_allowed"; 2]);
    assert_eq!(gateway.chat(&strict(json!(["cove", "bolt"]))).await.expect(200)["provider"], "Cove");
    assert_eq!(gateway.chat(&strict(json!(["nobody", "bolt"]))).await.expect(200)["provider"], "Bolt");
    let error = error_of(&gateway.chat(&strict(json!(["nobody"]))).await, 404);
    assert_eq!(error["availability"]["excluded_by"], json!(["provider_not_allowed"]));
    assert_eq!(upstreams[0].connections(), 0);
}

/// With fallbacks, too, an order of nobody who may serve is a contradiction, whichever of its names a provider is given.
#[actix_web::test]
async fn an_order_of_nobody_who_is_allowed_is_refused() {
    let (gateway, upstreams) = shared().await;
    for member in ["provider", "provider_policy"] {
        let vain = wanting(&json!({member: {"order": ["acme"], "only": ["cove/eu", "bolt"]}}));
        for path in ["/api/v1/chat/completions", "/api/v1/route/preview"] {
            let error = error_of(&gateway.post(path, &vain).await, 400);
            assert_eq!(error["param"], "provider.order");
            assert_eq!(
                error["message"],
                "'provider.order' names no provider that 'provider.only' allows: it would have no effect."
            );
        }
    }
    assert!(upstreams.iter().all(|upstream| upstream.connections() == 0), "nobody was called");
    for fine in [
        json!({"order": ["acme", "cove"], "only": ["Cove/eu"]}),
        json!({"order": ["cove/eu"], "only": ["COVE"]}),
        json!({"order": ["nobody"], "only": ["cove"]}),
    ] {
        assert_eq!(gateway.chat(&wanting(&json!({"provider": fine}))).await.expect(200)["provider"], "Cove", "{fine}");
    }
}

#[actix_web::test]
async fn with_fallbacks_those_after_the_order_take_over() {
    let broken = always(500, &json!({"error": {"message": "broken"}}));
    let works = saying("b");
    let world = World::new().provider("acme", works.address()).provider("bolt", broken.address());
    let shared = Model::new("acme/shared").at("acme", "0.000001", "0.000001").at("bolt", "0.000002", "0.000002");
    let gateway = world.model(&shared).start().await;
    let answer = gateway.chat(&and(ask("acme/shared"), json!({"provider": {"order": ["bolt"]}}))).await.expect(200);
    assert_eq!(answer["provider"], "Acme");
    assert_eq!(broken.requests().len(), 1);
}

/// A dear quick model and a cheap slow one, both measured, streams and plain answers alike.
async fn measured() -> (TestGateway, [Upstream; 2]) {
    let chunk = |text: &str| {
        format!(
            "data: {}\n\n",
            json!({"id": "x", "object": "chat.completion.chunk", "created": 1,
        "model": "p", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
        )
    };
    let end = format!(
        "data: {}\n\ndata: [DONE]\n\n",
        json!({"id": "x", "object": "chat.completion.chunk", "created": 1,
        "model": "p", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 10, "total_tokens": 22}})
    );
    let words: String = (0..10).map(|_| chunk("word ")).collect();
    let length = words.len() + end.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n");
    let piece = words.len() / 10;
    let slow = Script::new().request().pause(Duration::from_millis(600)).send(head.clone());
    let slow = slow.trickle(words.clone(), piece, Duration::from_millis(80)).send(end.clone());
    let quick = Script::new().request().send(head).trickle(words, piece, Duration::from_millis(2)).send(end);
    let upstreams = [slow, quick].map(|script| Upstream::start([Script::new().repeat(script)]));
    let world = World::new().provider("slow", upstreams[0].address()).provider("quick", upstreams[1].address());
    let shared = Model::new("acme/shared").at("slow", "0.000001", "0.000001").at("quick", "0.000009", "0.000009");
    let gateway = world.model(&shared).start().await;
    for _ in 0..4 {
        for only in ["slow", "quick"] {
            let request = and(ask("acme/shared"), json!({"stream": true, "provider": {"only": [only]}}));
            assert_eq!(gateway.chat(&request).await.status, 200);
        }
    }
    comes_first(&gateway, json!({"sort": "throughput"}), "quick").await;
    (gateway, upstreams)
}

/// Waits until the published statistics put that provider first for a stream with this `provider` object.
async fn comes_first(gateway: &TestGateway, policy: Value, slug: &str) {
    let request = and(ask("acme/shared"), json!({"stream": true, "provider": policy}));
    let candidates = async || preview(gateway, &request).await.0;
    let what = format!("{slug} comes first with {policy}");
    eventually(what, candidates, |candidates| candidates.first().is_some_and(|first| first == slug)).await;
}

#[actix_web::test]
async fn sorts_and_preferences_order_and_exclude_nobody() {
    let (gateway, _upstreams) = measured().await;
    let (cheap_first, quick_first) = (["slow", "quick"], ["quick", "slow"]);
    for (more, expected) in [
        (json!({"sort": "price"}), cheap_first),
        (json!({"sort": "latency"}), quick_first),
        (json!({"sort": {"by": "throughput"}}), quick_first),
        (json!({"sort": {"by": "price", "partition": "model"}}), cheap_first),
        (json!({"sort": "price", "preferred_max_latency": 10}), cheap_first),
        (json!({"sort": "price", "preferred_max_latency": 0.15}), quick_first),
        (json!({"sort": "price", "preferred_max_latency": {"p90": 0.2}}), quick_first),
        (json!({"sort": "price", "preferred_min_throughput": 1}), cheap_first),
        (json!({"sort": "price", "preferred_min_throughput": 40}), quick_first),
        (json!({"sort": "price", "preferred_min_throughput": {"p50": 40}}), quick_first),
        (json!({"sort": "latency", "order": ["slow"]}), cheap_first),
    ] {
        let request = and(ask("acme/shared"), json!({"stream": true, "provider": more}));
        let (candidates, excluded) = preview(&gateway, &request).await;
        assert_eq!(candidates, expected, "{more}");
        assert!(excluded.is_empty(), "a preference excludes nobody: {more}");
        let reply = gateway.chat(&request).await;
        assert_eq!(reply.header("x-route-provider").unwrap().to_lowercase(), expected[0], "{more}");
    }
}

#[actix_web::test]
async fn what_ranks_before_a_score_is_told_with_the_margin_it_was_judged_by() {
    let (gateway, _upstreams) = measured().await;
    let policy = json!({"sort": "price", "order": ["nobody"], "preferred_max_latency": 0.15});
    let request = and(ask("acme/shared"), json!({"stream": true, "provider": policy}));
    let reply = gateway.chat(&request).await;
    let id = reply.header("x-generation-id").unwrap().to_owned();
    let preview = gateway.post("/api/v1/route/preview", &request).await.expect(200);
    let told = gateway.get(&format!("/api/v1/route/explain?generation_id={id}&why_not=slow")).await.expect(200);
    for told in [&preview, &told] {
        let tier = |rank: usize| told["candidates"][rank]["tier"].clone();
        assert_eq!(tier(0), json!({"provider_order": null, "preference_grade": 0}), "{told}");
        assert!(tier(1)["preference_grade"].as_u64().unwrap() > 0, "{told}");
        let reason = told["decision_reason"].as_str().unwrap();
        assert!(reason.contains("expected to keep preferred_max_latency (p50 0.15 s"), "{reason}");
        assert!(reason.contains("Slow has a better score ($"), "{reason}");
    }
    let margin = &told["parameters"]["preferred_max_latency"]["margin"];
    assert!(margin.as_f64().is_some_and(|margin| margin > 0.0), "{told}");
    assert_eq!(told["why_not"]["would_win_if"][0]["change"], "ttft_ms", "{told}");
    let replayed = gateway.get(&format!("/api/v1/route/replay?id={id}")).await.expect(200)["data"].take();
    assert_eq!(replayed["identical"], true);
    assert!(replayed["recorded"]["latency_margin"].is_number(), "{replayed}");
}

#[actix_web::test]
async fn an_objective_is_stronger_than_a_sort() {
    let (gateway, _upstreams) = measured().await;
    let request = and(ask("acme/shared"), json!({"objective": "cheapest", "provider": {"sort": "latency"}}));
    assert_eq!(preview(&gateway, &request).await.0, ["slow", "quick"]);
}

/// `models[]` is an order, unless a sort is to go across models.
#[actix_web::test]
async fn models_are_tried_in_order_unless_they_are_to_compete() {
    let upstream = saying("x");
    let world = World::new().provider("acme", upstream.address());
    let prices = [("acme/dear", "0.000009"), ("acme/cheap", "0.000001"), ("acme/middling", "0.000003")];
    let models = prices.iter().map(|(id, price)| Model::new(id).at("acme", price, price));
    let gateway = models.fold(world, |world, model| world.model(&model)).start().await;
    let ids = async |policy: Value| {
        let models = json!(["acme/middling", "acme/cheap", "acme/dear"]);
        let request = and(ask("acme/dear"), json!({"models": models, "provider": policy}));
        let preview = gateway.post("/api/v1/route/preview", &request).await.expect(200);
        let ids: Vec<String> =
            preview["candidates"].as_array().unwrap().iter().map(|c| c["model"].as_str().unwrap().to_owned()).collect();
        let answer = gateway.chat(&request).await.expect(200);
        assert_eq!(answer["model"], ids[0], "{policy}");
        let id = answer["id"].as_str().unwrap();
        let told = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
        (ids, told["decision_code"].as_str().unwrap().to_owned())
    };
    let in_order = ["acme/dear", "acme/middling", "acme/cheap"].map(str::to_owned).to_vec();
    for policy in [json!({}), json!({"sort": "price"}), json!({"sort": {"by": "price", "partition": "model"}})] {
        assert_eq!(ids(policy.clone()).await, (in_order.clone(), "fixed_model".to_owned()), "{policy}");
    }
    // Behind the choice the last attempt goes where failure is least likely, which three answers may have decided.
    let (across, code) = ids(json!({"sort": {"by": "price", "partition": "none"}})).await;
    assert_eq!((&*across[0], across.len(), &*code), ("acme/cheap", 3, "cheapest_available"));
}

/// Weights of `balanced`: of the request, else of the alias, else the configured ones; explain says whose.
#[actix_web::test]
async fn balanced_weighs_as_the_request_or_its_alias_says() {
    let pause = Script::new().request().pause(Duration::from_millis(400)).send(http(200, &completion("x")));
    let (slow, quick) = (Upstream::start([Script::new().repeat(pause)]), saying("x"));
    let aliases = "[[aliases]]\nname = \"hasty\"\nobjective = \"balanced\"\nweights = { latency = 1, cost = 0 }\n\
                   [[aliases]]\nname = \"thrifty\"\nobjective = \"balanced\"\nweights = { latency = 0, cost = 1 }";
    let world = World::new().provider("slow", slow.address()).provider("quick", quick.address()).with(aliases);
    let shared = Model::new("acme/shared").at("slow", "0.000001", "0.000001").at("quick", "0.000009", "0.000009");
    let gateway = world.model(&shared).start().await;
    for _ in 0..4 {
        for only in ["slow", "quick"] {
            gateway.chat(&and(ask("acme/shared"), json!({"provider": {"only": [only]}}))).await.expect(200);
        }
    }
    comes_first(&gateway, json!({"sort": "latency"}), "quick").await;
    let (cost, latency) = (json!({"latency": 0, "cost": 1}), json!({"latency": 1}));
    for (model, more, expected, source) in [
        ("service/hasty", json!({}), "Quick", "alias"),
        ("service/thrifty", json!({}), "Slow", "alias"),
        ("service/hasty", json!({"weights": cost}), "Slow", "top_level"),
        ("service/auto", json!({"metadata": {"weights": latency}}), "Quick", "metadata"),
        ("service/auto", json!({"extra_body": {"weights": cost}}), "Slow", "extra_body"),
    ] {
        let answer = gateway.chat(&and(ask(model), more.clone())).await.expect(200);
        assert_eq!(answer["provider"], expected, "{model} {more}");
        let id = answer["id"].as_str().unwrap();
        let told = gateway.get(&format!("/api/v1/route/explain?generation_id={id}")).await.expect(200);
        assert_eq!(told["parameters"]["weights"]["source"], source, "{model} {more}");
        let objective = if model == "service/auto" { "default" } else { "alias" };
        assert_eq!(told["parameters"]["objective"], json!({"value": "balanced", "source": objective}));
    }
    for bad in [json!({"latency": -1, "cost": 2}), json!({"latency": 0, "cost": 0}), json!({}), json!("nan"), json!(3)]
    {
        let error = error_of(&gateway.chat(&and(ask("service/auto"), json!({"weights": bad}))).await, 400);
        assert!(error["param"].as_str().unwrap().starts_with("weights"), "{error}");
    }
}
