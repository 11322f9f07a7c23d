//! Every path under every mount: methods, slashes, request ids, and the one shape of an error.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    keyless::{provider, simple_model},
    scripted::Upstream,
    world::{ask, saying},
};

/// What can be read below every mount; `{id}` is a generation.
const PAGES: [&str; 20] = [
    "/models",
    "/models/count",
    "/models/stats",
    "/models/acme/small",
    "/models/acme/small/endpoints",
    "/model/acme/small",
    "/images/models",
    "/providers",
    "/route/explain?generation_id={id}",
    "/route/replay?generation_id={id}",
    "/generation?id={id}",
    "/health/calibration",
    "/health/memory",
    "/health/providers",
    "/health/providers/acme",
    "/health/slo",
    "/key",
    "/auth/key",
    "/credits",
    "/health",
];
/// What can be read at the root too.
const ROOT_PAGES: [&str; 6] = ["/health", "/health/live", "/healthz", "/health/ready", "/readyz", "/metrics"];
/// What is called below every mount.
const CALLS: [&str; 4] = ["/chat/completions", "/images/generations", "/images", "/route/preview"];
const MOUNTS: [&str; 3] = ["/api/v1", "/api", "/v1"];

async fn gateway(upstream: &Upstream, environment: &[(&str, &str)]) -> TestGateway {
    let config = format!("{}{}", provider("acme", &upstream.url("")), simple_model("acme/small", "acme"));
    TestGateway::start_with(&config, environment).await
}

fn upstream() -> Upstream {
    saying("This way.")
}

/// Every page of a gateway.
async fn pages(gateway: &TestGateway) -> Vec<String> {
    let answer = gateway.chat(&ask("acme/small")).await.expect(200);
    let id = answer["id"].as_str().unwrap();
    let mounted = MOUNTS.iter().flat_map(|mount| PAGES.iter().map(move |page| format!("{mount}{page}")));
    mounted.chain(ROOT_PAGES.map(str::to_owned)).map(|page| page.replace("{id}", id)).collect()
}

fn check_error(reply: &Reply, status: u16, reason: &str, what: &str) {
    assert_eq!(reply.status, status, "{what}: {}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/json"), "{what}");
    let body = reply.json();
    let error = &body["error"];
    assert_eq!((&error["code"], &error["metadata"]["reason"]), (&status.into(), &reason.into()), "{what}");
    assert!(error["type"].is_string() && !error["message"].as_str().unwrap().is_empty(), "{what}");
    assert!(error.get("param").is_some() && error["metadata"]["error_type"].is_string(), "{what}");
    assert_eq!(error["metadata"]["request_id"].as_str(), reply.header("x-request-id"), "{what}");
}

#[actix_web::test]
async fn every_page_answers_get_and_head_alike_under_every_mount() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    for page in pages(&gateway).await {
        let get = gateway.get(&page).await;
        assert_eq!(get.status, 200, "{page}: {}", get.text());
        assert!(get.header("x-request-id").is_some(), "{page}");
        let head = gateway.call(Method::HEAD, &page, &[], None).await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{page}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{page}");
    }
}

#[actix_web::test]
async fn a_known_path_with_another_method_is_405_and_names_what_it_takes() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    let pages = pages(&gateway).await;
    let calls: Vec<String> =
        MOUNTS.iter().flat_map(|mount| CALLS.iter().map(move |call| format!("{mount}{call}"))).collect();
    let wrong = [
        (&pages, [Method::DELETE, Method::PUT, Method::PATCH], "GET"),
        (&calls, [Method::GET, Method::DELETE, Method::HEAD], "POST"),
    ];
    for (paths, methods, takes) in wrong {
        for (path, method) in paths.iter().flat_map(|path| methods.iter().map(move |method| (path, method))) {
            let reply = gateway.call(method.clone(), path, &[], None).await;
            let what = format!("{method} {path}");
            let allowed: Vec<&str> = reply.header("allow").unwrap_or_default().split(", ").collect();
            assert!(allowed.contains(&takes) && !allowed.contains(&method.as_str()), "{what}: {allowed:?}");
            assert_eq!(allowed.contains(&"POST"), takes == "POST" || path.contains("/route/explain"), "{what}");
            match *method == Method::HEAD {
                true => assert_eq!(reply.status, 405, "{what}"),
                false => check_error(&reply, 405, "method_not_allowed", &what),
            }
        }
    }
}

