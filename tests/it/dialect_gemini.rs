//! Chats for an endpoint that speaks the Gemini API.

use serde_json::{Value, json};

use crate::{
    harness::TestGateway,
    scripted::{Script, Upstream},
    world::{World, always, and, ask, error_of, http, provider_key},
};

async fn gateway(maker: &Upstream) -> TestGateway {
    World::new()
        .provider_with("maker", maker.address(), "dialect = \"gemini\"")
        .with(
            "[[models]]\nid = \"acme/gemini\"\ncontext_length = 100000\nsupported_parameters = [\"max_tokens\", \"tools\", \
             \"tool_choice\"]\nendpoints = [{ provider = \"maker\", upstream_model = \"gemini-3.8-flash\", pricing = { prompt = \
             \"0.000001\", completion = \"0.000002\" } }]",
        )
        .start()
        .await
}

fn answer(parts: Value) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "thoughtsTokenCount": 3, "totalTokenCount": 15},
        "responseId": "r1", "modelVersion": "gemini-3.8-flash",
    })
}

#[actix_web::test]
async fn a_chat_is_sent_to_the_path_of_the_model_with_the_key_in_its_own_header() {
    let maker = always(200, &answer(json!([{"text": "Left."}])));
    let gateway = gateway(&maker).await;
    let reply = gateway.chat(&and(ask("acme/gemini"), json!({"max_tokens": 9, "user": "u"}))).await;
    let completion = reply.expect(200);
    assert_eq!(completion["choices"][0]["message"]["content"], "Left.");
    assert_eq!(completion["usage"]["completion_tokens"], 5);
    assert_eq!(completion["usage"]["cost"], json!(0.00002));
    assert_eq!(reply.header("x-route-dropped-parameters"), Some("user"));
    let sent = maker.requests().remove(0);
    assert!(sent.starts_with("POST /v1/models/gemini-3.8-flash:generateContent HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains(&format!("x-goog-api-key: {}\r\n", provider_key("maker"))), "{sent}");
    let expected = json!({
        "generationConfig": {"maxOutputTokens": 9}, "contents": [{"role": "user", "parts": [{"text": "Which way?"}]}],
    });
    assert_eq!(maker.last_body(), expected);
}

#[actix_web::test]
async fn a_stream_that_ends_with_its_body_becomes_a_stream_of_chunks_and_of_messages() {
    let first = json!({"candidates": [{"content": {"parts": [{"text": "Le"}]}}], "responseId": "r1"});
    let body = format!("data: {first}\r\n\r\ndata: {}\r\n\r\n", answer(json!([{"text": "ft."}])));
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", body.len());
    let maker = Upstream::start([Script::answering(head + &body)]);
    let gateway = gateway(&maker).await;
    let reply = gateway.chat(&and(ask("acme/gemini"), json!({"stream": true}))).await;
    assert_eq!(reply.content(), "Left.", "{}", reply.text());
    assert!(reply.text().ends_with("data: [DONE]\n\n"), "{}", reply.text());
    assert!(maker.requests()[0].starts_with("POST /v1/models/gemini-3.8-flash:streamGenerateContent?alt=sse HTTP"));
    let message = json!({"model": "acme/gemini", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "Hi"}]});
    let reply = gateway.post("/v1/messages", &message).await;
    let text = reply.text();
    assert!(text.contains("\"text\":\"Le\"") && text.contains("event: message_stop"), "{text}");
}

#[actix_web::test]
async fn what_is_blocked_is_set_for_a_provider_or_for_an_endpoint() {
    let maker = always(200, &answer(json!([{"text": "Left."}])));
    let gateway = World::new()
        .provider_with(
            "maker",
            maker.address(),
            "dialect = \"gemini\"\nsafety_settings = { HARM_CATEGORY_HARASSMENT = \"BLOCK_ONLY_HIGH\" }",
        )
        .with(
            "[[models]]\nid = \"acme/one\"\ncontext_length = 1000\nendpoints = [{ provider = \"maker\", upstream_model = \"gemini-x\", \
             pricing = \"unknown\" }]\n[[models]]\nid = \"acme/other\"\ncontext_length = 1000\nendpoints = [{ provider = \"maker\", \
             upstream_model = \"gemini-y\", pricing = \"unknown\", safety_settings = { HARM_CATEGORY_DANGEROUS_CONTENT = \"OFF\" } }]",
        )
        .start()
        .await;
    gateway.chat(&ask("acme/one")).await.expect(200);
    let expected = json!([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}]);
    assert_eq!(maker.last_body()["safetySettings"], expected);
    gateway.chat(&ask("acme/other")).await.expect(200);
    let expected = json!([{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "threshold": "OFF"}]);
    assert_eq!(maker.last_body()["safetySettings"], expected);
}

