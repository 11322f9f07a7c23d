//! Images.

use std::time::{Duration, Instant};

use actix_web::http::Method;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{
    harness::{Reply, TestGateway},
    keyless::{model, provider, simple_model},
    patience::eventually,
    scripted::{Script, Upstream},
    world::{and, http},
};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nnot really";

fn canvas(slug: &str) -> String {
    model("acme/canvas", "output_modalities = [\"image\"]", &[(slug, "0.000001", "0")])
}

/// An upstream whose images are these members of `data`.
fn painting(data: &Value) -> Upstream {
    Upstream::start([Script::answering(http(200, &json!({"created": 1, "data": [data]})))])
}

/// A gateway before an upstream that gives bytes, with a text model beside it.
async fn gateway(upstream: &Upstream, more: &str) -> TestGateway {
    let chat = simple_model("acme/chat", "painter");
    TestGateway::start(&[provider("painter", &upstream.url("")), canvas("painter"), chat, more.to_owned()].concat())
        .await
}

fn bytes() -> Value {
    json!({"b64_json": BASE64_STANDARD.encode(PNG)})
}

async fn draw(gateway: &TestGateway, more: &Value) -> Reply {
    let body = and(json!({"model": "acme/canvas", "prompt": "A signal box"}), more);
    gateway.post("/api/v1/images/generations", &body).await
}

async fn refused(gateway: &TestGateway, more: &Value, param: &str) -> Value {
    let body = draw(gateway, more).await.expect(400);
    assert_eq!(body["error"]["param"], param, "{more}: {body}");
    body
}

#[actix_web::test]
async fn images_come_as_base64_unless_a_url_is_asked_for_and_never_as_both() {
    let upstream = painting(&bytes());
    let gateway = gateway(&upstream, "").await;
    for more in [json!({}), json!({"response_format": "b64_json"}), json!({"response_format": null})] {
        let reply = draw(&gateway, &more).await;
        assert!(reply.header("x-generation-id").unwrap().starts_with("gen-"));
        let body = reply.expect(200);
        assert!(body["created"].is_u64());
        let image = &body["data"][0];
        assert_eq!((&image["b64_json"], image.get("url")), (&bytes()["b64_json"], None), "{more}: {body}");
        assert!(body["usage"]["cost"].is_number(), "{body}");
    }
    let linked = draw(&gateway, &json!({"response_format": "url"})).await.expect(200);
    let image = &linked["data"][0];
    assert!(image["url"].is_string() && image["expires_at"].is_u64() && image.get("b64_json").is_none(), "{linked}");
    for wrong in [json!("png"), json!(""), json!(5), json!(["url"])] {
        refused(&gateway, &json!({"response_format": wrong}), "response_format").await;
    }
    assert_eq!(upstream.log().requests.len(), 4, "a refused request must not reach the provider");
}

#[actix_web::test]
async fn a_size_of_another_form_and_a_chat_model_are_400() {
    let upstream = painting(&bytes());
    let gateway = gateway(&upstream, "").await;
    for size in ["1024x1024", "1x99999", "auto", "1K", "2K", "4K"] {
        draw(&gateway, &json!({"size": size})).await.expect(200);
    }
    let calls = upstream.log().requests.len();
    for size in ["1024", "1024x", "x1024", "1024X1024", "0x10", "010x10", "123456x1", "10x10 ", "10×10", "", "large"] {
        refused(&gateway, &json!({"size": size}), "size").await;
    }
    refused(&gateway, &json!({"size": 1024}), "size").await;
    let chat = refused(&gateway, &json!({"model": "acme/chat"}), "model").await;
    assert_eq!(chat["error"]["metadata"]["reason"], "wrong_endpoint");
    refused(&gateway, &json!({"prompt": ""}), "prompt").await;
    refused(&gateway, &json!({"prompt": null}), "prompt").await;
    let long = refused(&gateway, &json!({"prompt": "é".repeat(31_000)}), "prompt").await;
    assert_eq!(long["error"]["metadata"]["error_type"], "context_length_exceeded");
    refused(&gateway, &json!({"n": 11}), "n").await;
    let stream = refused(&gateway, &json!({"stream": true}), "stream").await;
    assert_eq!(stream["error"]["metadata"]["reason"], "unsupported_parameter");
    assert_eq!(upstream.log().requests.len(), calls);
}

