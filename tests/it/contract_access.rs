//! Who may do what, as far as keys come from the configuration.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{KEY, Reply, TestGateway},
    keyless::{provider, simple_model},
    scripted::Upstream,
    world::{and, ask, saying},
};

/// One key per kind, all in one gateway.
const KEYS: [(&str, &str, &str); 5] = [
    ("DISABLED", "sk-disabled-0a1b2c3d4e5f", "disabled = true"),
    ("EXPIRED", "sk-expired-0a1b2c3d4e5f", "expires_at = 2020-01-31T12:00:00Z"),
    ("CALLER", "sk-caller-0a1b2c3d4e5f", "scopes = [\"inference\"]"),
    ("READER", "sk-reader-0a1b2c3d4e5f", "scopes = [\"read\"]\nexpires_at = 2099-01-31"),
    ("ADMIN", "sk-admin-0a1b2c3d4e5f", "scopes = [\"admin\"]"),
];

fn key(kind: &str) -> &'static str {
    KEYS.iter().find(|(name, ..)| *name == kind).unwrap().1
}

async fn gateway(upstream: &Upstream, environment: &[(&str, &str)]) -> TestGateway {
    let mut config = format!("{}{}", provider("acme", &upstream.url("")), simple_model("acme/small", "acme"));
    for (name, _, lines) in KEYS {
        config.push_str(&format!("[[keys]]\nname = \"{name}\"\nenv = \"{name}\"\n{lines}\n"));
    }
    let keys = KEYS.iter().map(|(name, key, _)| (*name, *key));
    TestGateway::start_with(&config, &keys.chain(environment.iter().copied()).collect::<Vec<_>>()).await
}

fn upstream() -> Upstream {
    saying("This way.")
}

async fn get(gateway: &TestGateway, path: &str, headers: &[(&str, &str)]) -> Reply {
    gateway.call(Method::GET, path, headers, None).await
}

/// Whether a reply is a proper 401 with this reason.
fn check_401(reply: &Reply, reason: &str, what: &str) {
    assert_eq!(reply.status, 401, "{what}: {}", reply.text());
    assert!(reply.header("www-authenticate").unwrap().starts_with("Bearer"), "{what}");
    let error = &reply.json()["error"];
    assert_eq!((&error["code"], &error["type"]), (&401.into(), &"authentication_error".into()), "{what}");
    assert_eq!(error["metadata"]["reason"], reason, "{what}");
}

#[actix_web::test]
async fn missing_malformed_unknown_disabled_and_expired_keys_are_401() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    let bearer = |kind| format!("Bearer {}", key(kind));
    let (disabled, expired, mine) = (bearer("DISABLED"), bearer("EXPIRED"), format!("Bearer {KEY}"));
    let cases: [(&[(&str, &str)], &str); 10] = [
        (&[("authorization", "")], "missing_key"),
        (&[("authorization", "Bearer ")], "missing_key"),
        (&[("authorization", KEY)], "invalid_key"),
        (&[("authorization", "Basic dXNlcjpwYXNz")], "invalid_key"),
        (&[("authorization", "Bearer sk-nobody-0000111122223333")], "invalid_key"),
        (&[("authorization", &disabled)], "disabled_key"),
        (&[("authorization", &expired)], "expired_key"),
        (&[("authorization", &mine), ("x-api-key", key("CALLER"))], "invalid_key"),
        (&[("authorization", &mine), ("authorization", &mine)], "invalid_key"),
        (&[("authorization", ""), ("x-api-key", "sk-nobody-0000111122223333")], "invalid_key"),
    ];
    for (headers, reason) in cases {
        for path in [
            "/api/v1/key",
            "/api/v1/health/providers",
            "/api/v1/health/slo",
            "/api/v1/models/stats",
            "/api/v1/generation?id=x",
        ] {
            // A scheme without a token loses its space on the way.
            let reply = get(&gateway, path, headers).await;
            let reason = if headers[0].1 == "Bearer " { "invalid_key" } else { reason };
            check_401(&reply, reason, &format!("{path} {headers:?}"));
        }
        let reply = gateway.call(Method::POST, "/api/v1/chat/completions", headers, Some(vec![b' '; 64])).await;
        assert_eq!(reply.status, 401, "{headers:?}");
    }
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn a_key_may_come_in_either_header_with_a_scheme_in_any_case_and_the_other_one_empty() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    let (lower, upper) = (format!("bearer {KEY}"), format!("BEARER  {KEY}"));
    let cases: [&[(&str, &str)]; 6] = [
        &[("authorization", &lower)],
        &[("authorization", &upper)],
        &[("authorization", ""), ("x-api-key", KEY)],
        &[("authorization", &lower), ("x-api-key", KEY)],
        &[("authorization", "Bearer "), ("x-api-key", KEY)],
        &[("authorization", &lower), ("x-api-key", "")],
    ];
    for headers in cases {
        assert_eq!(get(&gateway, "/api/v1/key", headers).await.expect(200)["data"]["label"], "test", "{headers:?}");
    }
}

