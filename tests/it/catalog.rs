//! The model list and its neighbours, over real sockets.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::harness::{Reply, TestGateway};

/// Two providers that are never called, one that is off for want of its key, and models of every kind.
const CATALOG: &str = r#"
[providers.acme]
name = "Acme"
base_url = "http://127.0.0.1:9/v1"
[providers.beta]
name = "Beta Cloud"
base_url = "http://127.0.0.1:9/v1"
[providers.keyless]
name = "Keyless"
base_url = "http://127.0.0.1:9/v1"
api_key_env = "NOBODY_SETS_THIS"

[[models]]
id = "acme/small"
canonical_slug = "acme/small-2026-01"
created = 2026-01-01
context_length = 128000
max_completion_tokens = 16384
supported_parameters = ["max_tokens", "temperature", "tools", "tool_choice"]
pricing = { prompt = "0.00000015", completion = "0.0000006" }
[[models.endpoints]]
provider = "acme"
upstream_model = "small"
[[models.endpoints]]
provider = "beta"
upstream_model = "acme-small"

[[models]]
id = "acme/paint"
created = 2026-01-02
output_modalities = ["image"]
context_length = 4000
pricing = { prompt = "0", completion = "0", image = "0.04" }
[[models.endpoints]]
provider = "acme"
upstream_model = "paint"

[[models]]
id = "beta/plain"
created = 2026-01-03
context_length = 8000
supported_parameters = ["max_tokens"]
pricing = { prompt = "0", completion = "0" }
[[models.endpoints]]
provider = "beta"
upstream_model = "plain"

[[models]]
id = "beta/vectors"
created = 2026-01-04
output_modalities = ["embeddings"]
context_length = 8000
pricing = { prompt = "0.0000001", completion = "0" }
[[models.endpoints]]
provider = "beta"
upstream_model = "vectors"

[[models]]
id = "beta/retired"
created = 2026-01-05
expiration_date = 2026-01-06
context_length = 8000
supported_parameters = ["tools"]
pricing = { prompt = "0", completion = "0" }
[[models.endpoints]]
provider = "beta"
upstream_model = "retired"

[[models]]
id = "keyless/big"
created = 2026-01-07
context_length = 900000
supported_parameters = ["tools"]
pricing = { prompt = "0", completion = "0" }
[[models.endpoints]]
provider = "keyless"
upstream_model = "big"
"#;

/// A visitor's call: no key.
async fn visit(gateway: &TestGateway, path: &str, headers: &[(&str, &str)]) -> Reply {
    let headers: Vec<_> = headers.iter().copied().chain([("authorization", "")]).collect();
    gateway.call(Method::GET, path, &headers, None).await
}

async fn ids(gateway: &TestGateway, path: &str) -> Vec<String> {
    let list = visit(gateway, path, &[]).await.expect(200);
    list["data"].as_array().unwrap().iter().map(|entry| entry["id"].as_str().unwrap().to_owned()).collect()
}

#[actix_web::test]
async fn the_versioned_list_shows_text_models_and_the_unversioned_one_all() {
    let gateway = TestGateway::start(CATALOG).await;
    for path in ["/api/v1/models", "/v1/models", "/api/v1/models/", "/api/v1/models?output_modalities="] {
        assert_eq!(ids(&gateway, path).await, ["beta/plain", "acme/small"], "{path}");
    }
    assert_eq!(ids(&gateway, "/api/models").await, ["beta/vectors", "beta/plain", "acme/paint", "acme/small"]);
    assert_eq!(ids(&gateway, "/api/models?output_modalities=text").await, ["beta/plain", "acme/small"]);
    assert_eq!(ids(&gateway, "/api/v1/images/models").await, ["acme/paint"]);
}

#[actix_web::test]
async fn outputs_unite_and_an_unknown_one_is_a_400() {
    let gateway = TestGateway::start(CATALOG).await;
    for (outputs, expected) in [
        ("text,image", &["beta/plain", "acme/paint", "acme/small"][..]),
        ("image", &["acme/paint"]),
        ("all", &["beta/vectors", "beta/plain", "acme/paint", "acme/small"]),
    ] {
        assert_eq!(ids(&gateway, &format!("/api/v1/models?output_modalities={outputs}")).await, expected, "{outputs}");
    }
    let error = visit(&gateway, "/api/v1/models?output_modalities=smell", &[]).await.expect(400)["error"].take();
    assert_eq!((&error["code"], &error["param"]), (&json!(400), &json!("output_modalities")));
    assert_eq!(error["metadata"]["allowed_values"], json!(["text", "image", "audio", "embeddings", "all"]));
}

#[actix_web::test]
async fn codex_gets_an_empty_list_in_its_own_form_and_keeps_its_own_instructions() {
    let gateway = TestGateway::start(CATALOG).await;
    for path in ["/api/v1/models", "/v1/models", "/api/models"] {
        let answer = visit(&gateway, &format!("{path}?client_version=0.169.0"), &[]).await.expect(200);
        assert_eq!(answer, json!({"models": []}), "{path}");
    }
}

#[actix_web::test]
async fn a_parameter_must_be_listed_and_filters_intersect() {
    let gateway = TestGateway::start(CATALOG).await;
    for (query, expected) in [
        ("supported_parameters=tools", &["acme/small"][..]),
        ("supported_parameters=max_tokens", &["beta/plain", "acme/small"]),
        ("supported_parameters=max_tokens,temperature", &["acme/small"]),
        ("supported_parameters=tools&output_modalities=image", &[]),
        ("supported_parameters=nobody_lists_this", &[]),
    ] {
        assert_eq!(ids(&gateway, &format!("/api/v1/models?{query}")).await, expected, "{query}");
        let count = visit(&gateway, &format!("/api/v1/models/count?{query}"), &[]).await.expect(200);
        assert_eq!(count, json!({"data": {"count": expected.len()}}), "{query}");
    }
}