#[actix_web::test]
async fn an_unknown_path_is_404_in_the_one_shape_whatever_the_method() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    for path in
        ["/api/v1", "/api/v1/nothing", "/chat/completions", "/api/v2/models", "/favicon.ico", "/%00", "/api/v1/chat"]
    {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let reply = gateway.call(method.clone(), path, &[], None).await;
            check_error(&reply, 404, "unknown_path", &format!("{method} {path}"));
        }
    }
}

/// Claude Code asks below the address in `ANTHROPIC_BASE_URL`, which ends in `/api`, in `/anthropic` or in nothing.
#[actix_web::test]
async fn what_agents_ask_to_learn_whether_the_gateway_is_there_is_200_without_a_key() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    for base in ["", "/", "/api", "/api/", "/anthropic"] {
        for path in [base.to_owned(), format!("{}/api/hello", base.trim_end_matches('/'))] {
            let path = if path.is_empty() { "/" } else { &path };
            let get = gateway.call(Method::GET, path, &[], None).await;
            assert!(get.status == 200 && get.json().is_object(), "{path}: {} {}", get.status, get.text());
            let head = gateway.call(Method::HEAD, path, &[], None).await;
            assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
            let other = gateway.call(Method::DELETE, path, &[], None).await;
            assert_eq!((other.status, other.header("allow")), (405, Some("GET, HEAD")), "{path}");
        }
    }
}

#[actix_web::test]
async fn the_front_page_says_what_this_is_and_its_links_lead_somewhere() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    let page = gateway.get("/").await;
    assert_eq!((page.header("content-type"), page.header("vary")), (Some("application/json"), Some("Accept")));
    let page = page.expect(200);
    assert_eq!(page["name"], "Pointsman");
    let accept = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let html = gateway.call(Method::GET, "/", &accept, None).await;
    assert_eq!((html.status, html.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(html.header("content-security-policy").is_some_and(|policy| policy.starts_with("default-src 'none'")));
    let text = html.text();
    assert!(
        text.contains("/api/v1") && !text.contains("<script") && !text.contains(env!("CARGO_PKG_VERSION")),
        "{text}"
    );
    for link in page["links"].as_object().unwrap().values() {
        let link = link.as_str().unwrap();
        assert!(text.contains(&format!("href=\"{link}\"")), "{link}");
        assert_eq!(gateway.get(&format!("/{link}")).await.status, 200, "{link}");
    }
}

/// Also pages of the Anthropic API that are not here: its clients read errors in its shape.
#[actix_web::test]
async fn an_unknown_path_of_the_anthropic_api_is_404_in_its_shape() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    let headers = [("anthropic-version", "2023-06-01")];
    for path in
        ["/api/v1/messages/batches", "/v1/messages/batches/b_1", "/v1/files", "/v1/files/file_1", "/v1/complete"]
    {
        let reply = gateway.call(Method::POST, path, &headers, None).await;
        let error = reply.expect(404);
        assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("not_found_error")), "{path}");
        assert_eq!(error["request_id"].as_str(), reply.header("request-id"), "{path}");
    }
}

#[actix_web::test]
async fn doubled_and_trailing_slashes_do_not_matter() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    for path in ["/api/v1/models/", "//api//v1///models", "/api/v1/models/acme//small/", "/health/ready/", "/v1/key//"]
    {
        assert_eq!(gateway.get(path).await.status, 200, "{path}");
    }
    let all = gateway.get("/api//models//?output_modalities=all&limit=1").await.expect(200);
    assert_eq!(all["total_count"], 1);
    let body = ask("acme/small");
    for path in ["/api/v1/chat/completions/", "//api/v1//chat/completions", "/v1/chat/completions//"] {
        gateway.post(path, &body).await.expect(200);
    }
}