#[actix_web::test]
async fn a_scope_opens_its_own_pages_and_admin_all_that_are_read() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    let chat = ask("acme/small");
    let id = gateway.chat(&chat).await.expect(200)["id"].as_str().unwrap().to_owned();
    let pages = [
        ("/api/v1/health/providers".to_owned(), None, "read"),
        ("/api/v1/health/slo".to_owned(), None, "read"),
        ("/api/v1/health/quality".to_owned(), None, "read"),
        ("/api/v1/health/splits".to_owned(), None, "read"),
        ("/api/v1/health/shadows".to_owned(), None, "read"),
        ("/api/v1/models/stats".to_owned(), None, "read"),
        ("/api/v1/health/calibration".to_owned(), None, "read"),
        ("/api/v1/health/memory".to_owned(), None, "read"),
        ("/api/v1/chat/completions".to_owned(), Some(&chat), "inference"),
        ("/api/v1/route/preview".to_owned(), Some(&chat), "inference"),
        (format!("/api/v1/generation?id={id}"), None, "read"),
        (format!("/api/v1/route/explain?id={id}"), None, "read"),
        ("/api/v1/key".to_owned(), None, ""),
    ];
    for (path, body, scope) in &pages {
        for (kind, own) in [("CALLER", "inference"), ("READER", "read"), ("ADMIN", "admin")] {
            let bearer = format!("Bearer {}", key(kind));
            let headers = [("authorization", bearer.as_str())];
            let reply = match body {
                Some(body) => gateway.call(Method::POST, path, &headers, Some(body.to_string().into_bytes())).await,
                None => get(&gateway, path, &headers).await,
            };
            if scope.is_empty() || own == *scope || (own == "admin" && *scope == "read") {
                // A record of another key is not there for a reader.
                let hidden = kind == "READER" && path.contains("id=");
                assert_eq!(reply.status, if hidden { 404 } else { 200 }, "{kind} {path}: {}", reply.text());
                continue;
            }
            let error = &reply.expect(403)["error"];
            assert_eq!(error["type"], "permission_error", "{kind} {path}");
            assert_eq!(error["metadata"]["error_type"], "permission_denied");
            assert_eq!(error["metadata"]["reason"], "scope");
        }
    }
}

#[actix_web::test]
async fn public_pages_ignore_a_wrong_key() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    for path in [
        "/api/v1/models",
        "/api/models",
        "/api/v1/models/count",
        "/api/v1/models/acme/small",
        "/api/v1/model/acme/small",
        "/api/v1/models/acme/small/endpoints",
        "/api/v1/providers",
        "/api/v1/images/models",
        "/health",
        "/health/live",
        "/health/ready",
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/v1/health",
    ] {
        for value in ["", "Bearer sk-nobody-0000111122223333", "nonsense"] {
            assert_eq!(get(&gateway, path, &[("authorization", value)]).await.status, 200, "{path} {value}");
        }
    }
}

#[actix_web::test]
async fn a_closed_catalog_wants_a_key_and_is_not_for_shared_caches() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[("POINTSMAN__AUTH__PUBLIC_CATALOG", "false")]).await;
    for path in
        ["/api/v1/models", "/api/models", "/api/v1/models/count", "/api/v1/models/acme/small", "/api/v1/providers"]
    {
        check_401(&get(&gateway, path, &[("authorization", "")]).await, "missing_key", path);
        let open = gateway.get(path).await;
        assert_eq!(open.status, 200, "{path}");
        assert!(open.header("cache-control").unwrap().starts_with("private"), "{path}");
    }
    assert_eq!(get(&gateway, "/health/ready", &[("authorization", "")]).await.status, 200);
}

