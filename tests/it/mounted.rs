//! The gateway inside an application of somebody else: it answers its own paths and no other.

use actix_web::{
    App, HttpResponse, HttpServer, http::Method, middleware::DefaultHeaders, test, web, web::ServiceConfig,
};
use pointsman::app::server::Gateway;
use serde_json::json;

use crate::{
    enemy::{check_old_stream, old_chat},
    harness::{KEY, Reply, TestGateway, read},
    raw_client::RawClient,
    scripted::{Script, Upstream},
    world::{Model, World, ask, error_of, saying, stream_of},
};

/// An application with a middleware, a page below the gateway's own mounts, and a 404 of its own.
struct Host {
    server: TestGateway,
    gateway: Gateway,
}

impl Host {
    /// With the gateway mounted below `scope`, before or behind the host's own pages.
    async fn start(upstream: &Upstream, scope: &'static str, last: bool, config: &str) -> Host {
        let world =
            World::new().provider("acme", upstream.address()).model(&Model::new("acme/small").at("acme", "0", "0"));
        let world = world.with(config);
        let environment: Vec<(&str, &str)> =
            world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let gateway = Gateway::start(read(world.toml(), &environment)).await.unwrap();
        let mounted = gateway.clone();
        let app = move || {
            let app = App::new().wrap(DefaultHeaders::new().add(("x-served-by", "host")));
            let mount = |app: &mut ServiceConfig| match scope {
                "" => mounted.mount(app),
                _ => drop(app.service(web::scope(scope).configure(|scope| mounted.mount(scope)))),
            };
            let app = if last {
                app.configure(own_pages).configure(mount)
            } else {
                app.configure(mount).configure(own_pages)
            };
            app.default_service(web::to(async || HttpResponse::NotFound().body("the host has no such page")))
        };
        let server = HttpServer::new(app).workers(1).disable_signals().bind("127.0.0.1:0").unwrap();
        let address = server.addrs()[0];
        actix_web::rt::spawn(server.run());
        Host { server: TestGateway::at(address), gateway }
    }

    async fn call(&self, method: Method, path: &str) -> Reply {
        let reply = self.server.call(method, path, &[], None).await;
        assert_eq!(reply.header("x-served-by"), Some("host"), "the host's middleware at {path}");
        reply
    }
}

fn own_pages(app: &mut ServiceConfig) {
    for path in ["/", "/hello", "/api/users", "/api/v1/users", "/v1/users", "/api"] {
        app.route(path, web::get().to(async || "a page of the host"));
    }
}

/// Everywhere in the `App`, and below which scope.
const PLACES: [(&str, bool); 4] = [("", false), ("", true), ("/llm", false), ("/team/{team}", true)];

fn below(scope: &str, path: &str) -> String {
    format!("{}{path}", scope.replace("{team}", "blue"))
}

#[actix_web::test]
async fn a_mounted_gateway_answers_its_own_paths_and_leaves_all_others_to_the_host() {
    for (scope, last) in PLACES {
        let upstream = saying("This way.");
        let host = Host::start(&upstream, scope, last, "").await;
        for path in ["/", "/hello", "/api/users", "/api/v1/users", "/v1/users", "/api"] {
            let reply = host.call(Method::GET, path).await;
            assert_eq!((reply.status, reply.text().as_str()), (200, "a page of the host"), "{scope} {path}");
            assert_eq!(reply.header("x-request-id"), None, "{scope} {path}");
        }
        for path in [
            "/nowhere",
            "/api/v1/nothing",
            "/api/v2/models",
            "/v1",
            "/favicon.ico",
            "/health/nothing",
            "/api/hello",
            "/anthropic",
            "/docs",
        ] {
            for path in [path.to_owned(), below(scope, path)] {
                for method in [Method::GET, Method::POST, Method::OPTIONS] {
                    let reply = host.call(method, &path).await;
                    assert_eq!(
                        (reply.status, reply.text().as_str()),
                        (404, "the host has no such page"),
                        "{scope} {path}"
                    );
                }
            }
        }
        for path in
            ["/api/v1/models", "/api/models", "/v1/models/acme/small", "/api/v1/key", "/health", "/readyz", "/metrics"]
        {
            let path = below(scope, path);
            let get = host.call(Method::GET, &path).await;
            assert_eq!(get.status, 200, "{path}: {}", get.text());
            assert!(get.header("x-request-id").is_some(), "{path}");
            let head = host.call(Method::HEAD, &path).await;
            assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
            for method in [Method::DELETE, Method::OPTIONS] {
                let refused = host.call(method, &path).await;
                assert_eq!(error_of(&refused, 405)["metadata"]["reason"], "method_not_allowed");
                assert_eq!(refused.header("allow"), Some("GET, HEAD"), "{path}");
            }
        }
        let chat = host.server.post(&below(scope, "/api/v1/chat/completions"), &ask("acme/small")).await.expect(200);
        assert_eq!(chat["choices"][0]["message"]["content"], "This way.");
        let unknown = host.call(Method::GET, &below(scope, "/api/v1/model/acme/none")).await;
        assert_eq!(error_of(&unknown, 404)["metadata"]["reason"], "model_not_found", "{scope}");
        if !scope.is_empty() {
            assert_eq!(host.call(Method::GET, "/api/v1/models").await.status, 404, "outside of {scope}");
        }
        host.gateway.close().await;
    }
}

