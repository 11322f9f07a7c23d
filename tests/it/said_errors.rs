//! What the sentence of an error says by itself: client libraries show nothing else of it.

use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::Reply,
    issued_keys::{self, ADMIN},
    scripted::{Gate, Upstream, refused_address},
    world::{Model, World, always, and, ask, error_of, held_stream, one_model, saying},
};

/// The sentence of the error with this status.
fn sentence(reply: &Reply, status: u16) -> String {
    error_of(reply, status)["message"].as_str().unwrap().to_owned()
}

#[actix_web::test]
async fn when_all_attempts_failed_it_says_at_which_provider_and_how_and_where_more_is_said() {
    let broken = always(500, &json!({}));
    let world = World::new()
        .with("[routing.retry]\nmax_attempts = 2\nlast_resort = 0\n")
        .provider("deadend", broken.address())
        .provider("nobody", refused_address())
        .model(&Model::new("acme/one").at("deadend", "0", "0"))
        .model(&Model::new("acme/other").at("nobody", "0", "0"));
    let gateway = world.start().await;
    for (model, what) in [("acme/one", "Deadend answered 500."), ("acme/other", "Nobody could not be reached.")] {
        let reply = gateway.chat(&ask(model)).await;
        let id = reply.header("x-generation-id").unwrap().to_owned();
        let expected = format!("No provider could complete this request. {what} 'pointsman explain {id}' says more.");
        assert_eq!(sentence(&reply, 502), expected);
    }
}

#[actix_web::test]
async fn a_ceiling_that_is_too_low_is_compared_with_the_least_expected_cost() {
    let upstream = saying("a");
    let gateway = World::new()
        .provider("thrift", upstream.address())
        .provider("swift", upstream.address())
        .model(&Model::new("meadow/large").at("swift", "0.01", "0.01").at("thrift", "0.001", "0.001"))
        .start()
        .await;
    let said = sentence(&gateway.chat(&and(ask("meadow/large"), json!({"max_cost": 1e-7}))).await, 404);
    assert!(said.starts_with("max_cost $0.0000001 is below the least expected cost, $"), "{said}");
    assert!(said.ends_with(" (meadow/large on Thrift)."), "{said}");
}

#[actix_web::test]
async fn what_would_help_is_in_the_sentence() {
    let (gateway, _upstream) = one_model(&json!({})).await;
    let said = sentence(&gateway.chat(&and(ask("acme/small"), json!({"provider": {"zdr": true}}))).await, 404);
    assert!(said.contains("can serve the request after one change"), "{said}");
}

#[actix_web::test]
async fn a_model_of_the_catalogue_that_is_off_is_named_with_what_is_missing() {
    let upstream = saying("a");
    let dark = "[providers.dark]\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key_env = \"DARK_API_KEY\"";
    let gateway = World::new()
        .provider("swift", upstream.address())
        .with(dark)
        .model(&Model::new("acme/small").at("swift", "0", "0"))
        .model(&Model::new("dark/gpt-mini").at("dark", "0", "0"))
        .start()
        .await;
    assert_eq!(
        sentence(&gateway.chat(&ask("gpt-mini")).await, 404),
        "Model 'gpt-mini' does not exist. 'dark/gpt-mini' is known, but off (dark: DARK_API_KEY is not set). \
         GET /api/v1/models lists what can be called."
    );
}

#[actix_web::test]
async fn a_model_at_the_wrong_call_says_what_it_makes_and_which_models_this_call_is_for() {
    let upstream = saying("a");
    let vectors = "output_modalities = [\"embeddings\"]";
    let gateway = World::new()
        .provider("swift", upstream.address())
        .model(&Model::new("meadow/small").at("swift", "0", "0"))
        .model(&Model::new("lantern/vectors").with(vectors).at("swift", "0", "0"))
        .start()
        .await;
    let body = json!({"model": "meadow/small", "input": "x"});
    assert_eq!(
        sentence(&gateway.post("/api/v1/embeddings", &body).await, 400),
        "Model 'meadow/small' cannot be used with this endpoint: it makes text: call '/chat/completions'. \
         Models that make embeddings: lantern/vectors."
    );
}

#[actix_web::test]
async fn a_base_address_that_lacks_its_end_and_calls_that_are_not_offered_are_told() {
    let (gateway, _upstream) = one_model(&json!({})).await;
    for (path, said) in [
        ("/chat/completions", "'/chat/completions' is at /api/v1/chat/completions: the base address lacks /api/v1. "),
        ("/api/v1/audio/speech", "'audio' is not offered by this gateway. "),
        ("/v1/moderations", "'moderations' is not offered by this gateway. "),
    ] {
        let sentence = sentence(&gateway.post(path, &json!({})).await, 404);
        assert!(sentence.starts_with(said), "{sentence}");
    }
}

