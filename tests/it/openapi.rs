//! `/openapi.json` and `/docs` of both listeners, compared with the routes and with real answers.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{KEY, Reply, TestGateway},
    process::Process,
    schema,
};

const ADMIN_KEY: &str = "sk-admin-0123456789abcdef";

const ENVIRONMENT: [(&str, &str); 7] = [
    ("POINTSMAN__SIMULATION__MODE", "on"),
    ("POINTSMAN__SERVER__BIND", "127.0.0.1:0"),
    ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0"),
    ("POINTSMAN__SERVER__LEGACY_COMPLETIONS", "true"),
    ("TEST_KEY", KEY),
    ("ADMIN_KEY", ADMIN_KEY),
    (
        "POINTSMAN__KEYS",
        "[{ name = \"test\", env = \"TEST_KEY\" }, \
          { name = \"admin\", env = \"ADMIN_KEY\", scopes = [\"inference\", \"read\", \"admin\"] }]",
    ),
];

/// A gateway with both listeners, and their documents.
pub(crate) struct Both {
    _process: Process,
    _folder: Folder,
    pub(crate) inference: Described,
    pub(crate) admin: Described,
}

pub(crate) struct Described {
    gateway: TestGateway,
    pub(crate) document: Value,
}

impl Described {
    async fn of(gateway: TestGateway) -> Described {
        let document = gateway.call(Method::GET, "/openapi.json", &[], None).await.expect(200);
        Described { gateway, document }
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Reply {
        let key = format!("Bearer {ADMIN_KEY}");
        let headers = [("authorization", key.as_str()), ("content-type", "application/json")];
        let body = body.map(|body| body.to_string().into_bytes());
        self.gateway.call(method, path, &headers, body).await
    }

    /// Calls a path, and fails unless the answer is as described.
    async fn conforms(&self, method: Method, described: &str, path: &str, body: Option<&Value>) -> Reply {
        let reply = self.call(method.clone(), path, body).await;
        let operation = &self.document["paths"][described][method.as_str().to_ascii_lowercase()];
        assert!(operation.is_object(), "{method} {described} is not described");
        let answers = &operation["responses"];
        let status = reply.status.to_string();
        let answer = answers.get(&status).unwrap_or(&answers["default"]);
        let kind = reply.header("content-type").unwrap_or_default();
        let Some(content) = answer["content"].as_object().and_then(|content| {
            let of_kind = |name: &str| kind.starts_with(name.trim_end_matches('*'));
            content.iter().find(|(name, _)| of_kind(name)).map(|(_, content)| content)
        }) else {
            panic!("{method} {path}: {status} of type {kind} is not described: {}", reply.text())
        };
        if kind.starts_with("application/json")
            && let Some(fault) = schema::fault(&reply.json(), &content["schema"], &self.document)
        {
            panic!("{method} {path}: {fault}\n{:#}", reply.json());
        }
        reply
    }
}

/// The address of the admin listener in the greeting of a process.
pub(crate) fn admin_address(process: &Process) -> TestGateway {
    let said = process.stdout();
    let line = said.lines().find_map(|line| line.trim().strip_prefix("Admin  ")).expect("an admin listener");
    let address = line.trim().trim_start_matches("http://").trim_end_matches("/api/v1/admin");
    TestGateway::at(address.parse().unwrap())
}

pub(crate) async fn both() -> Both {
    let folder = Folder::new();
    let data = folder.at("data");
    let ledger = [("POINTSMAN__LEDGER__DURABILITY", "group"), ("POINTSMAN__LEDGER__DATA_DIR", data.to_str().unwrap())];
    let process = Process::start(&[], &[&ENVIRONMENT[..], &ledger].concat());
    let inference = Described::of(process.gateway()).await;
    let admin = Described::of(admin_address(&process)).await;
    Both { inference, admin, _process: process, _folder: folder }
}

/// Every documented path with its methods; below the first server of the path, else of the document.
fn documented(document: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let paths = document["paths"].as_object().unwrap().iter().map(|(path, item)| {
        let servers = item.get("servers").unwrap_or(&document["servers"]);
        let base = servers[0]["url"].as_str().unwrap().trim_end_matches('/');
        let methods = item.as_object().unwrap().keys().filter(|name| *name != "servers");
        (format!("{base}{path}"), methods.map(|name| name.to_ascii_uppercase()).collect())
    });
    paths.collect()
}

/// The patterns in the body of a function of the file of routes.
fn patterns(function: &str) -> Vec<String> {
    let source = include_str!("../../src/http/routes.rs");
    let (_, rest) = source.split_once(&format!("fn {function}(")).expect("the function");
    let (body, _) = rest.split_once("\n}\n").expect("its end");
    let pattern = |rest: &str| rest.split('"').next().unwrap_or_default().replace("{id:.+}", "{id}");
    let found: BTreeSet<String> = body.split("(&at(\"").skip(1).map(pattern).collect();
    assert!(!found.is_empty(), "{function}");
    found.into_iter().collect()
}

/// What the routes answer, asked of the server: a path of the kind with a method that it has not names the others.
async fn served(described: &Described, functions: &[(&str, &str)]) -> BTreeMap<String, BTreeSet<String>> {
    let mut served = BTreeMap::new();
    for (prefix, function) in functions {
        for pattern in patterns(function) {
            let path = format!("{prefix}{pattern}");
            let filled = path.replace("{id}", "meadow/small").replace(['{', '}'], "");
            let reply = described.call(Method::TRACE, &filled, None).await;
            assert_eq!(reply.status, 405, "{path}: {}", reply.text());
            let methods = reply.header("allow").unwrap().split(", ").filter(|name| *name != "HEAD");
            served.insert(path, methods.map(str::to_owned).collect());
        }
    }
    served
}

#[actix_web::test]
async fn every_route_is_in_the_document_of_its_listener_and_the_other_way_round() {
    let Both { inference, admin, .. } = &both().await;
    let shared = [("", "health_pages"), ("", "documents"), ("/api/v1", "key_pages")];
    let routes = served(inference, &[&shared[..], &[("/api/v1", "resources")]].concat()).await;
    assert_eq!(documented(&inference.document), routes);
    let routes = served(admin, &[&shared[..], &[("/api/v1/admin", "admin_pages")]].concat()).await;
    assert_eq!(documented(&admin.document), routes);
}

#[actix_web::test]
async fn every_server_that_a_document_names_answers_its_paths() {
    let Both { inference, admin, .. } = &both().await;
    for described in [inference, admin] {
        for (path, item) in described.document["paths"].as_object().unwrap() {
            let servers = item.get("servers").unwrap_or(&described.document["servers"]);
            for server in servers.as_array().unwrap() {
                let path = format!("{}{path}", server["url"].as_str().unwrap().trim_end_matches('/'));
                let filled = path.replace("{id}", "meadow/small").replace(['{', '}'], "");
                assert_eq!(described.call(Method::TRACE, &filled, None).await.status, 405, "{path}");
            }
        }
    }
}

#[actix_web::test]
async fn every_answer_fits_its_schema() {
    let Both { inference, admin, .. } = &both().await;
    let chat =
        json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Which way?"}], "max_tokens": 20});
    let post = async |described: &str, body: &Value| {
        inference.conforms(Method::POST, described, &format!("/api/v1{described}"), Some(body)).await
    };
    let id = post("/chat/completions", &chat).await.expect(200)["id"].as_str().unwrap().to_owned();
    post("/messages", &chat).await.expect(200);
    post("/messages/count_tokens", &chat).await.expect(200);
    let input = json!({"model": "meadow/small", "input": "Hello"});
    post("/responses", &input).await.expect(200);
    post("/responses/input_tokens", &input).await.expect(200);
    let text = json!({"model": "meadow/small", "prompt": "Once", "max_tokens": 20});
    post("/completions", &text).await.expect(400);
    post("/embeddings", &input).await.expect(400);
    let image = json!({"model": "lantern/canvas", "prompt": "A cat"});
    post("/images/generations", &image).await.expect(200);
    post("/images", &image).await.expect(200);
    post("/route/preview", &chat).await.expect(200);
    post("/route/explain", &json!({"generation_id": id})).await.expect(200);
    post("/chat/completions", &json!({"messages": 1})).await.expect(400);
    let feedback = format!("/api/v1/generations/{id}/feedback");
    let described = "/generations/{generation}/feedback";
    inference.conforms(Method::POST, described, &feedback, Some(&json!({"value": true}))).await.expect(202);
    post("/feedback", &json!([{"generation_id": id, "value": 0.5, "source": "judge"}])).await.expect(202);
    inference.conforms(Method::DELETE, described, &format!("{feedback}?source=user"), None).await.expect(200);

    let visited = all_pages(inference, &id).await + all_pages(admin, &id).await;
    assert!(visited > 40, "{visited}");
    keys_and_accounts(inference, admin).await;
}

/// Reads every page of a listener, and gives their number.
async fn all_pages(described: &Described, id: &str) -> usize {
    let mut visited = 0;
    for (path, item) in described.document["paths"].as_object().unwrap() {
        if item.get("get").is_none()
            || path.contains("{hash}")
            || path.contains("/files/")
            || path.ends_with("{diff}")
            || path.ends_with("{regret}")
            || path.ends_with("/admin/live")
        {
            continue;
        }
        let base = item.get("servers").unwrap_or(&described.document["servers"])[0]["url"].as_str().unwrap();
        let query = match path.as_str() {
            "/route/explain" | "/route/replay" => format!("?generation_id={id}"),
            "/generation" => format!("?id={id}"),
            _ => String::new(),
        };
        let rated = path.replace("{generation}", id);
        let filled = rated.replace("{id}", "meadow/small").replace("{slug}", "sim-swift").replace("{name}", "test");
        let filled = format!("{}{filled}{query}", base.trim_end_matches('/'));
        let reply = described.conforms(Method::GET, path, &filled, None).await;
        assert_eq!(reply.status, 200, "{filled}: {}", reply.text());
        visited += 1;
    }
    visited
}

/// The pages of a listener that have query parameters and need no name in their path.
fn pages_with_parameters(document: &Value, id: &str) -> Vec<(String, Vec<Value>)> {
    let paths = document["paths"].as_object().unwrap().iter().filter(|(path, _)| !path.contains('{'));
    let pages = paths.filter_map(|(path, item)| {
        let parameters = item["get"]["parameters"].as_array()?.iter().filter(|one| one["in"] == "query");
        let base = item.get("servers").unwrap_or(&document["servers"])[0]["url"].as_str().unwrap();
        let named = if ["/generation", "/route/explain", "/route/replay"].contains(&path.as_str()) { id } else { "" };
        Some((format!("{}{path}?{named}", base.trim_end_matches('/')), parameters.cloned().collect()))
    });
    pages.filter(|(_, parameters): &(_, Vec<Value>)| !parameters.is_empty()).collect()
}

#[actix_web::test]
async fn every_query_parameter_counts_as_absent_when_it_is_empty_and_takes_just_what_is_described() {
    let Both { inference, admin, .. } = &both().await;
    let chat = json!({"model": "meadow/small", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 20});
    let answer = inference.call(Method::POST, "/api/v1/chat/completions", Some(&chat)).await.expect(200);
    let id = format!("id={}", answer["id"].as_str().unwrap());
    let mut tried = 0;
    for described in [inference, admin] {
        for (page, parameters) in pages_with_parameters(&described.document, &id) {
            let plain = described.call(Method::GET, &page, None).await;
            assert_eq!(plain.status, 200, "{page}: {}", plain.text());
            for parameter in parameters {
                let (name, schema) = (parameter["name"].as_str().unwrap(), &parameter["schema"]);
                let status = async |value: &str| {
                    described.call(Method::GET, &format!("{page}&{name}={value}"), None).await.status
                };
                if !page.ends_with(&format!("?{id}")) || name == "why_not" {
                    assert_eq!(status("").await, 200, "{page} {name}");
                }
                let integers = [schema["minimum"].as_i64(), schema["maximum"].as_i64()];
                let mut good: Vec<String> = integers.iter().flatten().map(i64::to_string).collect();
                good.extend(
                    schema["enum"].as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()),
                );
                if schema["$ref"].is_string() {
                    good.extend(["2026-11-23T06:00:00Z", "2026-11-23", "0"].map(str::to_owned));
                }
                // Sums are kept for a range of times only, and of endpoints for an hour.
                good.retain(|_| !page.contains("activity") || !matches!(name, "since" | "until"));
                let beyond = [integers[0].map(|least| least - 1), integers[1].map(|most| most + 1)];
                let mut bad: Vec<String> = beyond.into_iter().flatten().map(|number| number.to_string()).collect();
                if schema["enum"].is_array() || schema["type"] == "integer" || schema["type"] == "boolean" {
                    bad.push("nothing-of-this".to_owned());
                }
                for value in good {
                    assert_eq!(status(&value).await, 200, "{page} {name}={value}");
                    tried += 1;
                }
                for value in bad {
                    assert_eq!(status(&value).await, 400, "{page} {name}={value}");
                    tried += 1;
                }
            }
        }
    }
    assert!(tried > 80, "{tried}");
    for name in ["owner", "key", "older_than_secs"] {
        let path = format!("/api/v1/admin/ledger/records?older_than_secs=4000000000&{name}=");
        let refused = admin.call(Method::DELETE, &path, None).await.expect(400);
        assert_eq!(refused["error"]["param"], name);
    }
}

