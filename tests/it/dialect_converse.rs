//! Amazon Bedrock as upstream: Converse with a key and with signed calls, and Claude in its own API, at Bedrock and at
//! Vertex AI.

use std::time::Duration;

use actix_web::http::Method;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    amazon::{answer_of, exception, frame},
    harness::TestGateway,
    scripted::{Script, Upstream},
    world::{World, always, and, ask, completion, error_of, http_with, provider_key, stream_of},
};

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-6-v1:0";

/// A gateway with `acme/small` at Bedrock with these settings, and, for more money, at `spare`, which speaks chat.
async fn gateway(cloud: &Upstream, model: &str, toml: &str, spare: Option<&Upstream>) -> TestGateway {
    let address = cloud.address();
    let endpoint = |provider: &str, name: &str, price: &str| {
        format!(
            "{{ provider = \"{provider}\", upstream_model = \"{name}\", pricing = {{ prompt = \"{price}\", completion = \"{price}\" }} }}"
        )
    };
    let mut endpoints = vec![endpoint("bedrock", model, "0.000001")];
    let mut world = World::new();
    if let Some(spare) = spare {
        world = world.provider("spare", spare.address());
        endpoints.push(endpoint("spare", "spare", "0.001"));
    }
    world
        .with(&format!(
            "[providers.bedrock]\nbase_url = \"http://{address}\"\n{toml}\n[[models]]\nid = \"acme/small\"\ncontext_length = \
             100000\ninput_modalities = [\"text\", \"image\"]\nsupported_parameters = [\"max_tokens\", \"tools\", \
             \"tool_choice\", \"reasoning\"]\nendpoints = [{}]",
            endpoints.join(", ")
        ))
        .variable("BEDROCK_KEY", &provider_key("bedrock"))
        .variable("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .variable("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
        .variable("AWS_SESSION_TOKEN", "session-5ec2e7")
        .start()
        .await
}

const KEY: &str = "dialect = \"converse\"\napi_key_env = \"BEDROCK_KEY\"";

fn answer() -> Value {
    json!({
        "output": {"message": {"role": "assistant", "content": [{"text": "Left."}]}}, "stopReason": "end_turn",
        "usage": {"inputTokens": 10, "outputTokens": 2, "totalTokens": 12}, "metrics": {"latencyMs": 9},
    })
}

fn text(text: &str) -> Vec<u8> {
    frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": text}}))
}

fn start() -> Vec<u8> {
    frame("messageStart", &json!({"role": "assistant"}))
}

#[actix_web::test]
async fn a_chat_is_answered_by_converse_with_a_bedrock_key_as_bearer() {
    let cloud = always(200, &answer());
    let gateway = gateway(&cloud, CLAUDE, KEY, None).await;
    let reply = gateway.chat(&ask("acme/small")).await;
    let answer = reply.expect(200);
    assert_eq!(answer["choices"][0]["message"]["content"], "Left.");
    assert_eq!((&answer["usage"]["prompt_tokens"], &answer["usage"]["completion_tokens"]), (&json!(10), &json!(2)));
    let sent = cloud.requests().remove(0);
    let line = "POST /model/us.anthropic.claude-sonnet-4-6-v1%3A0/converse HTTP/1.1\r\n";
    assert!(sent.starts_with(line), "{sent}");
    assert!(sent.contains(&format!("authorization: Bearer {}\r\n", provider_key("bedrock"))), "{sent}");
    assert!(cloud.last_body().get("model").is_none());
}

#[actix_web::test]
async fn a_call_is_signed_with_the_keys_of_the_account_and_the_model_is_escaped_once_in_the_request_line() {
    let cloud = always(200, &answer());
    let toml = "dialect = \"converse\"\nauth = \"sigv4\"\nregion = \"eu-central-1\"";
    let gateway = gateway(&cloud, CLAUDE, toml, None).await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    let sent = cloud.requests().remove(0);
    assert!(sent.starts_with("POST /model/us.anthropic.claude-sonnet-4-6-v1%3A0/converse HTTP/1.1\r\n"), "{sent}");
    let head = sent.split_once("\r\n\r\n").unwrap().0;
    let authorization = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap();
    assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"), "{authorization}");
    assert!(authorization.contains("/eu-central-1/bedrock/aws4_request"), "{authorization}");
    assert!(authorization.contains("SignedHeaders=host;x-amz-date;x-amz-security-token"), "{authorization}");
    assert!(head.contains("x-amz-security-token: session-5ec2e7\r\n"), "{head}");
    assert!(!sent.contains("wJalrXUtnFEMI"), "the secret stays here");
}

#[actix_web::test]
async fn an_exception_before_content_fails_over_and_after_content_is_one_error_chunk() {
    let busy = answer_of(&[start(), exception("throttlingException", "Too many requests")]);
    let cloud = Upstream::start([Script::answering(busy)]);
    let spare = Upstream::start([Script::answering(stream_of(&["Right."]))]);
    let before = gateway(&cloud, CLAUDE, KEY, Some(&spare)).await;
    let streamed = and(ask("acme/small"), json!({"stream": true}));
    let reply = before.chat(&streamed).await;
    assert_eq!(reply.content(), "Right.", "{}", reply.text());
    let id = reply.header("x-generation-id").unwrap();
    let record = before.get(&format!("/api/v1/generation?id={id}")).await;
    assert!(record.text().contains("rate_limited"), "{}", record.text());

    let (begun, end) = ([start(), text("Le")], exception("throttlingException", "Too many requests"));
    let whole = answer_of(&[begun.concat(), end.clone()]);
    let begun = whole.strip_suffix(&end[..]).unwrap();
    let cloud = Upstream::start([Script::new().request().send(begun).pause(Duration::from_millis(100)).send(end)]);
    let after = gateway(&cloud, CLAUDE, KEY, Some(&spare)).await;
    let reply = after.chat(&streamed).await;
    let errors: Vec<Value> = reply.events().into_iter().filter(|event| event.get("error").is_some()).collect();
    assert_eq!(errors.len(), 1, "{}", reply.text());
    assert_eq!(errors[0]["choices"][0]["finish_reason"], "error", "{}", errors[0]);
    assert!(
        !reply.text().contains("Too many requests") && reply.text().ends_with("data: [DONE]\n\n"),
        "{}",
        reply.text()
    );
}

#[actix_web::test]
async fn a_200_whose_body_is_a_message_is_answered_by_another_provider() {
    let cloud = always(200, &json!({"message": "Too many requests, please wait before trying again."}));
    let spare = always(200, &completion("Right."));
    let gateway = gateway(&cloud, CLAUDE, KEY, Some(&spare)).await;
    let reply = gateway.chat(&ask("acme/small")).await;
    assert_eq!(reply.expect(200)["choices"][0]["message"]["content"], "Right.");
    assert_eq!(reply.header("x-route-attempts"), Some("2"));
}

#[actix_web::test]
async fn a_frame_that_announces_more_than_an_event_may_hold_is_a_failure_at_once() {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ncontent-length: 99999999\r\n\r\n";
    let huge = [head.as_bytes(), &start(), &0x7fff_ffff_u32.to_be_bytes()].concat();
    // The connection stays open: the refusal does not wait for the frame.
    let cloud = Upstream::start([Script::new().request().send(huge)]);
    let spare = Upstream::start([Script::answering(stream_of(&["Right."]))]);
    let gateway = gateway(&cloud, CLAUDE, KEY, Some(&spare)).await;
    let reply = gateway.chat(&and(ask("acme/small"), json!({"stream": true}))).await;
    assert_eq!(reply.content(), "Right.", "{}", reply.text());
}

#[actix_web::test]
async fn what_converse_has_no_word_for_is_never_sent_there() {
    let tool =
        json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}});
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let history = json!({"tools": [tool], "tool_choice": "none", "messages": [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "b"},
    ]});
    let picture = json!([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]);
    let remote = json!({"messages": [{"role": "user", "content": picture}]});
    for (request, param, word) in [(history, "tool_choice", "tool_choice.none"), (remote, "messages", "media_url")] {
        let (cloud, spare) = (always(200, &answer()), always(200, &completion("Right.")));
        let both = gateway(&cloud, CLAUDE, KEY, Some(&spare)).await;
        let request = and(ask("acme/small"), request);
        let reply = both.chat(&request).await;
        assert_eq!(reply.expect(200)["choices"][0]["message"]["content"], "Right.");
        let preview = both.post("/api/v1/route/preview", &request).await;
        assert!(preview.text().contains(word), "{}", preview.text());
        assert!(cloud.requests().is_empty());
        let alone = gateway(&cloud, CLAUDE, KEY, None).await;
        let error = error_of(&alone.chat(&request).await, 400);
        assert_eq!(error["param"], param, "{error}");
        assert!(cloud.requests().is_empty());
    }
}

