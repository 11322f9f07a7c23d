//! What the catalog promises.

use actix_web::http::Method;
use serde_json::Value;

use crate::{
    harness::{Reply, TestGateway},
    keyless::{model, provider, simple_model},
    world::column,
};

/// Models of every kind of output; nobody is ever called.
async fn gateway() -> TestGateway {
    let free = |id: &str, lines: &str| model(id, lines, &[("acme", "0", "0")]);
    let config = [
        provider("acme", "http://127.0.0.1:9"),
        model(
            "acme/chat",
            "created = 2026-03-01\ncontext_length = 9000\nsupported_parameters = [\"tools\", \"tool_choice\", \"seed\"]",
            &[("acme", "0.00000015", "0.0000006")],
        ),
        free("acme/plain", "created = 2026-02-01\nsupported_parameters = [\"seed\"]"),
        free("acme/both", "output_modalities = [\"text\", \"image\"]\nsupported_parameters = [\"tools\"]"),
        free("acme/canvas", "output_modalities = [\"image\"]"),
        free("acme/voice", "output_modalities = [\"audio\"]"),
        free("acme/vector", "output_modalities = [\"embeddings\"]"),
        free("acme/gone", "expiration_date = 2020-01-01"),
    ];
    TestGateway::start(&config.concat()).await
}

async fn ids(gateway: &TestGateway, path: &str) -> Vec<String> {
    let list = gateway.get(path).await.expect(200);
    let mut ids: Vec<String> = column(&list["data"], "id").into_iter().map(str::to_owned).collect();
    ids.sort();
    ids
}

async fn check(gateway: &TestGateway, path: &str, expected: &[&str]) {
    let mut expected: Vec<String> = expected.iter().map(|name| format!("acme/{name}")).collect();
    expected.sort();
    assert_eq!(ids(gateway, path).await, expected, "{path}");
}

#[actix_web::test]
async fn the_list_below_the_prefix_of_openai_clients_is_marked_as_a_list_and_the_others_have_data_alone() {
    let gateway = gateway().await;
    for query in ["", "?limit=1", "?output_modalities=all"] {
        let list = gateway.get(&format!("/v1/models{query}")).await.expect(200);
        assert_eq!(list["object"], "list", "{query}");
        assert!(list["data"].as_array().unwrap().iter().all(|model| model["object"] == "model"), "{list}");
    }
    for path in ["/api/v1/models", "/api/models", "/v1/images/models"] {
        let list = gateway.get(path).await.expect(200);
        assert_eq!(list.as_object().unwrap().keys().collect::<Vec<_>>(), ["data"], "{path}");
    }
}

#[actix_web::test]
async fn without_parameters_the_versioned_list_has_text_models_only_and_the_unversioned_one_all() {
    let gateway = gateway().await;
    check(&gateway, "/api/v1/models", &["chat", "plain", "both"]).await;
    check(&gateway, "/v1/models", &["chat", "plain", "both"]).await;
    check(&gateway, "/api/models", &["chat", "plain", "both", "canvas", "voice", "vector"]).await;
    check(&gateway, "/api/models?output_modalities=text", &["chat", "plain", "both"]).await;
    let bare = gateway.get("/api/v1/models").await.expect(200);
    assert_eq!(bare.as_object().unwrap().len(), 1, "one field only: {bare}");
}

#[actix_web::test]
async fn output_modalities_are_a_union_all_is_everything_and_an_unknown_one_is_a_400() {
    let gateway = gateway().await;
    let all = ["chat", "plain", "both", "canvas", "voice", "vector"];
    for (query, expected) in [
        ("text,image", &["chat", "plain", "both", "canvas"][..]),
        ("image", &["both", "canvas"]),
        ("%20Image%20,AUDIO", &["both", "canvas", "voice"]),
        ("image&output_modalities=embeddings", &["both", "canvas", "vector"]),
        ("", &["chat", "plain", "both"]),
        ("all", &all),
        ("text,all", &all),
    ] {
        check(&gateway, &format!("/api/v1/models?output_modalities={query}"), expected).await;
    }
    for path in ["/api/v1/models", "/api/models", "/api/v1/models/count"] {
        let refused = gateway.get(&format!("{path}?output_modalities=text,smell")).await.expect(400);
        assert_eq!(refused["error"]["param"], "output_modalities");
        assert_eq!(refused["error"]["metadata"]["reason"], "invalid_value");
    }
}