#[actix_web::test]
async fn a_limit_of_the_team_is_not_called_one_of_the_key() {
    let (upstream, folder) = (saying("a"), Folder::new());
    let dark = "[[models]]\nid = \"acme/dark\"\ncontext_length = 4096\n[[models.endpoints]]\nprovider = \"acme\"\n\
                upstream_model = \"d\"\npricing = \"unknown\"";
    let world = issued_keys::world(&upstream, &folder).with(dark);
    let gateway = world.start().await;
    let admin = gateway.admin();
    let put = async |path: &str, body: Value| {
        issued_keys::call(&admin, actix_web::http::Method::PUT, path, ADMIN, Some(body)).await.expect(200)
    };
    put("/api/v1/admin/teams/product", json!({"limit": 1})).await;
    put("/api/v1/admin/accounts/webshop", json!({"team": "product"})).await;
    let (key, _) = issued_keys::issue(&gateway, json!({"name": "shop", "account": "webshop"})).await;
    let call = issued_keys::call(
        &gateway,
        actix_web::http::Method::POST,
        "/api/v1/chat/completions",
        &key,
        Some(ask("acme/dark")),
    );
    let said = sentence(&call.await, 402);
    assert!(said.starts_with("The team of this API key has a spending limit, and the prices "), "{said}");
}

#[actix_web::test]
async fn a_stream_that_falls_silent_says_who_fell_silent_for_how_long_and_after_how_much() {
    let gate = Gate::new();
    let upstream = Upstream::start([held_stream(&["one", " two"], &gate)]);
    let gateway = World::new()
        .with("[stream]\nidle_timeout = \"300ms\"\n")
        .provider("tunnel", upstream.address())
        .model(&Model::new("acme/small").at("tunnel", "0", "0"))
        .start()
        .await;
    let text = gateway.chat(&and(ask("acme/small"), json!({"stream": true}))).await.text();
    gate.open();
    let (_, said) = text.split_once("Tunnel sent nothing for ").unwrap_or_else(|| panic!("{text}"));
    assert!(said.starts_with("0.") && said.contains(" s in the middle of its answer, after about "), "{said}");
}

#[actix_web::test]
async fn a_rate_limit_says_how_many_requests_it_allows() {
    let (upstream, folder) = (saying("a"), Folder::new());
    let gateway = issued_keys::world(&upstream, &folder).start().await;
    let (key, _) = issued_keys::issue(&gateway, json!({"name": "slow", "requests_per_minute": 1})).await;
    let send = || {
        let path = "/api/v1/chat/completions";
        issued_keys::call(&gateway, actix_web::http::Method::POST, path, &key, Some(ask("acme/small")))
    };
    send().await.expect(200);
    let said = sentence(&send().await, 429);
    assert!(said.starts_with("Too many requests for this API key: the limit is 1 requests a minute."), "{said}");
}

#[actix_web::test]
async fn probably_misspelt_parameters_are_named_and_passed_on_unchanged() {
    let (gateway, upstream) = one_model(&crate::world::completion("x")).await;
    let misspelt = json!({"max_token": 5, "temprature": 1, "steam": true});
    let body = and(ask("acme/small"), misspelt.clone());
    let reply = gateway.chat(&body).await;
    reply.expect(200);
    let mut named: Vec<&str> = reply.header("x-route-ignored").unwrap().split(',').collect();
    named.sort_unstable();
    assert_eq!(named, ["max_token", "steam", "temprature"]);
    let preview = gateway.post("/api/v1/route/preview", &body).await.expect(200);
    let warnings: Vec<&str> =
        preview["warnings"].as_array().unwrap().iter().map(|one| one["message"].as_str().unwrap()).collect();
    for (name, meant) in [("max_token", "max_tokens"), ("temprature", "temperature"), ("steam", "stream")] {
        let warning = format!("'{name}' is not known here and is passed on unchanged; did you mean '{meant}'?");
        assert!(warnings.contains(&warning.as_str()), "{warnings:?}");
    }
    let sent = upstream.last_body();
    for (name, value) in misspelt.as_object().unwrap() {
        assert_eq!(&sent[name], value, "{name}");
    }
}
