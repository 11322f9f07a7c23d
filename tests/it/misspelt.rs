//! Names that nobody has: what an error or a preview says of them.

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    scripted::Upstream,
    world::{Model, World, always, and, ask, completion, error_of, one_model, saying},
};

/// Two models, each at the provider `swift-one`, the first at `bolt` too.
async fn gateway() -> (TestGateway, Vec<Upstream>) {
    let upstreams = vec![saying("a"), saying("b")];
    let world = World::new()
        .provider_with("swift", upstreams[0].address(), "")
        .provider("bolt", upstreams[1].address())
        .model(&Model::new("acme/small").at("swift", "0.000001", "0.000002").at("bolt", "0.000003", "0.000006"))
        .model(&Model::new("acme/large").at("swift", "0.00001", "0.00002"));
    (world.start().await, upstreams)
}

fn constraint(error: &Value) -> [&Value; 3] {
    let constraint = &error["availability"]["constraint"];
    [&constraint["field"], &constraint["reason"], &constraint["detail"]]
}

#[actix_web::test]
async fn a_restriction_that_names_nobody_is_named_with_whom_it_may_have_meant() {
    let (gateway, _upstreams) = gateway().await;
    for (more, field, reason, detail) in [
        (
            json!({"provider": {"only": ["swfit"]}}),
            "provider.only[0]",
            "provider_not_allowed",
            "'provider.only[0]': 'swfit' is no provider of this catalog; did you mean 'swift'?",
        ),
        (
            json!({"metadata": {"provider_policy": "{\"order\": [\"nobody\"], \"allow_fallbacks\": false}"}}),
            "metadata.provider_policy.order[0]",
            "provider_not_allowed",
            "'metadata.provider_policy.order[0]': 'nobody' is no provider of this catalog.",
        ),
        (
            json!({"extra_body": {"allowed_models": ["acme/smll", "bolt/*"]}}),
            "extra_body.allowed_models[0]",
            "not_allowed_model",
            "'extra_body.allowed_models[0]': 'acme/smll' matches no model of this catalog; did you mean 'acme/small'?",
        ),
    ] {
        let error = error_of(&gateway.chat(&and(ask("service/auto"), more)).await, 404);
        assert_eq!((&error["metadata"]["reason"], &error["param"]), (&json!("no_candidates"), &Value::Null));
        assert_eq!(constraint(&error), [&json!(field), &json!(reason), &json!(detail)]);
        assert!(error["message"].as_str().unwrap().contains(detail), "{error}");
    }
}

#[actix_web::test]
async fn a_restriction_that_leaves_nothing_is_named_by_where_it_stands() {
    let (gateway, _upstreams) = gateway().await;
    for (more, field, reason) in [
        (json!({"provider": {"only": ["bolt"]}}), "provider.only", "provider_not_allowed"),
        (
            json!({"metadata": {"max_cost_per_1k_tokens": 1e-9}}),
            "metadata.max_cost_per_1k_tokens",
            "max_cost_per_1k_tokens",
        ),
        (json!({"provider": {"max_price": {"prompt": 100}}, "max_cost": 1e-9}), "max_cost", "max_price"),
        (json!({"provider": {"zdr": true}}), "provider.zdr", "data_policy"),
        (json!({"blocked_models": ["acme/*"]}), "blocked_models", "blocked_model"),
    ] {
        let error = error_of(&gateway.chat(&and(ask("acme/large"), more)).await, 404);
        assert_eq!(constraint(&error)[..2], [&json!(field), &json!(reason)], "{error}");
    }
}