#[actix_web::test]
async fn supported_parameters_keep_exactly_the_models_that_list_them_and_filters_intersect() {
    let gateway = gateway().await;
    for (query, expected) in [
        ("supported_parameters=tools", &["chat", "both"][..]),
        ("supported_parameters=seed", &["chat", "plain"]),
        ("supported_parameters=tools,seed", &["chat"]),
        ("supported_parameters=tools&supported_parameters=seed", &["chat"]),
        ("supported_parameters=tools&output_modalities=image", &["both"]),
        ("supported_parameters=nobody_has_this", &[]),
        ("q=PLAI", &["plain"]),
        ("context=8500", &["chat"]),
        ("providers=acme&max_price=0", &["plain", "both"]),
        ("providers=nobody", &[]),
        ("unknown_name=1", &["chat", "plain", "both"]),
    ] {
        check(&gateway, &format!("/api/v1/models?{query}"), expected).await;
        let count = gateway.get(&format!("/api/v1/models/count?{query}")).await.expect(200);
        assert_eq!(count["data"]["count"], expected.len(), "{query}");
    }
    check(&gateway, "/api/v1/images/models", &["both", "canvas"]).await;
}

fn is_plain_decimal(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "1"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    digits(whole) && digits(fraction) && !fraction.ends_with('0')
}

#[actix_web::test]
async fn every_entry_has_all_fields_of_the_specification_and_decimal_strings_for_prices() {
    let gateway = gateway().await;
    let list = gateway.get("/api/models").await.expect(200);
    for entry in list["data"].as_array().unwrap() {
        for name in [
            "id",
            "canonical_slug",
            "name",
            "created",
            "description",
            "context_length",
            "architecture",
            "pricing",
            "top_provider",
            "per_request_limits",
            "supported_parameters",
            "default_parameters",
            "expiration_date",
        ] {
            assert!(entry.get(name).is_some(), "{name} is missing: {entry}");
        }
        for name in ["input_modalities", "output_modalities", "tokenizer", "instruct_type"] {
            assert!(entry["architecture"].get(name).is_some(), "architecture.{name} is missing: {entry}");
        }
        for name in ["context_length", "max_completion_tokens", "is_moderated"] {
            assert!(!entry["top_provider"][name].is_null(), "top_provider.{name}: {entry}");
        }
        for name in [
            "prompt",
            "completion",
            "request",
            "image",
            "web_search",
            "internal_reasoning",
            "input_cache_read",
            "input_cache_write",
        ] {
            let price = entry["pricing"][name].as_str().unwrap_or_else(|| panic!("pricing.{name}: {entry}"));
            assert!(is_plain_decimal(price), "pricing.{name} is {price}");
        }
        for name in ["created", "context_length"] {
            assert!(entry[name].is_u64(), "{name}: {entry}");
        }
        assert!(entry["description"].is_string() && entry["links"]["details"].is_string(), "{entry}");
    }
    let chat = gateway.get("/api/v1/models/acme/chat").await.expect(200);
    assert_eq!((&chat["pricing"]["prompt"], &chat["pricing"]["request"]), (&"0.00000015".into(), &"0".into()));
    assert_eq!(chat["supported_parameters"], serde_json::json!(["tools", "tool_choice", "seed"]));
}

#[actix_web::test]
async fn a_known_etag_gives_304_without_a_body() {
    let gateway = gateway().await;
    for path in ["/api/v1/models", "/api/models?limit=2", "/api/v1/models/acme/chat", "/api/v1/providers"] {
        let first = gateway.get(path).await;
        let tag = first.header("etag").unwrap().to_owned();
        assert!(first.header("cache-control").unwrap().contains("max-age=60"), "{path}");
        assert!(first.header("vary").unwrap().contains("User-Agent"), "{path}");
        let again = gateway.call(Method::GET, path, &[("if-none-match", &tag)], None).await;
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag.as_str())), "{path}");
        assert!(again.header("x-request-id").is_some());
        let other = gateway.call(Method::GET, path, &[("if-none-match", "\"other\"")], None).await;
        assert_eq!((other.status, &other.body), (200, &first.body), "{path}");
    }
}