#[actix_web::test]
async fn an_image_model_cannot_chat_and_an_unknown_one_is_404() {
    let upstream = painting(&bytes());
    let gateway = gateway(&upstream, "").await;
    let chat = json!({"model": "acme/canvas", "messages": [{"role": "user", "content": "Hello"}]});
    let chat = gateway.chat(&chat).await.expect(400);
    assert_eq!(
        (&chat["error"]["param"], &chat["error"]["metadata"]["reason"]),
        (&"model".into(), &"wrong_endpoint".into())
    );
    assert_eq!(draw(&gateway, &json!({"model": "acme/nope"})).await.expect(404)["error"]["param"], "model");
}

/// Where a link leads, as a path of the gateway it came from.
fn path_of<'a>(gateway: &TestGateway, body: &'a Value) -> &'a str {
    let url = body["data"][0]["url"].as_str().unwrap();
    url.strip_prefix(&gateway.url("")).unwrap_or_else(|| panic!("{url} leads elsewhere"))
}

#[actix_web::test]
async fn a_link_gives_the_same_bytes_to_anybody_until_its_time_is_up_and_404_after() {
    let lifetime = Duration::from_secs(3);
    let upstream = painting(&bytes());
    let gateway = gateway(&upstream, "[images]\nurl_ttl = \"3s\"\n").await;
    let asked = Instant::now();
    let body = draw(&gateway, &json!({"response_format": "url"})).await.expect(200);
    let path = path_of(&gateway, &body);
    let nobody = [("authorization", "")];
    for _ in 0..2 {
        let file = gateway.call(Method::GET, path, &nobody, None).await;
        assert_eq!((file.status, file.body.as_slice()), (200, PNG));
        assert_eq!((file.header("content-type"), file.header("cache-control")), (Some("image/png"), Some("private")));
    }
    let seen = async || {
        let file = gateway.call(Method::GET, path, &nobody, None).await;
        assert!(file.status == 404 || file.body == PNG, "{}", file.text());
        (file.status, file.text())
    };
    let (_, gone) = eventually("it is gone", seen, |(status, _)| *status == 404).await;
    assert!(asked.elapsed() >= lifetime, "gone after {:?}", asked.elapsed());
    assert!(gone.contains("\"code\":404"), "{gone}");
}

#[actix_web::test]
async fn a_link_of_the_provider_is_passed_on_as_it_is() {
    let upstream = painting(&json!({"url": "https://images.example/1.png"}));
    let gateway = gateway(&upstream, "").await;
    let body = draw(&gateway, &json!({"response_format": "url"})).await.expect(200);
    assert_eq!(body["data"][0]["url"], "https://images.example/1.png");
    assert_eq!(body["data"][0].get("expires_at"), None);
}

#[actix_web::test]
async fn a_link_to_a_strange_host_where_bytes_were_asked_for_is_a_502_and_is_not_passed_on() {
    let upstream = painting(&json!({"url": "https://images.example/1.png"}));
    let gateway = gateway(&upstream, "").await;
    let refused = draw(&gateway, &json!({})).await;
    assert!(!refused.text().contains("images.example"), "{}", refused.text());
    assert_eq!(refused.expect(502)["error"]["metadata"]["error_type"], "provider_unavailable");
}