/// The calls that change something, in an order in which each finds what it needs.
async fn keys_and_accounts(inference: &Described, admin: &Described) {
    let named = json!({"name": "described"});
    let created = inference.conforms(Method::POST, "/keys", "/api/v1/keys", Some(&named)).await.expect(201);
    let path = format!("/api/v1/keys/{}", created["data"]["hash"].as_str().unwrap());
    inference.conforms(Method::GET, "/keys", "/api/v1/keys", None).await.expect(200);
    inference.conforms(Method::GET, "/keys/{hash}", &path, None).await.expect(200);
    let change = json!({"disabled": true});
    inference.conforms(Method::PATCH, "/keys/{hash}", &path, Some(&change)).await.expect(200);
    let rotation = format!("{path}/rotate");
    inference.conforms(Method::POST, "/keys/{hash}/rotate", &rotation, None).await.expect(200);
    inference.conforms(Method::DELETE, "/keys/{hash}", &path, None).await.expect(200);
    let below = "/api/v1/admin";
    for kind in ["accounts", "teams"] {
        let described = format!("{below}/{kind}/{{name}}");
        let path = format!("{below}/{kind}/described");
        admin.conforms(Method::PUT, &described, &path, Some(&json!({}))).await.expect(200);
        admin.conforms(Method::DELETE, &described, &path, None).await.expect(200);
    }
    for change in ["disable", "enable"] {
        let described = format!("{below}/keys/{{name}}/{change}");
        admin.conforms(Method::POST, &described, &format!("{below}/keys/test/{change}"), None).await.expect(200);
    }
    let path = format!("{below}/reload");
    admin.conforms(Method::POST, &path, &path, None).await.expect(200);
    let path = format!("{below}/ledger/records");
    admin.conforms(Method::DELETE, &path, &path, None).await.expect(400);
}

