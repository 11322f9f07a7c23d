//! "Why not X?" and "what if?" over the wire.

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    scripted::Upstream,
    world::{Model, World, always, and, ask, error_of, saying},
};

/// Two models at three providers; one provider fails always.
async fn gateway() -> (TestGateway, Vec<Upstream>) {
    let upstreams = vec![saying("a"), saying("b"), always(500, &json!({"error": {"message": "no"}}))];
    let slugs = ["acme", "bolt", "crow"];
    let world = slugs
        .iter()
        .zip(&upstreams)
        .fold(World::new(), |world, (slug, upstream)| world.provider(slug, upstream.address()));
    let small = Model::new("acme/small").at("acme", "0.000001", "0.000002").at("bolt", "0.000003", "0.000006");
    let world = world.model(&small).model(&Model::new("crow/cheap").at("crow", "0.0000001", "0.0000001"));
    (world.start().await, upstreams)
}

async fn preview(gateway: &TestGateway, body: &Value) -> Value {
    gateway.post("/api/v1/route/preview", body).await.expect(200)
}

#[actix_web::test]
async fn a_preview_says_why_it_is_not_somebody_and_what_would_change_that() {
    let (gateway, upstreams) = gateway().await;
    let request = and(ask("acme/small"), json!({"objective": "cheapest", "why_not": "bolt"}));
    let answer = preview(&gateway, &request).await["why_not"].take();
    assert_eq!((&answer["verdict"], &answer["reason"], &answer["rank"]), (&json!("lost"), &json!("score"), &json!(2)));
    assert_eq!((&answer["model"], &answer["provider_slug"]), (&json!("acme/small"), &json!("bolt")));
    assert_eq!(answer["margin"]["to"]["provider_name"], "Acme");
    assert_eq!(answer["margin"]["dominant_term"]["name"], "expected_cost");
    let change = &answer["would_win_if"][0];
    assert_eq!((&change["change"], &change["unit"]), (&json!("price"), &json!("usd")));
    assert!(answer["sentence"].as_str().unwrap().starts_with("acme/small on Bolt lost to acme/small on Acme by $"));

    let reason = preview(&gateway, &request).await["decision_reason"].take();
    let reason = reason.as_str().unwrap();
    assert!(
        reason.starts_with("cheapest: acme/small on Acme. Chosen because it is expected to cost the least"),
        "{reason}"
    );
    assert!(reason.contains(", next best Bolt $"), "{reason}");

    // Imagined, it wins.
    let factor = change["to"].as_f64().unwrap() / change["from"].as_f64().unwrap();
    let what_if = json!({"endpoints": [{"provider": "bolt", "price": {"factor": factor}}]});
    let body = preview(&gateway, &and(request, json!({"what_if": what_if}))).await;
    assert_eq!(body["candidates"][0]["provider_slug"], "acme", "the decision itself stays");
    let imagined = &body["what_if"];
    assert_eq!((&imagined["changed"], &imagined["candidates"][0]["provider_slug"]), (&json!(true), &json!("bolt")));
    assert_eq!(imagined["sentence"], "The choice would be acme/small on Bolt instead of acme/small on Acme.");
    assert_eq!(imagined["why_not"]["verdict"], "chosen");
    assert_eq!(preview(&gateway, &ask("acme/small")).await.get("what_if"), None);
    assert!(upstreams.iter().all(|upstream| upstream.connections() == 0), "nobody was called");
}

#[actix_web::test]
async fn it_may_be_asked_in_the_query_too() {
    let (gateway, _upstreams) = gateway().await;
    let ask_in = |path: &'static str, body: Value| {
        let gateway = &gateway;
        async move { gateway.post(&format!("/api/v1/route/preview?why_not={path}"), &body).await }
    };
    let body = and(ask("acme/small"), json!({"objective": "cheapest"}));
    let told = ask_in("acme%2Fsmall%40bolt", body.clone()).await.expect(200);
    assert_eq!(told["why_not"]["asked"], "acme/small@bolt");
    let told = ask_in("bolt", and(body.clone(), json!({"why_not": "acme"}))).await.expect(200);
    assert_eq!((&told["why_not"]["asked"], &told["why_not"]["verdict"]), (&json!("acme"), &json!("chosen")));
    assert!(ask_in("", body).await.expect(200)["why_not"].is_null(), "an empty one counts as absent");
}

#[actix_web::test]
async fn whom_nobody_knows_and_who_was_not_asked_for_are_answers_too() {
    let (gateway, _upstreams) = gateway().await;
    let why_not =
        async |name: &str| preview(&gateway, &and(ask("acme/small"), json!({"why_not": name}))).await["why_not"].take();
    let unknown = why_not("acme/smal").await;
    assert_eq!((&unknown["verdict"], &unknown["reason"]), (&json!("unknown"), &json!("unknown_name")));
    assert_eq!(unknown["suggestions"], json!(["acme", "acme/small"]));
    assert_eq!(why_not("crow").await["verdict"], "not_in_pool");
    for alias in ["service/auto", "auto", "Auto", "free"] {
        let told = why_not(alias).await;
        assert_eq!((&told["verdict"], &told["reason"]), (&json!("unknown"), &json!("alias")), "{alias}");
    }
    let blocked = json!({"why_not": "crow/cheap", "blocked_models": ["crow/*"]});
    let refused = preview(&gateway, &blocked).await["why_not"].take();
    assert_eq!((&refused["verdict"], &refused["reason"]), (&json!("refused"), &json!("blocked_model")));
    assert_eq!(refused["sentence"], "crow/cheap on Crow was refused: blocked_model (matches crow/*).");
    let nothing = json!({"model": "acme/small", "why_not": "acme", "blocked_models": ["*"]});
    assert_eq!(preview(&gateway, &nothing).await["why_not"]["verdict"], "refused");
}