#[actix_web::test]
async fn a_limit_that_names_its_end_in_the_body_is_told_as_retry_after() {
    let limited = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota exceeded", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36s"}]}});
    let maker = always(429, &limited);
    let gateway = gateway(&maker).await;
    let reply = gateway.chat(&ask("acme/gemini")).await;
    assert_eq!(reply.status, 429, "{}", reply.text());
    let seconds: u64 = reply.header("retry-after").unwrap().parse().unwrap();
    assert!((30..=36).contains(&seconds), "{seconds}");
}

#[actix_web::test]
async fn an_image_is_made_through_the_chat_of_the_model() {
    let png = "iVBORw0KGgoAAAANSUhEUg==";
    let maker =
        always(200, &answer(json!([{"text": "Here."}, {"inlineData": {"mimeType": "image/png", "data": png}}])));
    let gateway = World::new()
        .provider_with("maker", maker.address(), "dialect = \"gemini\"")
        .with(
            "[[models]]\nid = \"acme/painter\"\ncontext_length = 1000\noutput_modalities = [\"image\"]\nsupported_parameters = \
             [\"image_config\"]\nendpoints = [{ provider = \"maker\", upstream_model = \"gemini-2.5-flash-image\", images_through_chat \
             = true, pricing = { prompt = \"0\", completion = \"0\", image = \"0.04\" } }]",
        )
        .start()
        .await;
    let request = json!({"model": "acme/painter", "prompt": "A fork", "aspect_ratio": "16:9"});
    let reply = gateway.post("/v1/images/generations", &request).await;
    assert_eq!(reply.expect(200)["data"][0]["b64_json"], png);
    let body = maker.last_body();
    assert_eq!(
        body["generationConfig"],
        json!({"responseModalities": ["IMAGE", "TEXT"], "imageConfig": {"aspectRatio": "16:9"}})
    );
    assert_eq!(body["contents"][0]["parts"], json!([{"text": "A fork"}]));
}

/// A gateway with an image model of Google's, and a request for one of its images.
async fn painter(maker: &Upstream, model: &str, toml: &str) -> TestGateway {
    World::new()
        .provider_with("maker", maker.address(), "dialect = \"gemini\"")
        .with(&format!(
            "[[models]]\nid = \"acme/painter\"\ncontext_length = 1000\noutput_modalities = [\"image\"]\nsupported_parameters = \
             [\"image_config\", \"n\", \"quality\"]\nendpoints = [{{ provider = \"maker\", upstream_model = \"{model}\", {toml} pricing = {{ prompt \
             = \"0\", completion = \"0\", image = \"0.04\" }} }}]"
        ))
        .start()
        .await
}

#[actix_web::test]
async fn a_size_in_pixels_becomes_the_nearest_shape_and_is_named() {
    let png = "iVBORw0KGgoAAAANSUhEUg==";
    let maker = always(200, &answer(json!([{"inlineData": {"mimeType": "image/png", "data": png}}])));
    let gateway = painter(&maker, "gemini-3-image", "images_through_chat = true,").await;
    let request = json!({"model": "acme/painter", "prompt": "A fork", "size": "1792x1024"});
    let reply = gateway.post("/v1/images/generations", &request).await;
    reply.expect(200);
    assert_eq!(reply.header("x-route-emulated-parameters"), Some("size"));
    assert_eq!(reply.header("x-route-dropped-parameters"), None);
    let expected = json!({"aspectRatio": "16:9", "imageSize": "2K"});
    assert_eq!(maker.last_body()["generationConfig"]["imageConfig"], expected);
}