#[actix_web::test]
async fn the_page_is_shown_without_a_key_under_a_policy_that_allows_only_its_own_style() {
    let Both { inference, admin, .. } = &both().await;
    for (described, path) in [(inference, "/chat/completions"), (admin, "/api/v1/admin/reload")] {
        let page = described.gateway.call(Method::GET, "/docs", &[], None).await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert!(page.text().contains(path) && page.text().matches("<style>").count() == 1);
    }
}

/// The reasons that the sources of the errors give.
fn reasons_of_the_code() -> BTreeSet<String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("src/base/error.rs")];
    files.extend(std::fs::read_dir(root.join("src/base/error")).unwrap().map(|entry| entry.unwrap().path()));
    // `.because("…")` and `.error("…"`, with a choice or without, `not_found("…"`, `payment_required(…, "…")`, and matches that
    // give ("reason", "Message."), (CLASS, "reason", message) or ((STATUS, "error_type", "reason"), "Message.").
    let patterns = [
        r#"(?:because|error)\(\s*(?:if \w+ \{ )?"([a-z_]+)""#,
        r#"error\(if \w+ \{ "[a-z_]+" \} else \{ "([a-z_]+)" \}"#,
        r#"not_found\(\s*"([a-z_]+)""#,
        r#"\(\s*"([a-z_]+)",\s*"[A-Z]"#,
        r#"\(class::[A-Z_]+, "([a-z_]+)""#,
        r#""[a-z_]+",\s*"([a-z_]+)"\)"#,
        r#"payment_required\([^"]*"([a-z_]+)"\)"#,
    ];
    let mut reasons = BTreeSet::new();
    let mut take = |text: &str, pattern: &str| {
        let found = regex::Regex::new(pattern).unwrap();
        reasons.extend(found.captures_iter(text).map(|found| found[1].to_owned()));
    };
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        patterns.iter().for_each(|pattern| take(text, pattern));
        if file.ends_with("budget.rs") {
            take(text, r#"=> "([a-z_]+)","#);
        }
    }
    let text = std::fs::read_to_string(root.join("crates/domain/src/invalid.rs")).unwrap();
    let (_, names) = text.split_once("fn as_str").unwrap();
    take(names.split_once("fn error_type").unwrap().0, r#"=> "([a-z_]+)""#);
    reasons
}

#[actix_web::test]
async fn the_reasons_of_errors_in_the_documents_are_those_of_the_code() {
    let Both { inference, admin, .. } = &both().await;
    let reasons = reasons_of_the_code();
    assert!(reasons.len() > 50 && reasons.contains("key_limit") && reasons.contains("deadline"), "{reasons:?}");
    for described in [inference, admin] {
        let metadata =
            &described.document["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["metadata"];
        let listed = metadata["properties"]["reason"]["enum"].as_array().unwrap().iter();
        let listed: BTreeSet<String> = listed.map(|reason| reason.as_str().unwrap().to_owned()).collect();
        let (missing, foreign) = (reasons.difference(&listed), listed.difference(&reasons));
        assert!(
            listed == reasons,
            "missing {:?}, in no code {:?}",
            missing.collect::<Vec<_>>(),
            foreign.collect::<Vec<_>>()
        );
    }
}