#[actix_web::test]
async fn the_highest_cost_of_a_request_is_called_by_its_own_name() {
    let (gateway, _upstreams) = gateway().await;
    let request = and(ask("acme/large"), json!({"max_cost": 1e-9}));
    let nearest = error_of(&gateway.chat(&request).await, 404)["availability"]["nearest_relaxation"].take();
    assert_eq!(nearest["without"][0]["field"], "max_cost");
    let sentence = nearest["sentence"].as_str().unwrap();
    assert!(sentence.contains("after one change: raise max_cost (max_cost: expected cost $"), "{sentence}");
    assert!(sentence.contains(" above max_cost $0.000000001)"), "{sentence}");
    let excluded = gateway.post("/api/v1/route/preview", &request).await.expect(200)["excluded"][0].take();
    assert_eq!(excluded["reason"], "max_price", "the name of the reason is part of the contract");
    assert!(excluded["detail"].as_str().unwrap().contains("above max_cost $"), "{excluded}");
}

/// Whatever the configuration rules out anyway says nothing about the request.
#[actix_web::test]
async fn a_restriction_is_named_although_others_are_retired_disabled_or_not_free() {
    let upstream = saying("a");
    let disabled = "[[models.endpoints]]\nprovider = \"bolt\"\nupstream_model = \"b\"\ndisabled = true";
    let shared = format!(
        "[[models]]\nid = \"acme/shared\"\ncontext_length = 1000\n[[models.endpoints]]\nprovider = \"swift\"\n\
         upstream_model = \"a\"\npricing = {{ prompt = \"0.001\", completion = \"0.001\" }}\n{disabled}"
    );
    let world = World::new()
        .provider("swift", upstream.address())
        .provider("bolt", upstream.address())
        .with(&shared)
        .model(&Model::new("acme/free").at("swift", "0", "0"))
        .model(&Model::new("acme/old").with("expiration_date = 2020-01-01").at("swift", "0", "0"));
    let gateway = world.start().await;
    for (model, more, field, reason) in [
        ("acme/shared", json!({"max_cost": 1e-9}), "max_cost", "max_price"),
        ("acme/shared", json!({"provider": {"zdr": true}}), "provider.zdr", "data_policy"),
        ("service/auto", json!({"provider": {"only": ["bolt"]}}), "provider.only", "provider_not_allowed"),
        ("service/free", json!({"blocked_models": ["acme/free"]}), "blocked_models", "blocked_model"),
    ] {
        let error = error_of(&gateway.chat(&and(ask(model), more)).await, 404);
        assert_eq!(constraint(&error)[..2], [&json!(field), &json!(reason)], "{error}");
        assert!(error["availability"]["excluded_by"].as_array().unwrap().len() > 1, "{error}");
    }
}

/// Its caller can lift no list of an alias.
#[actix_web::test]
async fn a_list_of_an_alias_that_leaves_nobody_is_told_as_the_alias_s() {
    let upstream = saying("a");
    let world = World::new()
        .with("[[aliases]]\nname = \"empty\"\nallowed_models = [\"zzz/*\"]")
        .with("[[aliases]]\nname = \"shut\"\nblocked_models = [\"acme/*\"]")
        .provider("swift", upstream.address())
        .model(&Model::new("acme/small").at("swift", "0", "0"));
    let gateway = world.start().await;
    for (alias, more, reason, detail) in [
        ("empty", json!({}), "not_allowed_model", "matches no entry of 'allowed_models' of the alias service/empty"),
        (
            "empty",
            json!({"allowed_models": ["acme/*"]}),
            "not_allowed_model",
            "matches no entry of 'allowed_models' of the alias service/empty",
        ),
        ("shut", json!({}), "blocked_model", "matches acme/* in 'blocked_models' of the alias service/shut"),
    ] {
        let error = error_of(&gateway.chat(&and(ask(&format!("service/{alias}")), more)).await, 404);
        assert_eq!(constraint(&error), [&json!(reason), &json!(reason), &json!(detail)]);
        assert_eq!(error["availability"]["nearest_relaxation"]["without"][0]["detail"], detail, "{error}");
        let told = format!("The lists of models of the alias service/{alias} leave no model of this catalog.");
        assert!(error["message"].as_str().unwrap().contains(&told), "{error}");
    }
}