#[actix_web::test]
async fn imagen_is_called_by_predict_and_pays_for_each_image_that_it_gives() {
    let png = "iVBORw0KGgoAAAANSUhEUg==";
    let made = json!({"bytesBase64Encoded": png, "mimeType": "image/png"});
    let maker = always(200, &json!({"predictions": [made, made, {"raiFilteredReason": "Unsafe."}]}));
    let one = painter(&maker, "imagen-4", "").await;
    let request = json!({"model": "acme/painter", "prompt": "A fork", "n": 3, "size": "1024x1024", "quality": "high"});
    let reply = one.post("/v1/images/generations", &request).await;
    let images = reply.expect(200);
    assert_eq!((images["data"].as_array().unwrap().len(), &images["data"][1]["b64_json"]), (2, &json!(png)));
    assert_eq!(images["usage"]["cost"], json!(0.08));
    assert_eq!(reply.header("x-route-dropped-parameters"), Some("quality"));
    assert_eq!(reply.header("x-route-emulated-parameters"), Some("size"));
    assert!(maker.requests()[0].starts_with("POST /v1/models/imagen-4:predict HTTP/1.1\r\n"));
    let expected = json!({"instances": [{"prompt": "A fork"}], "parameters": {"sampleCount": 3, "aspectRatio": "1:1"}});
    assert_eq!(maker.last_body(), expected);

    let strict = always(200, &json!({"predictions": [{"raiFilteredReason": "Unsafe."}]}));
    let other = painter(&strict, "imagen-4", "").await;
    let error = error_of(&other.post("/v1/images/generations", &request).await, 400);
    assert_eq!(error["metadata"]["error_type"], "content_policy_violation", "{error}");
    assert_eq!(error["metadata"]["raw"], "Unsafe.", "{error}");
    assert_eq!(strict.requests().len(), 1);
}

#[actix_web::test]
async fn an_image_that_a_filter_kept_back_is_the_clients_fault_and_never_a_malformed_answer() {
    let request = json!({"model": "acme/painter", "prompt": "A fork"});
    let ended = |reason: &str| json!({"candidates": [{"index": 0, "finishReason": reason}]});
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    let said =
        json!({"candidates": [{"index": 0, "finishReason": "IMAGE_SAFETY", "content": {"parts": [{"text": "No."}]}}]});
    for (answer, why) in [
        (ended("IMAGE_SAFETY"), "IMAGE_SAFETY"),
        (ended("IMAGE_PROHIBITED_CONTENT"), "IMAGE_PROHIBITED_CONTENT"),
        (ended("NO_IMAGE"), "NO_IMAGE"),
        (said, "IMAGE_SAFETY"),
        (blocked, "PROMPT_BLOCKED:SAFETY"),
    ] {
        let maker = always(200, &answer);
        let gateway = painter(&maker, "gemini-3-image", "images_through_chat = true,").await;
        let error = error_of(&gateway.post("/v1/images/generations", &request).await, 400);
        assert_eq!(error["metadata"]["error_type"], "content_policy_violation", "{error}");
        assert_eq!(error["metadata"]["raw"], why, "{error}");
        assert_eq!(maker.requests().len(), 1, "nobody else is asked");
    }
    let empty = always(200, &answer(json!([{"text": "Here."}])));
    let gateway = painter(&empty, "gemini-3-image", "images_through_chat = true,").await;
    assert_eq!(gateway.post("/v1/images/generations", &request).await.status, 502);
}

