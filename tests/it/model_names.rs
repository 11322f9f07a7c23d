//! What a name of a model means: the same at every door. First an alias of the key, then a model or alias of the catalog, then,
//! for clients of the Messages API, `[messages] models` and the names of its providers.

use actix_web::http::Method;
use pointsman::app::cli::summary;
use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::{TestGateway, read},
    issued_keys::{ADMIN, call, issue, world},
    scripted::Upstream,
    world::{World, always, completion, error_of, saying},
};

const KEY: &str = "sk-aliased-0123456789abcdef";

/// A dear model at a provider of the Messages API, and a cheap one of each kind with a dear twin at a chat provider. The key has
/// aliases that are called as the dear ones, upstream or here, and mean the cheap ones.
async fn gateway(dear: &Upstream, cheap: &Upstream) -> TestGateway {
    let model = |id: &str, output: &str, provider: &str, upstream: &str| {
        format!(
            "[[models]]\nid = \"acme/{id}\"\ncontext_length = 100000\noutput_modalities = [\"{output}\"]\nendpoints = [{{ provider = \
             \"{provider}\", upstream_model = \"{upstream}\", pricing = {{ prompt = \"0\", completion = \"0\" }} }}]\n"
        )
    };
    let models = [
        model("opus", "text", "dear", "claude-opus-5-5"),
        model("cheap", "text", "cheap", "up-cheap"),
        model("pictures", "image", "cheap", "up-cheap"),
        model("dear-pictures", "image", "cheap", "up-dear"),
        model("vectors", "embeddings", "cheap", "up-cheap"),
        model("dear-vectors", "embeddings", "cheap", "up-dear"),
    ];
    World::new()
        .provider_with("dear", dear.address(), "dialect = \"anthropic\"")
        .provider_with("cheap", cheap.address(), "legacy_completions = true")
        .variable("POINTSMAN__SERVER__LEGACY_COMPLETIONS", "true")
        .with(&models.concat())
        .with("[messages]\nmodels = { \"claude-*\" = \"acme/opus\" }")
        .with(
            "[[keys]]\nname = \"agents\"\nenv = \"AGENTS\"\naliases = { \"claude-opus-5-5\" = \"acme/cheap\", \"claude-haiku-9\" = \
             \"acme/cheap\", \"acme/opus\" = \"acme/cheap\", \"acme/dear-pictures\" = \"acme/pictures\", \"acme/dear-vectors\" = \
             \"acme/vectors\" }",
        )
        .variable("AGENTS", KEY)
        .start()
        .await
}

#[actix_web::test]
async fn an_alias_of_the_key_wins_over_models_and_names_of_providers_at_every_door() {
    let (dear, cheap) = (always(500, &json!({})), saying("Hello"));
    let gateway = gateway(&dear, &cheap).await;
    let turn = json!([{"role": "user", "content": "Hi"}]);
    let doors: [(&str, Value, &[&str]); 5] = [
        ("/v1/chat/completions", json!({"messages": turn}), &["claude-opus-5-5", "claude-haiku-9", "acme/opus"]),
        (
            "/v1/messages",
            json!({"messages": turn, "max_tokens": 9}),
            &["claude-opus-5-5", "claude-haiku-9", "acme/opus"],
        ),
        ("/v1/responses", json!({"input": "Hi"}), &["claude-opus-5-5", "claude-haiku-9", "acme/opus"]),
        ("/v1/images/generations", json!({"prompt": "A cat"}), &["acme/dear-pictures"]),
        ("/v1/embeddings", json!({"input": "Hi"}), &["acme/dear-vectors"]),
    ];
    for (door, mut body, names) in doors {
        for name in names {
            body["model"] = json!(name);
            let before = cheap.bodies().len();
            call(&gateway, Method::POST, door, KEY, Some(body.clone())).await;
            assert_eq!(cheap.bodies().len(), before + 1, "{door} {name}");
            assert_eq!(cheap.last_body()["model"], "up-cheap", "{door} {name}");
        }
        body["model"] = json!("nobody/knows");
        let unknown = call(&gateway, Method::POST, door, KEY, Some(body.clone())).await;
        assert_eq!(unknown.status, 404, "{door}: {}", unknown.text());
        // A list of models means the same as a name; not all APIs have one.
        if !matches!(door, "/v1/chat/completions" | "/v1/responses") {
            continue;
        }
        if door == "/v1/responses" {
            body["model"] = json!(names[0]);
        } else {
            body.as_object_mut().unwrap().remove("model");
        }
        body["models"] = json!(names);
        let before = cheap.bodies().len();
        let listed = call(&gateway, Method::POST, door, KEY, Some(body.clone())).await;
        assert_eq!(cheap.bodies().len(), before + 1, "{door}: {}", listed.text());
        assert_eq!(cheap.last_body()["model"], "up-cheap", "{door}");
    }
    let counted = json!({"model": "claude-opus-5-5", "messages": turn});
    call(&gateway, Method::POST, "/v1/messages/count_tokens", KEY, Some(counted)).await.expect(200);
    assert_eq!(dear.connections(), 0, "no request went to the dear model");
}