#[actix_web::test]
async fn who_has_the_list_gets_304_without_a_body() {
    let gateway = TestGateway::start(CATALOG).await;
    let first = visit(&gateway, "/api/v1/models", &[]).await;
    let tag = first.header("etag").unwrap().to_owned();
    assert_eq!(first.header("vary"), Some("Accept-Encoding, User-Agent"));
    let again = visit(&gateway, "/api/v1/models", &[("if-none-match", &tag)]).await;
    assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag.as_str())));
    // Another list is another body.
    let other = visit(&gateway, "/api/models", &[("if-none-match", &tag)]).await;
    assert_eq!(other.status, 200);
}

#[actix_web::test]
async fn pages_have_no_gaps_and_no_repeats_and_an_end() {
    let gateway = TestGateway::start(CATALOG).await;
    let whole = ids(&gateway, "/api/models").await;
    let mut seen = Vec::new();
    let mut next = Some("/api/models?limit=3".to_owned());
    while let Some(path) = next {
        let page = visit(&gateway, &path, &[]).await.expect(200);
        assert_eq!(page["total_count"], whole.len());
        seen.extend(ids(&gateway, &path).await);
        assert!(seen.len() <= whole.len(), "{seen:?}");
        next = page["links"]["next"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, whole);
    let past = visit(&gateway, "/api/models?offset=4", &[]).await.expect(200);
    assert_eq!(past, json!({"data": [], "total_count": 4, "links": {"next": null}}));
}

#[actix_web::test]
async fn the_list_has_one_field_but_for_clients_that_insist_on_pages() {
    let gateway = TestGateway::start(CATALOG).await;
    let keys = |body: &Value| -> Vec<String> { body.as_object().unwrap().keys().cloned().collect() };
    let bare = visit(&gateway, "/api/v1/models", &[]).await.expect(200);
    assert_eq!(keys(&bare), ["data"]);
    let agent = [("user-agent", "speakeasy-sdk/typescript 1.3.19")];
    let paged = visit(&gateway, "/api/v1/models", &agent).await.expect(200);
    assert_eq!(keys(&paged), ["data", "links", "total_count"]);
}

#[actix_web::test]
async fn one_model_is_found_by_id_and_permanent_name_in_every_spelling() {
    let gateway = TestGateway::start(CATALOG).await;
    for path in ["/api/v1/models/acme/small", "/api/v1/models/acme%2Fsmall", "/api/models/acme/small-2026-01"] {
        assert_eq!(visit(&gateway, path, &[]).await.expect(200)["id"], "acme/small", "{path}");
    }
    assert_eq!(visit(&gateway, "/api/v1/model/acme/small", &[]).await.expect(200)["data"]["id"], "acme/small");
    let page = visit(&gateway, "/api/v1/models/acme/small/endpoints", &[]).await.expect(200);
    let providers: Vec<_> = page["data"]["endpoints"].as_array().unwrap().iter().map(|it| &it["tag"]).collect();
    assert_eq!(providers, ["acme", "beta"]);
}

#[actix_web::test]
async fn what_is_unknown_retired_or_not_served_is_a_404() {
    let gateway = TestGateway::start(CATALOG).await;
    for (path, reason) in [
        ("/api/v1/models/acme/nope", "model_not_found"),
        ("/api/v1/model/nope", "model_not_found"),
        ("/api/v1/models/keyless/big", "model_not_found"),
        ("/api/v1/models/beta/retired", "model_deprecated"),
        ("/api/v1/models/beta/retired/endpoints", "model_deprecated"),
    ] {
        let error = visit(&gateway, path, &[]).await.expect(404)["error"].take();
        assert_eq!((&error["metadata"]["reason"], &error["code"]), (&json!(reason), &json!(404)), "{path}");
    }
}

#[actix_web::test]
async fn aliases_are_listed_when_the_operator_wants_it() {
    let gateway = TestGateway::start(&format!("[catalog]\nlist_aliases = true\n{CATALOG}")).await;
    let listed = ids(&gateway, "/api/v1/models").await;
    assert!(listed.contains(&"service/auto".to_owned()) && listed.contains(&"service/free".to_owned()), "{listed:?}");
    let alias = visit(&gateway, "/api/v1/models/service/auto", &[]).await.expect(200);
    assert_eq!(alias["pricing"]["prompt"], "-1");
    let endpoints = visit(&gateway, "/api/v1/models/service/free/endpoints", &[]).await.expect(200);
    assert_eq!(endpoints["data"]["endpoints"][0]["model_id"], "beta/plain");
}

#[actix_web::test]
async fn providers_that_are_on_are_listed() {
    let gateway = TestGateway::start(CATALOG).await;
    let list = visit(&gateway, "/api/v1/providers", &[]).await.expect(200);
    let slugs: Vec<_> = list["data"].as_array().unwrap().iter().map(|provider| &provider["slug"]).collect();
    assert_eq!(slugs, ["acme", "beta"]);
}

#[actix_web::test]
async fn a_closed_catalog_needs_a_key_and_is_kept_by_its_caller_alone() {
    let gateway = TestGateway::start_with(CATALOG, &[("POINTSMAN__AUTH__PUBLIC_CATALOG", "false")]).await;
    assert_eq!(visit(&gateway, "/api/v1/models", &[]).await.status, 401);
    let list = gateway.get("/api/v1/models").await;
    assert_eq!((list.status, list.header("cache-control")), (200, Some("private, max-age=60")));
}