#[actix_web::test]
async fn a_refused_signature_is_replaced_by_the_stand_in_once_and_both_attempts_are_recorded() {
    let refusal = http(
        400,
        &json!({"error": {"code": 400, "message": "Corrupted thought signature.", "status": "INVALID_ARGUMENT"}}),
    );
    let answer = http(
        200,
        &json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Left."}]}, "finishReason": "STOP"}]}),
    );
    let asked = json!({"model": "acme/pro", "provider": {"allow_fallbacks": false}, "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": null,
         "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
         "reasoning_details": [{"type": "reasoning.encrypted", "data": "AbC=", "id": "c", "format": "google-gemini-v1"}]},
        {"role": "tool", "tool_call_id": "c", "content": "1"}]});
    for (second, status) in [(answer, 200), (refusal.clone(), 400)] {
        let closing = refusal.replacen("\r\n", "\r\nconnection: close\r\n", 1);
        let google = Upstream::start([Script::answering(closing), Script::answering(second)]);
        let gateway = World::new()
            .provider_with("google", google.address(), "dialect = \"gemini\"")
            .with(
                "[[models]]\nid = \"acme/pro\"\ncontext_length = 100000\nsupported_parameters = [\"tools\"]\nendpoints = [{ provider = \
                 \"google\", upstream_model = \"gemini-3-pro\", pricing = { prompt = \"0\", completion = \"0\" } }]",
            )
            .start()
            .await;
        let reply = gateway.chat(&asked).await;
        assert_eq!(reply.status, status, "{}", reply.text());
        let signatures: Vec<String> = google
            .bodies()
            .iter()
            .map(|body| body["contents"][1]["parts"][0]["thoughtSignature"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(signatures, ["AbC=", "skip_thought_signature_validator"]);
        if status == 200 {
            assert_eq!(reply.header("x-route-attempts"), Some("2"));
        }
    }
}

#[actix_web::test]
async fn a_client_that_drops_all_reasoning_gets_its_signatures_back_and_foreign_steps_get_one_stand_in_each() {
    let signed = json!([
        {"functionCall": {"name": "map", "args": {"at": 1}}, "thoughtSignature": "AbC="},
        {"functionCall": {"name": "map", "args": {"at": 2}}},
    ]);
    let event = format!("data: {}\r\n\r\n", answer(signed.clone()));
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", event.len());
    let said = http(200, &answer(json!([{"text": "Left."}])));
    let script = Script::new().request().send(http(200, &answer(signed))).request().send(&*said);
    let maker = Upstream::start([script.request().send(head + &event).request().send(said)]);
    let gateway = gateway(&maker).await;
    let tools = json!([{"type": "function", "function": {"name": "map", "parameters": {"type": "object"}}}]);
    let asked = and(ask("acme/gemini"), json!({"tools": tools}));
    for streamed in [false, true] {
        let reply = gateway.chat(&and(asked.clone(), json!({"stream": streamed}))).await;
        // Of the calls the client keeps what the official types have.
        let calls: Vec<(String, String)> = match streamed {
            false => {
                reply.expect(200)["choices"][0]["message"]["tool_calls"].as_array().unwrap().iter().map(known).collect()
            }
            true => reply
                .events()
                .iter()
                .flat_map(|chunk| {
                    let calls = chunk["choices"][0]["delta"]["tool_calls"].as_array().cloned().unwrap_or_default();
                    calls.iter().filter(|call| call["id"].is_string()).map(known).collect::<Vec<_>>()
                })
                .collect(),
        };
        assert_eq!(calls.len(), 2, "{}", reply.text());
        let mut turns = vec![json!({"role": "user", "content": "Which way?"})];
        let step = |calls: &[(String, String)]| {
            let call = |(id, name): &(String, String)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
            let result = |(id, _): &(String, String)| json!({"role": "tool", "tool_call_id": id, "content": "here"});
            let calls_made =
                json!({"role": "assistant", "content": null, "tool_calls": calls.iter().map(call).collect::<Vec<_>>()});
            [vec![calls_made], calls.iter().map(result).collect()].concat()
        };
        turns.extend(step(&calls));
        turns.extend(step(&[("foreign_1".into(), "map".into()), ("foreign_2".into(), "map".into())]));
        let reply = gateway.chat(&and(asked.clone(), json!({"messages": turns}))).await;
        reply.expect(200);
        let sent = maker.last_body();
        let signature = |turn: usize, part: usize| sent["contents"][turn]["parts"][part]["thoughtSignature"].clone();
        assert_eq!([signature(1, 0), signature(1, 1)], [json!("AbC="), Value::Null], "{sent}");
        assert_eq!(
            [signature(3, 0), signature(3, 1)],
            [json!("skip_thought_signature_validator"), Value::Null],
            "{sent}"
        );
        assert_eq!(reply.header("x-route-emulated-parameters"), Some("messages[].reasoning_details"));
    }
}

/// Id and name of a call.
fn known(call: &Value) -> (String, String) {
    (call["id"].as_str().unwrap().to_owned(), call["function"]["name"].as_str().unwrap().to_owned())
}