#[actix_web::test]
async fn slashes_too_many_do_not_lead_a_mounted_gateway_astray() {
    let upstream = saying("This way.");
    let host = Host::start(&upstream, "/team/{team}", false, "").await;
    for (path, status) in [
        ("/team/blue/api/v1/models//", 404),
        ("/team/blue//api/v1/models", 404),
        ("/team/blue/api/v1/model/acme//small/", 404),
        ("/team/blue/api/v1/models/acme/small//////////endpoints", 404),
        ("//team//blue/api/v1/models", 404),
    ] {
        assert_eq!(host.call(Method::GET, path).await.status, status, "{path}");
    }
    assert_eq!(host.call(Method::GET, "/team/blue/api/v1/models").await.status, 200);
    host.gateway.close().await;
}

#[actix_web::test]
async fn preflights_for_a_mounted_gateway_are_answered_for_its_own_paths_only() {
    let upstream = saying("This way.");
    let host = Host::start(&upstream, "/llm", true, "[cors]\nallowed_origins = [\"https://app.example.com\"]").await;
    let preflight = [
        ("origin", "https://app.example.com"),
        ("authorization", ""),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    let ours = host.server.call(Method::OPTIONS, "/llm/api/v1/chat/completions", &preflight, None).await;
    assert_eq!((ours.status, ours.header("access-control-allow-origin")), (200, Some("https://app.example.com")));
    let foreign = host.server.call(Method::OPTIONS, "/nowhere", &preflight, None).await;
    assert_eq!((foreign.status, foreign.header("access-control-allow-origin")), (404, None));
    host.gateway.close().await;
}

#[actix_web::test]
async fn a_stream_of_a_mounted_gateway_reaches_an_http_1_0_client_without_chunks() {
    let upstream = Upstream::start([Script::answering(stream_of(&["This ", "way."]))]);
    let host = Host::start(&upstream, "", true, "").await;
    let mut client = RawClient::connect(host.server.address).await;
    let mut body = ask("acme/small");
    body["stream"] = json!(true);
    client.say(old_chat(&body, "")).await;
    let answer = client.rest().await;
    check_old_stream(&answer);
    host.gateway.close().await;
}

#[actix_web::test]
async fn a_mounted_gateway_records_its_calls_after_the_host_has_dropped_its_own_clone() {
    let upstream = saying("This way.");
    let world = World::new().provider("acme", upstream.address()).model(&Model::new("acme/small").at("acme", "0", "0"));
    let environment: Vec<(&str, &str)> =
        world.environment().iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let gateway = Gateway::start(read(world.toml(), &environment)).await.unwrap();
    let app = test::init_service(App::new().configure(|app| gateway.mount(app))).await;
    drop(gateway);
    let authorization = ("authorization", format!("Bearer {KEY}"));
    let chat = test::TestRequest::post().uri("/api/v1/chat/completions").insert_header(authorization.clone());
    let reply = test::call_service(&app, chat.set_json(ask("acme/small")).to_request()).await;
    assert_eq!(reply.status(), 200);
    let id = reply.headers().get("x-generation-id").unwrap().to_str().unwrap().to_owned();
    let lookup =
        test::TestRequest::get().uri(&format!("/api/v1/generation?id={id}")).insert_header(authorization).to_request();
    assert_eq!(test::call_service(&app, lookup).await.status(), 200);
}