#[actix_web::test]
async fn an_expired_token_of_the_account_is_no_fault_of_the_client() {
    let refusal = http_with(
        403,
        "x-amzn-errortype: ExpiredTokenException\r\nx-amzn-requestid: 5ec2e7\r\n",
        &json!({"message": "The security token included in the request is expired"}),
    );
    let cloud = Upstream::start([Script::answering(refusal)]);
    let gateway = gateway(&cloud, CLAUDE, KEY, None).await;
    let reply = gateway.chat(&ask("acme/small")).await;
    assert!(reply.status >= 500, "{} {}", reply.status, reply.text());
    assert!(!reply.text().contains("5ec2e7") && !reply.text().contains("security token"), "{}", reply.text());
}

fn message() -> Value {
    json!({
        "id": "msg_bdrk_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Left."}], "usage": {"input_tokens": 20, "output_tokens": 5},
    })
}

/// The frames of a streamed message.
fn message_frames() -> Vec<Vec<u8>> {
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_bdrk_1", "type": "message", "role": "assistant", "model": "claude",
            "content": [], "stop_reason": null, "usage": {"input_tokens": 20, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Left."}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ];
    let chunk = |event: &Value| frame("chunk", &json!({"bytes": STANDARD.encode(event.to_string()), "p": "abc"}));
    events.iter().map(chunk).collect()
}

const INVOKE: &str = "dialect = \"anthropic\"\nroutes = \"bedrock\"\nauth = \"bearer\"\napi_key_env = \"BEDROCK_KEY\"";

#[actix_web::test]
async fn a_message_for_claude_at_bedrock_is_spliced_with_the_version_and_the_betas_in_its_body() {
    let cloud = always(200, &message());
    let gateway = gateway(&cloud, CLAUDE, INVOKE, None).await;
    let request = json!({"model": "acme/small", "max_tokens": 9, "odd": 1.0, "messages": [{"role": "user", "content": "caf\u{e9}"}]});
    let headers = [
        ("content-type", "application/json"),
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "context-1m-2025-08-07,other-2026-01-01"),
    ];
    let body = Some(request.to_string().into_bytes());
    let reply = gateway.call(Method::POST, "/v1/messages", &headers, body).await;
    assert_eq!(reply.expect(200)["content"][0]["text"], "Left.");
    let sent = cloud.requests().remove(0);
    assert!(sent.starts_with("POST /model/us.anthropic.claude-sonnet-4-6-v1%3A0/invoke HTTP/1.1\r\n"), "{sent}");
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(!head.to_lowercase().contains("anthropic-beta"), "{head}");
    let expected = "{\"anthropic_version\":\"bedrock-2023-05-31\",\"anthropic_beta\":[\"context-1m-2025-08-07\",\"other-2026-01-01\"],";
    assert!(body.starts_with(expected), "{body}");
    assert!(body.contains("\"odd\":1.0") && !body.contains("\"model\"") && !body.contains("\"stream\""), "{body}");
}