#[actix_web::test]
async fn a_preview_warns_of_what_has_no_effect() {
    let (gateway, upstreams) = gateway().await;
    let request = and(
        ask("acme/small"),
        json!({"provider": {"onyl": ["swift"], "ignore": ["blot"], "order": ["Swift"]}, "blocked_models": ["zeta/*"]}),
    );
    let body = gateway.post("/api/v1/route/preview", &request).await.expect(200);
    assert_eq!(
        body["warnings"],
        json!([
            {"param": "provider.onyl", "message": "'provider.onyl' is not known and has no effect; did you mean 'only'?"},
            {"param": "blocked_models[0]", "message": "'blocked_models[0]': 'zeta/*' matches no model of this catalog."},
            {"param": "provider.ignore[0]",
             "message": "'provider.ignore[0]': 'blot' is no provider of this catalog; did you mean 'bolt'?"},
        ])
    );
    let audio = and(ask("acme/small"), json!({"provider": {"max_price": {"audio": 1}}}));
    let body = gateway.post("/api/v1/route/preview", &audio).await.expect(200);
    let message = "'provider.max_price.audio' has no effect: no price for audio is known here.";
    assert_eq!(body["warnings"], json!([{"param": "provider.max_price.audio", "message": message}]));
    let plain = gateway.post("/api/v1/route/preview", &ask("acme/small")).await.expect(200);
    assert_eq!(plain.get("warnings"), None);
    assert!(upstreams.iter().all(|upstream| upstream.connections() == 0), "nobody was called");
}

#[actix_web::test]
async fn a_call_is_served_in_spite_of_an_unknown_member_and_says_so_in_a_header() {
    let (gateway, _upstream) = one_model(&completion("x")).await;
    let misspelt = json!({"provider": {"onyl": ["acme"]}, "metadata": {"provider_policy": {"srot": "price"}}});
    let reply = gateway.chat(&and(ask("acme/small"), misspelt)).await;
    reply.expect(200);
    assert_eq!(reply.header("x-route-ignored"), Some("metadata.provider_policy.srot,provider.onyl"));
    let long = "x".repeat(5000);
    let odd = json!({"provider": {"a\r\nset-cookie: b": 1, "é": 1, long: 1, "onyl": []}});
    assert_eq!(gateway.chat(&and(ask("acme/small"), odd)).await.header("x-route-ignored"), Some("provider.onyl"));
    let plain = gateway.chat(&and(ask("acme/small"), json!({"provider": {"only": ["acme"]}}))).await;
    plain.expect(200);
    assert_eq!(plain.header("x-route-ignored"), None);
}

#[actix_web::test]
async fn an_unknown_model_is_answered_with_those_it_resembles() {
    let upstream = always(200, &completion("x"));
    let mut world = World::new().provider("acme", upstream.address());
    for id in ["acme/small", "acme/smart", "bolt/large-v2"] {
        world = world.model(&Model::new(id).at("acme", "0", "0"));
    }
    let gateway = world.start().await;
    for (name, meant, fallbacks) in [
        ("acme/smal", " Did you mean 'acme/small'?", json!(["acme/small", "acme/smart"])),
        ("ACME/Small", " Did you mean 'acme/small'?", json!(["acme/small", "acme/smart"])),
        ("zeta/large-v3", " Did you mean 'bolt/large-v2'?", json!(["bolt/large-v2"])),
        ("service/atuo", " Did you mean 'service/auto'?", json!(["service/auto"])),
        ("nothing/like-it", "", Value::Null),
    ] {
        let error = error_of(&gateway.chat(&ask(name)).await, 404);
        assert_eq!(error["message"], format!("Model '{name}' does not exist.{meant}"));
        assert_eq!(error["availability"]["fallback_models"], fallbacks, "{name}");
        assert_eq!(error["param"], "model");
    }
    let page = gateway.get("/api/v1/models/acme/smal/endpoints").await;
    assert_eq!(error_of(&page, 404)["availability"]["fallback_models"], json!(["acme/small", "acme/smart"]));
}