#[actix_web::test]
async fn an_explanation_says_why_it_was_not_somebody() {
    let (gateway, _upstreams) = gateway().await;
    let reply = gateway.chat(&and(ask("service/auto"), json!({"objective": "cheapest"}))).await;
    let id = reply.header("x-generation-id").unwrap().to_owned();
    assert_eq!(reply.expect(200)["provider"], "Acme", "after the cheapest failed");
    let explain = async |name: &str| {
        let path = format!("/api/v1/route/explain?generation_id={id}&why_not={name}");
        gateway.get(&path).await.expect(200)["why_not"].take()
    };
    let chosen = explain("crow").await;
    assert_eq!(chosen["verdict"], "chosen");
    assert_eq!(chosen["tried"], json!([{"n": 1, "status": 500, "error_type": "server"}]));
    let fate = "crow/cheap on Crow was the choice, but it failed (500); acme/small on Acme answered as fallback.";
    assert_eq!(chosen["sentence"], fate);
    let lost = explain("bolt").await;
    assert_eq!((&lost["verdict"], &lost["rank"]), (&json!("lost"), &json!(3)));
    assert_eq!(lost["margin"]["to"]["model"], "crow/cheap");
    assert!(lost["would_win_if"][0]["relative"].as_f64().unwrap() < -0.9, "{lost}");
    let path = "/api/v1/route/explain";
    let posted = gateway.post(path, &json!({"generation_id": id, "why_not": "bolt"})).await.expect(200);
    assert_eq!(posted["why_not"], lost);
    let wrong = gateway.post(path, &json!({"generation_id": id, "why_not": 7})).await;
    assert_eq!(error_of(&wrong, 400)["param"], "why_not");
    let plain = gateway.get(&format!("{path}?generation_id={id}")).await.expect(200);
    assert_eq!(plain.get("why_not"), None);
}

#[actix_web::test]
async fn an_imagined_world_is_asked_for_strictly() {
    let (gateway, _upstreams) = gateway().await;
    for (what_if, param, allowed) in [
        (
            json!({"endpoints": [{"model": "acme/small", "price": {"prompt": -1}}]}),
            "what_if.endpoints[0].price.prompt",
            json!(null),
        ),
        (
            json!({"endpoints": [{"model": "acme/smal", "off": true}]}),
            "what_if.endpoints[0].model",
            json!(["acme/small"]),
        ),
        (
            json!({"endpoints": [{"provider": "dawn", "off": true}]}),
            "what_if.endpoints[0].provider",
            json!(["acme", "bolt", "crow"]),
        ),
        (json!({"price": 1}), "what_if.price", json!(["objective", "weights", "endpoints"])),
    ] {
        let reply = gateway.post("/api/v1/route/preview", &json!({"model": "acme/small", "what_if": what_if})).await;
        let error = error_of(&reply, 400);
        assert_eq!(
            (error["param"].as_str(), &error["metadata"]["allowed_values"]),
            (Some(param), &allowed),
            "{what_if}"
        );
    }
}

#[actix_web::test]
async fn where_nothing_is_left_the_nearest_relaxation_is_named() {
    let (gateway, _upstreams) = gateway().await;
    let request =
        and(ask("service/auto"), json!({"blocked_models": ["acme/*"], "provider": {"max_price": {"prompt": 0}}}));
    let error = error_of(&gateway.chat(&request).await, 404);
    assert_eq!(error["availability"]["excluded_by"], json!(["blocked_model", "max_price"]));
    let nearest = &error["availability"]["nearest_relaxation"];
    assert_eq!((&nearest["model"], &nearest["provider_name"]), (&json!("crow/cheap"), &json!("Crow")));
    assert_eq!(nearest["without"][0]["field"], "max_price");
    assert_eq!(
        nearest["sentence"],
        "crow/cheap on Crow can serve the request after one change: raise max_price (max_price: prompt price \
         $0.0000001 above $0)."
    );
    let body = preview(&gateway, &request).await;
    assert_eq!((&body["nearest_relaxation"], &body["candidates"]), (nearest, &json!([])));
    let what_if = json!({"endpoints": [{"model": "crow/cheap", "price": {"factor": 0}}]});
    let imagined = preview(&gateway, &and(request, json!({"what_if": what_if}))).await["what_if"].take();
    assert_eq!(
        imagined["sentence"],
        "The choice would be crow/cheap on Crow; without the change no endpoint can serve the request."
    );
}

