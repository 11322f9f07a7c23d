//! `POST /images/generations` for models of other APIs than OpenAI's: at Google, at Amazon Bedrock, and by the tool of the
//! Responses API.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    scripted::Upstream,
    world::{World, always},
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nof a signal box";

/// `acme/painter`, called `model` at a provider of that dialect.
async fn gateway(cloud: &Upstream, dialect: &str, model: &str, endpoint: &str) -> TestGateway {
    World::new()
        .provider_with("cloud", cloud.address(), &format!("dialect = \"{dialect}\""))
        .with(&format!(
            "[[models]]\nid = \"acme/painter\"\ncontext_length = 8192\noutput_modalities = [\"image\"]\nsupported_parameters = \
             [\"image_config\", \"seed\"]\nendpoints = [{{ provider = \"cloud\", upstream_model = \"{model}\", {endpoint}pricing \
             = {{ prompt = \"0\", completion = \"0\", image = \"0.04\" }} }}]"
        ))
        .start()
        .await
}

async fn paint(gateway: &TestGateway, members: Value) -> Reply {
    let mut asked = json!({"model": "acme/painter", "prompt": "A signal box", "response_format": "b64_json"});
    asked.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    gateway.post("/v1/images/generations", &asked).await
}

fn image() -> String {
    BASE64_STANDARD.encode(PNG)
}

#[track_caller]
fn check_images(reply: &Reply, count: usize) {
    let answer = reply.expect(200);
    let images: Vec<&str> =
        answer["data"].as_array().unwrap().iter().map(|made| made["b64_json"].as_str().unwrap()).collect();
    assert_eq!(images, vec![image(); count], "{answer}");
}

#[actix_web::test]
async fn amazons_image_models_are_asked_in_their_own_form_and_a_kept_back_image_is_a_refusal() {
    let cloud = always(200, &json!({"images": [image(), image()]}));
    let nova = gateway(&cloud, "converse", "amazon.nova-canvas-v1:0", "").await;
    let reply = paint(&nova, json!({"n": 2, "size": "1024x1024", "style": "vivid"})).await;
    check_images(&reply, 2);
    assert_eq!(reply.header("x-route-dropped-parameters"), Some("style"));
    let sent = cloud.requests().remove(0);
    assert!(sent.contains("/model/amazon.nova-canvas-v1%3A0/invoke HTTP/1.1\r\n"), "{sent}");
    let config = json!({"numberOfImages": 2, "width": 1024, "height": 1024});
    let expected = json!({"taskType": "TEXT_IMAGE", "textToImageParams": {"text": "A signal box"}, "imageGenerationConfig": config});
    assert_eq!(cloud.last_body(), expected);

    let cloud = always(200, &json!({"images": [null], "finish_reasons": ["Filter reason: prompt"]}));
    let stability = gateway(&cloud, "converse", "stability.stable-image-core-v1:1", "").await;
    let refused = paint(&stability, json!({})).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.text().contains("Filter reason: prompt"), "{}", refused.text());
}

#[actix_web::test]
async fn imagen_predicts_an_image() {
    let cloud = always(200, &json!({"predictions": [{"bytesBase64Encoded": image(), "mimeType": "image/png"}]}));
    let gateway = gateway(&cloud, "gemini", "imagen-4.0-generate-001", "").await;
    check_images(&paint(&gateway, json!({"size": "1024x1024"})).await, 1);
    let sent = cloud.requests().remove(0);
    assert!(sent.contains("/models/imagen-4.0-generate-001:predict HTTP/1.1\r\n"), "{sent}");
}

#[actix_web::test]
async fn a_model_of_the_responses_api_makes_an_image_with_its_tool() {
    let item = json!({"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": image(), "output_format": "png"});
    let cloud = always(
        200,
        &json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "gpt-x",
            "output": [item], "usage": {"input_tokens": 9, "output_tokens": 900, "total_tokens": 909}}),
    );
    let gateway = gateway(&cloud, "openai-responses", "gpt-x", "images_through_chat = true, ").await;
    let reply = paint(&gateway, json!({"size": "1536x1024"})).await;
    check_images(&reply, 1);
    assert_eq!(reply.header("x-route-emulated-parameters"), Some("size"));
    let sent = cloud.last_body();
    assert_eq!(sent["tools"], json!([{"type": "image_generation", "size": "1536x1024"}]));
    assert_eq!(sent["tool_choice"], json!({"type": "image_generation"}));
}