#[actix_web::test]
async fn offset_and_limit_page_without_gaps_or_repeats() {
    let models: String = (0..23).map(|number| simple_model(&format!("acme/m{number:02}"), "acme")).collect();
    let gateway = TestGateway::start(&format!("{}{models}", provider("acme", "http://127.0.0.1:9"))).await;
    let whole = gateway.get("/api/v1/models").await.expect(200);
    let whole: Vec<&str> = column(&whole["data"], "id");
    assert_eq!(whole.len(), 23);
    for limit in [1, 5, 22, 23, 24, 1000] {
        let mut seen: Vec<String> = Vec::new();
        let mut next = Some(format!("/api/v1/models?q=acme&limit={limit}"));
        while let Some(path) = next {
            let page = gateway.get(&path).await.expect(200);
            assert_eq!(page["total_count"], 23, "{path}");
            let ids = column(&page["data"], "id");
            assert!(ids.len() <= limit && !ids.is_empty(), "{path}");
            seen.extend(ids.into_iter().map(str::to_owned));
            next = page["links"]["next"].as_str().map(str::to_owned);
            assert!(next.iter().all(|next| next.contains("q=acme")), "the filter is lost: {next:?}");
        }
        assert_eq!(seen, whole, "limit {limit}");
    }
    let past = gateway.get("/api/v1/models?offset=23").await.expect(200);
    assert_eq!((&past["data"], &past["links"]["next"]), (&Value::Array(Vec::new()), &Value::Null));
    for (query, param) in [("limit=0", "limit"), ("limit=1001", "limit"), ("offset=-1", "offset"), ("limit=x", "limit")]
    {
        let refused = gateway.get(&format!("/api/v1/models?{query}")).await.expect(400);
        assert_eq!(refused["error"]["param"], param, "{query}");
    }
}

#[actix_web::test]
async fn the_client_library_that_needs_pages_gets_them_without_asking() {
    let gateway = gateway().await;
    let agent = ("user-agent", "speakeasy-sdk/typescript 1.3.19 2.0 1.0.0 @openrouter/sdk");
    let paged = gateway.call(Method::GET, "/api/v1/models", &[agent], None).await.expect(200);
    assert_eq!((&paged["total_count"], &paged["links"]["next"]), (&3.into(), &Value::Null));
    assert_eq!(paged["data"].as_array().unwrap().len(), 3);
}

#[actix_web::test]
async fn one_entry_is_found_by_path_by_escaped_slash_and_in_an_envelope() {
    let gateway = gateway().await;
    let bare = gateway.get("/api/v1/models/acme/chat").await.expect(200);
    assert_eq!(bare["id"], "acme/chat");
    assert_eq!(gateway.get("/api/v1/models/acme%2Fchat").await.expect(200), bare);
    assert_eq!(gateway.get("/v1/models/acme%2fchat").await.expect(200), bare);
    assert_eq!(gateway.get("/api/v1/model/acme/chat").await.expect(200)["data"], bare);
    let endpoints = gateway.get("/api/v1/models/acme/chat/endpoints").await.expect(200);
    assert_eq!(endpoints["data"]["id"], "acme/chat");
    let endpoint = &endpoints["data"]["endpoints"][0];
    for name in [
        "name",
        "model_id",
        "model_name",
        "context_length",
        "pricing",
        "provider_name",
        "tag",
        "quantization",
        "max_completion_tokens",
        "max_prompt_tokens",
        "supported_parameters",
        "status",
        "uptime_last_5m",
        "uptime_last_30m",
        "uptime_last_1d",
        "latency_last_30m",
        "throughput_last_30m",
        "supports_implicit_caching",
        "supports_tool_choice",
        "supports_voice_cloning",
        "supports_diarization",
        "native_tools",
        "service_tier",
    ] {
        assert!(endpoint.get(name).is_some(), "{name} is missing: {endpoint}");
    }
    assert_eq!(gateway.get("/api/v1/models/acme%2Fchat/endpoints").await.expect(200), endpoints);
}

fn reason(reply: &Reply) -> String {
    reply.json()["error"]["metadata"]["reason"].as_str().unwrap_or_default().to_owned()
}

#[actix_web::test]
async fn an_unknown_and_a_retired_entry_are_404() {
    let gateway = gateway().await;
    for (path, expected) in [
        ("/api/v1/models/acme/nope", "model_not_found"),
        ("/api/v1/models/nope", "model_not_found"),
        ("/api/v1/model/acme%2Fnope", "model_not_found"),
        ("/api/v1/models/acme/nope/endpoints", "model_not_found"),
        ("/api/v1/models/acme/gone", "model_deprecated"),
    ] {
        let reply = gateway.get(path).await;
        assert_eq!((reply.status, reason(&reply).as_str()), (404, expected), "{path}");
    }
}

#[actix_web::test]
async fn providers_are_listed_with_their_policies() {
    let gateway = gateway().await;
    let list = gateway.get("/api/v1/providers").await.expect(200);
    assert_eq!(column(&list["data"], "slug"), ["acme"]);
    for name in ["name", "privacy_policy_url", "terms_of_service_url", "status_page_url", "headquarters", "datacenters"]
    {
        assert!(list["data"][0].get(name).is_some(), "{name} is missing: {list}");
    }
}