#[actix_web::test]
async fn the_short_mount_can_be_switched_off() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[("POINTSMAN__SERVER__MOUNT_V1", "false")]).await;
    assert_eq!(gateway.get("/v1/models").await.status, 404);
    assert_eq!(gateway.get("/api/v1/models").await.status, 200);
}

#[actix_web::test]
async fn a_well_formed_request_id_is_echoed_and_any_other_replaced() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    let (longest, longer) = ("x".repeat(128), "x".repeat(129));
    for (sent, echoed) in [("a.B_c-9", true), (&longest, true), (&longer, false), ("with space", false), ("a/b", false)]
    {
        for path in ["/api/v1/models", "/nothing", "/api/v1/generation"] {
            let reply = gateway.call(Method::GET, path, &[("x-request-id", sent)], None).await;
            let id = reply.header("x-request-id").unwrap();
            assert_eq!(id == sent, echoed, "{path} {sent}: {id}");
            assert!(echoed || id.starts_with("req-"), "{id}");
        }
    }
}

#[actix_web::test]
async fn nothing_of_a_call_may_be_kept_by_caches() {
    let upstream = upstream();
    let gateway = gateway(&upstream, &[]).await;
    let chat = gateway.chat(&ask("acme/small")).await;
    let id = chat.header("x-generation-id").unwrap().to_owned();
    let mut replies = vec![chat, gateway.post("/api/v1/route/preview", &Value::Object(Default::default())).await];
    for path in ["/api/v1/key", "/api/v1/credits", "/api/v1/health/providers", "/api/v1/models/stats", "/nothing"] {
        replies.push(gateway.get(path).await);
    }
    for path in [format!("/api/v1/generation?id={id}"), format!("/api/v1/route/explain?id={id}")] {
        replies.push(gateway.get(&path).await);
    }
    for reply in replies {
        assert!(reply.header("cache-control").unwrap_or_default().contains("no-store"), "{}", reply.text());
    }
}

#[actix_web::test]
async fn browsers_are_let_in_from_configured_origins_only() {
    let upstream = upstream();
    let origin = "https://app.example.com";
    let open = gateway(&upstream, &[("POINTSMAN__CORS__ALLOWED_ORIGINS", "[\"https://app.example.com\"]")]).await;
    let preflight = [
        ("origin", origin),
        ("authorization", ""),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    let answer = open.call(Method::OPTIONS, "/api/v1/chat/completions", &preflight, None).await;
    assert!((200..300).contains(&answer.status), "{} {}", answer.status, answer.text());
    assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
    let read = open.call(Method::GET, "/api/v1/models", &[("origin", origin)], None).await;
    assert_eq!((read.status, read.header("access-control-allow-origin")), (200, Some(origin)));
    let exposed = read.header("access-control-expose-headers").unwrap_or_default();
    assert!(exposed.contains("x-request-id") && exposed.contains("x-generation-id"), "{exposed}");
    let refused = open.call(Method::GET, "/api/v1/key", &[("origin", origin), ("authorization", "")], None).await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, Some(origin)));
    let delete = [("origin", origin), ("authorization", ""), ("access-control-request-method", "DELETE")];
    let beyond = open.call(Method::OPTIONS, "/api/v1/models", &delete, None).await;
    assert_eq!(beyond.expect(403)["error"]["metadata"]["reason"], "cors");
    let foreign = open.call(Method::GET, "/api/v1/models", &[("origin", "https://evil.example")], None).await;
    assert_eq!(foreign.header("access-control-allow-origin"), None);

    let closed = gateway(&upstream, &[]).await;
    let read = closed.call(Method::GET, "/api/v1/models", &[("origin", origin)], None).await;
    assert_eq!((read.status, read.header("access-control-allow-origin")), (200, None));
}