#[actix_web::test]
async fn a_misspelt_routing_field_is_named_wherever_it_stands() {
    let (gateway, _upstream) = one_model(&completion("x")).await;
    let misspelt = json!({
        "objektive": "cheapest",
        "extra_body": {"blockedModels": ["acme/*"]},
        "metadata": {"allowed_model": "beta/*", "provider": {"only": ["nobody"]}, "team": "a", "topic": "b"},
    });
    let body = and(ask("acme/small"), misspelt);
    let reply = gateway.chat(&body).await;
    reply.expect(200);
    let mut named: Vec<&str> = reply.header("x-route-ignored").unwrap().split(',').collect();
    named.sort_unstable();
    assert_eq!(named, ["extra_body.blockedModels", "metadata.allowed_model", "metadata.provider", "objektive"]);

    let preview = gateway.post("/api/v1/route/preview", &body).await.expect(200);
    let mut warnings: Vec<&str> =
        preview["warnings"].as_array().unwrap().iter().map(|one| one["message"].as_str().unwrap()).collect();
    warnings.sort_unstable();
    assert_eq!(
        warnings,
        [
            "'extra_body.blockedModels' is no routing field and routes nothing; did you mean 'blocked_models'?",
            "'metadata.allowed_model' is no routing field and routes nothing; did you mean 'allowed_models'?",
            "'metadata.provider' is no routing field and routes nothing; did you mean 'provider_policy'?",
            "'objektive' is no routing field and routes nothing; did you mean 'objective'?",
        ]
    );
    let tags = json!({"metadata": {"team": "a", "provider": "acme"}, "user": "u", "num_ctx": 4});
    let plain = gateway.chat(&and(ask("acme/small"), tags)).await;
    plain.expect(200);
    assert_eq!(plain.header("x-route-ignored"), None);
}

#[actix_web::test]
async fn a_list_that_names_only_what_is_off_says_so_and_what_to_set() {
    let upstream = saying("a");
    let dark = "[providers.dark]\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key_env = \"DARK_API_KEY\"";
    let world = World::new()
        .provider("swift", upstream.address())
        .with(dark)
        .with("[[aliases]]\nname = \"night\"\nallowed_models = [\"dark/*\"]")
        .model(&Model::new("acme/small").at("swift", "0.000001", "0.000002"))
        .model(&Model::new("dark/large").at("dark", "0.000001", "0.000002"));
    let gateway = world.start().await;
    for (more, field, detail) in [
        (
            json!({"allowed_models": ["dark/large"]}),
            "allowed_models[0]",
            "'allowed_models[0]': 'dark/large' matches only models whose provider is off (dark: DARK_API_KEY is not set).",
        ),
        (
            json!({"provider": {"only": ["dark"]}}),
            "provider.only[0]",
            "'provider.only[0]': 'dark' serves nothing, because it is off (dark: DARK_API_KEY is not set).",
        ),
    ] {
        let body = and(ask("service/auto"), more);
        let error = error_of(&gateway.chat(&body).await, 404);
        let constraint = constraint(&error);
        assert_eq!((constraint[0], constraint[2]), (&json!(field), &json!(detail)));
        assert!(error["message"].as_str().unwrap().contains(detail), "{error}");
        let preview = gateway.post("/api/v1/route/preview", &body).await.expect(200);
        assert_eq!(preview["warnings"], json!([{"param": field, "message": detail}]));
    }
    let error = error_of(&gateway.chat(&ask("service/night")).await, 404);
    let told =
        "Every model that the alias service/night allows is at a provider that is off (dark: DARK_API_KEY is not set).";
    assert!(error["message"].as_str().unwrap().contains(told), "{error}");
    let error = error_of(&gateway.chat(&ask("dark/large")).await, 404);
    assert!(error["message"].as_str().unwrap().contains("DARK_API_KEY is not set"), "{error}");
    let blocked = and(ask("service/auto"), json!({"blocked_models": ["dark/*"], "provider": {"ignore": ["dark"]}}));
    let preview = gateway.post("/api/v1/route/preview", &blocked).await.expect(200);
    assert_eq!(preview.get("warnings"), None, "what is off may be blocked as well");
}
