//! Previews of requests of every API, and what becomes of their fields at each candidate.

use actix_web::http::Method;
use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    scripted::Upstream,
    world::{World, always, error_of},
};

/// `acme/small` at a chat endpoint, then at one of each other API, and `acme/vectors`.
async fn gateway(upstream: &Upstream) -> TestGateway {
    let endpoint = |provider: &str, model: &str, price: u32| {
        format!(
            "{{ provider = \"{provider}\", upstream_model = \"{model}\", pricing = {{ prompt = \"0.00000{price}\", completion = \"0\" }} }}"
        )
    };
    let endpoints =
        [endpoint("chat", "m", 1), endpoint("native", "claude-sonnet-5-5", 2), endpoint("google", "gemini-3-pro", 3)];
    let models = format!(
        "[[models]]\nid = \"acme/small\"\ncontext_length = 100000\nsupported_parameters = [\"max_tokens\", \"tools\", \
         \"tool_choice\", \"temperature\", \"reasoning_effort\"]\nendpoints = [{}]\n[[models]]\nid = \"acme/vectors\"\n\
         context_length = 100000\noutput_modalities = [\"embeddings\"]\nsupported_parameters = [\"dimensions\"]\nendpoints = [{}]",
        endpoints.join(", "),
        endpoint("google", "gemini-embedding-001", 1)
    );
    World::new()
        .provider("chat", upstream.address())
        .provider_with("native", upstream.address(), "dialect = \"anthropic\"")
        .provider_with("google", upstream.address(), "dialect = \"gemini\"")
        .with(&models)
        .start()
        .await
}

/// The fates at the candidate of a provider: kept, translated, emulated, dropped.
fn fates(preview: &Value, provider: &str) -> [Value; 4] {
    let candidates = preview["candidates"].as_array().unwrap();
    let candidate = candidates.iter().find(|candidate| candidate["provider_slug"] == provider);
    let candidate = candidate.unwrap_or_else(|| panic!("no {provider}: {preview}"));
    ["kept", "translated", "emulated", "dropped"].map(|fate| candidate[format!("{fate}_parameters")].clone())
}

#[actix_web::test]
async fn a_preview_shows_what_each_candidate_would_get_of_the_fields() {
    let upstream = always(500, &json!({}));
    let gateway = gateway(&upstream).await;
    let chat = json!({"model": "acme/small", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0.5,
        "max_tokens": 2000, "seed": 1, "reasoning": {"max_tokens": 1500}, "objective": "cheapest"});
    let preview = gateway.post("/api/v1/route/preview", &chat).await.expect(200);
    let expected =
        [json!(["max_tokens", "messages", "model", "temperature"]), json!([]), json!(["reasoning"]), json!(["seed"])];
    assert_eq!(fates(&preview, "chat"), expected, "{preview}");
    let [kept, translated, emulated, dropped] = fates(&preview, "native");
    assert_eq!((kept, translated), (json!([]), json!(["max_tokens", "messages", "model"])), "{preview}");
    assert_eq!((emulated, dropped), (json!(["reasoning"]), json!(["seed", "temperature"])), "{preview}");
    assert_eq!(preview["candidates"][0]["upstream_dialect"], "openai");
    assert_eq!(upstream.connections(), 0);
}

#[actix_web::test]
async fn a_preview_reads_the_bodies_of_every_api() {
    let upstream = always(500, &json!({}));
    let gateway = gateway(&upstream).await;
    let messages = json!({"model": "acme/small", "max_tokens": 9, "system": "Be brief.", "objective": "cheapest",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "context_management": {"edits": []}});
    let preview = gateway.post("/api/v1/route/preview", &messages).await.expect(200);
    let [kept, _, _, dropped] = fates(&preview, "native");
    assert_eq!(kept, json!(["context_management", "max_tokens", "messages", "model", "system"]), "{preview}");
    assert_eq!(dropped, json!([]));
    let [kept, translated, _, dropped] = fates(&preview, "chat");
    assert_eq!((kept, dropped), (json!([]), json!(["context_management"])), "{preview}");
    assert_eq!(translated, json!(["max_tokens", "messages", "model", "system"]), "{preview}");

    let mut plain = messages.clone();
    plain.as_object_mut().unwrap().remove("system");
    let headers = [("content-type", "application/json"), ("anthropic-version", "2023-06-01")];
    let by_header = gateway.call(Method::POST, "/api/v1/route/preview", &headers, Some(plain.to_string().into())).await;
    assert_eq!(fates(&by_header.expect(200), "chat")[3], json!(["context_management"]));
    let by_name = gateway.post("/api/v1/route/preview?api=messages", &plain).await;
    assert_eq!(fates(&by_name.expect(200), "chat")[3], json!(["context_management"]));

    let responses = json!({"model": "acme/small", "input": "Hi", "max_output_tokens": 50, "objective": "cheapest"});
    let preview = gateway.post("/api/v1/route/preview", &responses).await.expect(200);
    assert_eq!(fates(&preview, "chat")[1], json!(["input", "max_output_tokens", "model"]), "{preview}");

    let embeddings = json!({"model": "acme/vectors", "input": ["one"], "dimensions": 3, "user": "u"});
    let preview = gateway.post("/api/v1/route/preview", &embeddings).await.expect(200);
    let expected = [json!([]), json!(["dimensions", "input", "model"]), json!([]), json!(["user"])];
    assert_eq!(fates(&preview, "google"), expected, "{preview}");

    let wrong = gateway.post("/api/v1/route/preview?api=images", &embeddings).await;
    assert_eq!(error_of(&wrong, 400)["param"], "api");
    assert_eq!(upstream.connections(), 0);
}