#[actix_web::test]
async fn a_later_version_of_the_messages_api_goes_to_the_clouds_as_the_client_names_it() {
    for (routes, own_name) in [("bedrock", "bedrock-2023-05-31"), ("vertex", "vertex-2023-10-16")] {
        let cloud = always(200, &message());
        let toml =
            format!("dialect = \"anthropic\"\nroutes = \"{routes}\"\nauth = \"bearer\"\napi_key_env = \"BEDROCK_KEY\"");
        let gateway = gateway(&cloud, CLAUDE, &toml, None).await;
        let request = json!({"model": "acme/small", "max_tokens": 9, "messages": [{"role": "user", "content": "a"}]});
        for (asked, sent) in [("2026-10-21", "2026-10-21"), ("2023-06-01", own_name)] {
            let headers = [("content-type", "application/json"), ("anthropic-version", asked)];
            let body = Some(request.to_string().into_bytes());
            gateway.call(Method::POST, "/v1/messages", &headers, body).await.expect(200);
            assert_eq!(cloud.last_body()["anthropic_version"], sent);
        }
        // Who speaks another dialect names none.
        gateway.chat(&ask("acme/small")).await.expect(200);
        assert_eq!(cloud.last_body()["anthropic_version"], own_name);
    }
}

#[actix_web::test]
async fn a_stream_of_claude_at_bedrock_comes_as_server_sent_events_to_clients_of_both_dialects() {
    let cloud = Upstream::start([Script::answering(answer_of(&message_frames()))]);
    let one = gateway(&cloud, CLAUDE, INVOKE, None).await;
    let reply = one.chat(&and(ask("acme/small"), json!({"stream": true}))).await;
    assert_eq!(reply.content(), "Left.", "{}", reply.text());
    let sent = cloud.requests().remove(0);
    assert!(sent.contains("/invoke-with-response-stream HTTP/1.1\r\n"), "{sent}");
    let body = cloud.last_body();
    assert_eq!((&body["anthropic_version"], body.get("stream")), (&json!("bedrock-2023-05-31"), None));

    let cloud = Upstream::start([Script::answering(answer_of(&message_frames()))]);
    let other = gateway(&cloud, CLAUDE, INVOKE, None).await;
    let request =
        json!({"model": "acme/small", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "a"}]});
    let reply = other.post("/v1/messages", &request).await;
    let text = reply.text();
    assert!(text.contains("event: message_start\n") && text.contains("\"text\":\"Left.\""), "{text}");
    assert!(text.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"), "{text}");
    assert!(!text.contains("msg_bdrk_1"), "{text}");
}

#[actix_web::test]
async fn a_message_for_claude_at_vertex_names_the_model_in_the_path() {
    let cloud = always(200, &message());
    let toml = "dialect = \"anthropic\"\nroutes = \"vertex\"\nauth = \"bearer\"\napi_key_env = \"BEDROCK_KEY\"";
    let gateway = gateway(&cloud, "claude-sonnet-4-6@20260101", toml, None).await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    let sent = cloud.requests().remove(0);
    assert!(sent.starts_with("POST /models/claude-sonnet-4-6%4020260101:rawPredict HTTP/1.1\r\n"), "{sent}");
    let body = cloud.last_body();
    assert_eq!(body["anthropic_version"], "vertex-2023-10-16");
    assert!(body.get("model").is_none() && body["max_tokens"].is_u64(), "{body}");
}