#[actix_web::test]
async fn a_model_that_draws_through_chat_is_asked_there_and_its_images_become_data() {
    let picture = format!("data:image/png;base64,{}", BASE64_STANDARD.encode(PNG));
    let message = json!({
        "role": "assistant", "content": "Here.",
        "images": [{"type": "image_url", "image_url": {"url": picture}}],
    });
    let upstream = Upstream::start([Script::answering(http(
        200,
        &json!({
            "id": "up-1", "object": "chat.completion", "created": 1, "model": "private-name",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
        }),
    ))]);
    let model = canvas("painter").replace("upstream_model", "images_through_chat = true\nupstream_model");
    let gateway = TestGateway::start(&[provider("painter", &upstream.url("")), model].concat()).await;
    for (format, member) in [("b64_json", "b64_json"), ("url", "url")] {
        let drawn = draw(&gateway, &json!({"response_format": format})).await.expect(200);
        assert!(drawn["data"][0][member].is_string(), "{drawn}");
        assert_eq!(drawn["data"][0].as_object().unwrap().contains_key("b64_json"), format == "b64_json");
        assert_eq!((&drawn["usage"]["prompt_tokens"], &drawn["usage"]["input_tokens"]), (&3.into(), &3.into()));
    }
    let asked = upstream.requests().remove(0);
    assert!(asked.starts_with("POST /chat/completions ") && asked.contains("A signal box"), "{asked}");
    assert!(asked.contains("\"modalities\""), "{asked}");
}

#[actix_web::test]
async fn a_prompt_that_the_filter_of_an_image_api_refuses_is_a_400_about_content() {
    for code in ["content_policy_violation", "moderation_blocked"] {
        let refusal = json!({"error": {"code": code, "message": "Your request was rejected.", "type": "user_error"}});
        for (status, answer) in [(400, refusal.clone()), (200, refusal)] {
            let upstream = Upstream::start([Script::answering(http(status, &answer))]);
            let gateway = gateway(&upstream, "").await;
            let error = draw(&gateway, &json!({})).await.expect(400)["error"].take();
            assert_eq!(error["metadata"]["error_type"], "content_policy_violation", "{error}");
            assert!(error["metadata"]["raw"].as_str().unwrap().contains("Your request was rejected."), "{error}");
            assert_eq!(upstream.log().requests.len(), 1);
        }
    }
}

#[actix_web::test]
async fn a_guessed_link_is_404() {
    let upstream = painting(&bytes());
    let gateway = gateway(&upstream, "").await;
    for name in ["00000000000000000000000000000000.png", "x", "..%2f..%2fetc%2fpasswd"] {
        assert_eq!(gateway.get(&format!("/api/v1/images/files/{name}")).await.status, 404, "{name}");
    }
}

#[actix_web::test]
async fn the_short_path_draws_too_and_the_drawing_is_explained_as_an_image() {
    let upstream = painting(&bytes());
    let gateway = gateway(&upstream, "").await;
    for path in ["/api/v1/images", "/api/images/generations", "/v1/images/generations"] {
        let reply = gateway.post(path, &json!({"model": "service/auto", "prompt": "A signal box"})).await;
        let id = reply.header("x-generation-id").unwrap().to_owned();
        assert_eq!((reply.header("x-route-model"), reply.status), (Some("acme/canvas"), 200), "{path}");
        let record = gateway.get(&format!("/api/v1/generation?id={id}")).await.expect(200);
        assert_eq!(
            (&record["data"]["api_type"], &record["data"]["num_media_completion"]),
            (&"image".into(), &1.into())
        );
        assert_eq!(record["data"]["total_cost"], reply.json()["usage"]["cost"]);
    }
}

#[actix_web::test]
async fn simulated_providers_draw() {
    let gateway = TestGateway::simulated().await;
    let body = json!({"model": "lantern/canvas", "prompt": "A signal box", "size": "64x32", "n": 2});
    let drawn = gateway.post("/api/v1/images/generations", &body).await.expect(200);
    assert_eq!(drawn["data"].as_array().unwrap().len(), 2);
    let image = BASE64_STANDARD.decode(drawn["data"][0]["b64_json"].as_str().unwrap()).unwrap();
    assert!(image.starts_with(b"\x89PNG"), "{image:?}");
}