#[actix_web::test]
async fn the_nearest_relaxation_says_every_change_that_is_needed() {
    let (gateway, _upstreams) = gateway().await;
    let limits = json!({"blocked_models": ["acme/*", "crow/*"], "provider": {"max_price": {"prompt": 0}}});
    let error = error_of(&gateway.chat(&and(ask("service/auto"), limits)).await, 404);
    assert_eq!(
        error["availability"]["nearest_relaxation"]["sentence"],
        "crow/cheap on Crow can serve the request after 2 changes: remove the model from the blocked models \
         (blocked_model: matches crow/*); raise max_price (max_price: prompt price $0.0000001 above $0)."
    );
}

#[actix_web::test]
async fn an_order_that_leads_nowhere_is_refused() {
    let (gateway, upstreams) = gateway().await;
    let with = |provider: Value| and(ask("acme/small"), json!({"provider": provider}));
    let nowhere = json!({"order": ["acme"], "only": ["bolt"], "allow_fallbacks": false});
    let error = error_of(&gateway.chat(&with(nowhere.clone())).await, 400);
    assert_eq!((&error["param"], &error["metadata"]["reason"]), (&json!("provider.order"), &json!("invalid_value")));
    assert_eq!(error_of(&gateway.post("/api/v1/route/preview", &with(nowhere)).await, 400)["param"], "provider.order");
    assert!(upstreams.iter().all(|upstream| upstream.connections() == 0));
    // By its name and by its slug it is the same provider.
    let fine = json!({"order": ["Bolt"], "only": ["bolt"], "allow_fallbacks": false});
    assert_eq!(gateway.chat(&with(fine)).await.expect(200)["provider"], "Bolt");
}

#[actix_web::test]
async fn a_record_keeps_the_best_eight_of_many_and_counts_the_rest() {
    let upstream = saying("x");
    let world = (0..12).fold(World::new().provider("acme", upstream.address()), |world, n| {
        let price = format!("0.0000{:02}", n + 1);
        world.model(&Model::new(&format!("acme/m{n}")).at("acme", &price, &price))
    });
    let gateway = world.start().await;
    let request = and(ask("service/auto"), json!({"objective": "cheapest", "blocked_models": ["acme/m3"]}));
    let shown = preview(&gateway, &and(request.clone(), json!({"top_n": 100}))).await;
    assert_eq!(shown["candidates"].as_array().unwrap().len(), 11);
    let reply = gateway.chat(&request).await;
    let id = reply.header("x-generation-id").unwrap();
    let explained = gateway.get(&format!("/api/v1/route/explain?id={id}&why_not=acme/m11")).await.expect(200);
    assert_eq!(explained["candidates"].as_array().unwrap().len(), 8);
    assert_eq!((&explained["candidates_total"], &explained["excluded_total"]), (&json!(11), &json!(1)));
    assert_eq!((&explained["why_not"]["verdict"], &explained["why_not"]["rank"]), (&json!("lost"), &json!(11)));
    assert!(explained["decision_reason"].as_str().unwrap().contains("; 11 candidates"));
    let replay = gateway.get(&format!("/api/v1/route/replay?id={id}")).await.expect(200)["data"].take();
    assert_eq!((&replay["identical"], replay["recorded"]["omitted"].as_array().unwrap().len()), (&json!(true), 3));
}

#[actix_web::test]
async fn each_candidate_carries_everything_it_was_judged_by() {
    let (gateway, _upstreams) = gateway().await;
    let reply = gateway.chat(&ask("acme/small")).await;
    reply.expect(200);
    let shown = preview(&gateway, &ask("acme/small")).await;
    for candidate in shown["candidates"].as_array().unwrap() {
        let predicted = &candidate["predicted"];
        for figure in [
            "/ttft_ms/p50",
            "/ttft_ms/p95",
            "/throughput_tps",
            "/total_ms/p50",
            "/total_ms/p95",
            "/cost",
            "/cost_range/low",
            "/cost_range/high",
            "/failure_probability",
        ] {
            assert!(predicted.pointer(figure).is_some_and(Value::is_number), "{figure} in {candidate}");
        }
        let number = |pointer: &str| predicted.pointer(pointer).and_then(Value::as_f64).unwrap();
        assert!(number("/cost_range/low") < number("/cost") && number("/cost") < number("/cost_range/high"));
        assert!(candidate["selection_probability"].is_number() && candidate["score_terms"].is_array());
        assert_eq!((&candidate["role"], candidate.get("actual")), (&json!("candidate"), None));
    }
    let id = reply.header("x-generation-id").unwrap();
    let explained = gateway.get(&format!("/api/v1/route/explain?id={id}")).await.expect(200);
    let actual = &explained["candidates"][0]["actual"];
    assert_eq!((&actual["attempt"], &actual["completion_tokens"]), (&json!(1), &json!(5)));
    assert_eq!(actual["cost"], explained["total_cost"]);
    assert!(actual["predicted_total_ms"].is_number() && actual["total_ms"].is_number(), "{actual}");
    assert_eq!(explained["candidates"][1].get("actual"), None, "nobody asked there");
}