#[actix_web::test]
async fn completions_know_the_aliases_of_the_key_too() {
    let choice = json!({"text": "Hello", "index": 0, "finish_reason": "stop", "logprobs": null});
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4});
    let text = json!({"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "up-cheap", "choices": [choice], "usage": usage});
    let (dear, cheap) = (always(500, &json!({})), always(200, &text));
    let gateway = gateway(&dear, &cheap).await;
    for (calls, name) in [(1, "claude-opus-5-5"), (2, "claude-haiku-9"), (3, "acme/opus")] {
        let body = json!({"model": name, "prompt": "Hi"});
        let reply = call(&gateway, Method::POST, "/v1/completions", KEY, Some(body)).await;
        assert_eq!(reply.status, 200, "{name}: {}", reply.text());
        assert_eq!((cheap.bodies().len(), &cheap.last_body()["model"]), (calls, &json!("up-cheap")), "{name}");
    }
    assert_eq!(dear.connections(), 0, "no request went to the dear model");
}

#[actix_web::test]
async fn previews_and_questions_about_models_know_the_aliases_of_the_key() {
    let (dear, cheap) = (always(500, &json!({})), saying("Hello"));
    let gateway = gateway(&dear, &cheap).await;
    let turn = json!([{"role": "user", "content": "Hi"}]);
    let vectors = (json!({"model": "acme/dear-vectors", "input": "Hi"}), "acme/vectors");
    let chat = |name: &str| (json!({"model": name, "messages": turn}), "acme/cheap");
    let message = (json!({"model": "claude-opus-5-5", "max_tokens": 9, "system": "", "messages": turn}), "acme/cheap");
    for (body, model) in [chat("claude-opus-5-5"), chat("acme/opus"), message, vectors] {
        let preview = call(&gateway, Method::POST, "/v1/route/preview", KEY, Some(body.clone())).await.expect(200);
        assert_eq!(preview["candidates"][0]["model"], model, "{body}: {preview}");
    }
    let mut asked = chat("acme/opus").0;
    asked["what_if"] = json!({"endpoints": [{"model": "claude-opus-5-5", "off": true}]});
    asked["why_not"] = json!("claude-haiku-9");
    let preview = call(&gateway, Method::POST, "/v1/route/preview", KEY, Some(asked)).await.expect(200);
    assert_eq!(preview["why_not"]["model"], "acme/cheap", "{preview}");
    assert_eq!(preview["what_if"]["candidates"], json!([]), "the only candidate is off: {preview}");
    let stats = call(&gateway, Method::GET, "/v1/models/stats?model=claude-opus-5-5", KEY, None).await.expect(200);
    assert_eq!(stats["data"][0]["model"], "acme/cheap", "{stats}");
    let answered = call(&gateway, Method::POST, "/v1/chat/completions", KEY, Some(chat("acme/opus").0)).await;
    let path = format!(
        "/v1/route/explain?why_not=claude-opus-5-5&generation_id={}",
        answered.header("x-generation-id").unwrap()
    );
    let told = call(&gateway, Method::GET, &path, KEY, None).await.expect(200);
    assert_eq!(told["why_not"]["model"], "acme/cheap", "{told}");
}

#[actix_web::test]
async fn a_model_is_found_by_every_name_that_can_be_called() {
    let (dear, cheap) = (always(500, &json!({})), saying("Hello"));
    let gateway = gateway(&dear, &cheap).await;
    let versioned = ("anthropic-version", "2023-06-01");
    let with = |more: &[(&'static str, &'static str)]| {
        [&[("authorization", "Bearer sk-aliased-0123456789abcdef")], more].concat()
    };
    let names = [
        ("service/auto", with(&[]), Some("service/auto")),
        ("service/auto", with(&[versioned]), Some("service/auto")),
        ("claude-opus-5-5", with(&[]), Some("acme/cheap")),
        ("acme/opus", with(&[versioned]), Some("acme/cheap")),
        ("acme/opus", vec![], Some("acme/opus")),
        ("claude-opus-5-5", vec![], None),
        ("claude-opus-5-5", vec![versioned], Some("acme/opus")),
        ("nobody/knows", with(&[]), None),
    ];
    for (name, headers, expected) in names {
        let found = gateway.call(Method::GET, &format!("/v1/models/{name}"), &headers, None).await;
        match expected {
            Some(id) => assert_eq!(found.expect(200)["id"], id, "{name} {headers:?}"),
            None => assert_eq!(found.status, 404, "{name} {headers:?}"),
        }
    }
    let own = gateway.call(Method::GET, "/v1/models/claude-opus-5-5", &with(&[]), None).await;
    assert_eq!(own.header("cache-control"), Some("private, max-age=60"), "other callers do not get it");
}

const CONFIGURED: &str = r#"
[providers.acme]
base_url = "https://h/v1"
[[models]]
id = "acme/small"
context_length = 1000
pricing = { prompt = "0", completion = "0" }
endpoints = [{ provider = "acme", upstream_model = "s" }]
"#;

#[test]
fn check_names_every_configured_model_that_the_catalog_does_not_know_with_the_nearest_one() {
    let lists = r#"
[messages]
models = { "claude-haiku-*" = "acme/smal", "claude-*" = "service/auto" }
[[aliases]]
name = "team"
allowed_models = ["acme/smoll", "acme/small", "zzz/*"]
[[keys]]
name = "agents"
env = "AGENTS"
aliases = { fast = "acme/tiny", good = "acme/small", ours = "service/team", other = "service/aut" }
blocked_models = ["acme/smell"]
"#;
    let page = summary(&read(&format!("{CONFIGURED}{lists}"), &[("AGENTS", KEY)]));
    for told in [
        "messages.models.claude-haiku-*: 'acme/smal' is neither a model nor an alias of this catalog, did you mean 'acme/small'?",
        "aliases[0].allowed_models[0]: 'acme/smoll' is no model of this catalog, did you mean 'acme/small'?",
        "keys[1].aliases.fast: 'acme/tiny' is neither a model nor an alias of this catalog",
        "keys[1].aliases.other: 'service/aut' is neither a model nor an alias of this catalog, did you mean 'service/auto'?",
        "keys[1].blocked_models[0]: 'acme/smell' is no model of this catalog, did you mean 'acme/small'?",
    ] {
        assert!(page.contains(told), "{told}\n{page}");
    }
    assert_eq!(page.matches("of this catalog").count(), 5, "{page}");
}

#[test]
fn a_key_has_no_alias_without_a_name_or_a_target() {
    use pointsman_config::{Config, Environment};
    for aliases in [r#"{ "" = "acme/small" }"#, r#"{ " " = "acme/small" }"#, r#"{ fast = "" }"#] {
        let text =
            format!("{CONFIGURED}[[keys]]\nname = \"agents\"\nsha256 = \"{}\"\naliases = {aliases}", "0".repeat(64));
        let faults = Config::parse(&text, "f", std::path::Path::new("."), &Environment::default()).unwrap_err();
        assert!(faults.iter().any(|fault| fault.to_string().contains("is not a name and what it means")), "{faults:?}");
    }
}

#[actix_web::test]
async fn an_issued_key_gets_no_alias_without_a_name_or_with_an_unknown_target() {
    let (upstream, folder) = (always(200, &completion("Hello")), Folder::new());
    let gateway = world(&upstream, &folder).start().await;
    let (_, data) =
        issue(&gateway, json!({"name": "ci", "aliases": {"fast": "acme/small", "any": "service/auto"}})).await;
    let path = format!("/api/v1/keys/{}", data["hash"].as_str().unwrap());
    for (aliases, told) in [
        (json!({"": "acme/small"}), "names, each with a model id or alias"),
        (json!({"fast": ""}), "names, each with a model id or alias"),
        (
            json!({"fast": "acme/smal"}),
            "'acme/smal' is neither a model nor an alias of this catalog; did you mean 'acme/small'?",
        ),
    ] {
        for (method, path) in [(Method::POST, "/api/v1/keys"), (Method::PATCH, &*path)] {
            let body = json!({"name": "other", "aliases": aliases});
            let error = error_of(&call(&gateway, method, path, ADMIN, Some(body)).await, 400);
            assert!(error["message"].as_str().unwrap().contains(told), "{error}");
        }
    }
}