#[actix_web::test]
async fn without_keys_every_caller_is_anonymous() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[("POINTSMAN__AUTH__MODE", "none")]).await;
    let body = ask("acme/small").to_string().into_bytes();
    let nobody = [("authorization", ""), ("content-type", "application/json")];
    let answer = gateway.call(Method::POST, "/api/v1/chat/completions", &nobody, Some(body)).await.expect(200);
    let path = format!("/api/v1/generation?id={}", answer["id"].as_str().unwrap());
    for value in ["", "Bearer sk-nobody-0000111122223333", "nonsense"] {
        assert_eq!(get(&gateway, &path, &[("authorization", value)]).await.status, 200, "{value}");
    }
    assert_eq!(get(&gateway, "/api/v1/key", &nobody[..1]).await.expect(200)["data"]["label"], "anonymous");
}

#[actix_web::test]
async fn the_key_page_has_the_keys_a_client_library_wants() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    let cost = gateway.chat(&ask("acme/small")).await.expect(200)["usage"]["cost"].clone();
    for path in ["/api/v1/key", "/api/v1/auth/key", "/api/key"] {
        let data = gateway.get(path).await.expect(200)["data"].clone();
        for name in [
            "label",
            "limit",
            "limit_remaining",
            "limit_reset",
            "usage",
            "usage_daily",
            "usage_weekly",
            "usage_monthly",
            "byok_usage",
            "byok_usage_daily",
            "byok_usage_weekly",
            "byok_usage_monthly",
            "include_byok_in_limit",
            "is_free_tier",
            "is_management_key",
            "is_provisioning_key",
            "creator_user_id",
            "organization_id",
            "workspace_id",
            "allowed_data_regions",
            "free_model_daily_requests",
            "rate_limit",
            "budgets",
            "effective_budget",
        ] {
            assert!(data.get(name).is_some(), "{path}: {name} is missing: {data}");
        }
        assert_eq!((&data["usage"], &data["usage_daily"]), (&cost, &cost), "{path}");
        assert!(!data.to_string().contains(KEY), "{path}");
    }
    let reader = format!("Bearer {}", key("READER"));
    let data = get(&gateway, "/api/v1/key", &[("authorization", &reader)]).await.expect(200);
    assert_eq!(data["data"]["expires_at"], "2099-01-31T00:00:00Z");
    assert_eq!(data["data"]["usage"], 0);
    let credits = gateway.get("/api/v1/credits").await.expect(200);
    assert_eq!(credits["data"], json!({"total_credits": 0, "total_usage": cost}));
}

#[actix_web::test]
async fn a_key_with_a_model_list_cannot_be_widened_by_a_request() {
    let upstream = upstream();
    let lines = "[[keys]]\nname = \"narrow\"\nenv = \"NARROW\"\nallowed_models = [\"acme/*\"]\nblocked_models = [\"acme/large\"]\n";
    let config = [
        provider("acme", &upstream.url("")),
        ["acme/small", "acme/large", "bolt/small"].map(|id| simple_model(id, "acme")).concat(),
        lines.to_owned(),
    ];
    let gateway = TestGateway::start_with(&config.concat(), &[("NARROW", "sk-narrow-0a1b2c3d4e5f")]).await;
    let chat = async |body: Value| {
        let headers = [("authorization", "Bearer sk-narrow-0a1b2c3d4e5f"), ("content-type", "application/json")];
        gateway.call(Method::POST, "/api/v1/chat/completions", &headers, Some(body.to_string().into_bytes())).await
    };
    let widen = json!({"allowed_models": ["*"]});
    assert_eq!(chat(and(ask("service/auto"), &widen)).await.expect(200)["model"], "acme/small");
    for model in ["acme/large", "bolt/small"] {
        let refused = chat(and(ask(model), &widen)).await.expect(403);
        assert_eq!(refused["error"]["metadata"]["reason"], "model_not_allowed_for_key", "{model}");
    }
}
