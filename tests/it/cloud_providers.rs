//! Providers whose addresses and keys differ from those of the maker of their dialect: Azure, Bedrock, Vertex AI.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::{
    folder::Folder,
    harness::TestGateway,
    patience::eventually,
    scripted::{Script, Upstream},
    world::{World, always, and, ask, completion, error_of, http, provider_key},
};

/// A gateway with the model `acme/small`, named `my model` at a provider with this path of its address and these keys.
async fn gateway(cloud: &Upstream, path: &str, toml: &str) -> TestGateway {
    let address = cloud.address();
    World::new()
        .with(&format!(
            "[providers.cloud]\nbase_url = \"http://{address}{path}\"\napi_key_env = \"CLOUD_KEY\"\n{toml}\n[[models]]\nid = \
             \"acme/small\"\ncontext_length = 100000\nsupported_parameters = [\"max_tokens\"]\nendpoints = [{{ provider = \
             \"cloud\", upstream_model = \"my model\", pricing = {{ prompt = \"0.000001\", completion = \"0.000002\" }} }}]"
        ))
        .variable("CLOUD_KEY", &provider_key("cloud"))
        .start()
        .await
}

fn stream(events: &[Value]) -> String {
    let mut body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    body.push_str("data: [DONE]\n\n");
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

const DATED: &str = "/openai?api-version=2024-10-21";
const AZURE: &str = "auth = \"api-key\"\n";
const AZURE_DATED: &str = "auth = \"api-key\"\nroutes = \"deployments\"\n";

#[actix_web::test]
async fn the_v1_form_of_azure_names_the_deployment_in_the_body_and_sends_the_key_in_api_key_only() {
    let cloud = always(200, &completion("Left."));
    let gateway = gateway(&cloud, "/openai/v1", AZURE).await;
    let reply = gateway.chat(&ask("acme/small")).await;
    assert_eq!(reply.expect(200)["choices"][0]["message"]["content"], "Left.");
    let sent = cloud.requests().remove(0);
    assert!(sent.starts_with("POST /openai/v1/chat/completions HTTP/1.1\r\n"), "{sent}");
    let head = sent.to_lowercase();
    assert!(head.contains(&format!("\r\napi-key: {}\r\n", provider_key("cloud"))), "{sent}");
    assert!(!head.contains("authorization"), "{sent}");
    assert_eq!(cloud.last_body()["model"], "my model");
}

#[actix_web::test]
async fn the_dated_form_of_azure_names_the_deployment_in_the_path_and_the_version_in_the_query() {
    let cloud = always(200, &completion("Left."));
    let gateway = gateway(&cloud, DATED, AZURE_DATED).await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    let sent = cloud.requests().remove(0);
    let line = "POST /openai/deployments/my%20model/chat/completions?api-version=2024-10-21 HTTP/1.1\r\n";
    assert!(sent.starts_with(line), "{sent}");
}

#[actix_web::test]
async fn notes_of_a_content_filter_are_neither_content_nor_sent_to_clients() {
    let filter = json!({"hate": {"filtered": false, "severity": "safe"}});
    let choice = |more: Value| json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "choices": [more]});
    let cloud = Upstream::start([Script::answering(stream(&[
        json!({"id": "", "model": "", "created": 0, "object": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0,
            "content_filter_results": filter}]}),
        choice(json!({"index": 0, "delta": {"role": "assistant", "content": "Left."}, "finish_reason": null,
            "content_filter_results": filter})),
        choice(json!({"index": 0, "finish_reason": null, "content_filter_offsets": {"start_offset": 0},
            "content_filter_results": filter})),
        choice(json!({"index": 0, "delta": {}, "finish_reason": "stop", "content_filter_results": {}})),
    ]))]);
    let gateway = gateway(&cloud, DATED, AZURE_DATED).await;
    let reply = gateway.chat(&and(ask("acme/small"), json!({"stream": true}))).await;
    assert_eq!(reply.content(), "Left.", "{}", reply.text());
    assert!(!reply.text().contains("filter"), "{}", reply.text());
    assert!(reply.text().ends_with("data: [DONE]\n\n"), "{}", reply.text());
}

#[actix_web::test]
async fn notes_of_a_content_filter_are_cut_from_a_whole_answer() {
    let mut answer = completion("Left.");
    answer["prompt_filter_results"] = json!([{"prompt_index": 0}]);
    answer["choices"][0]["content_filter_results"] = json!({"hate": {"filtered": false}});
    let cloud = always(200, &answer);
    let gateway = gateway(&cloud, "/openai/v1", AZURE).await;
    let reply = gateway.chat(&ask("acme/small")).await;
    assert_eq!(reply.expect(200)["choices"][0]["message"]["content"], "Left.");
    assert!(!reply.text().contains("filter"), "{}", reply.text());
}

#[actix_web::test]
async fn a_filtered_prompt_is_the_clients_fault_and_a_missing_deployment_is_not() {
    let filtered = json!({"error": {"message": "The response was filtered.", "type": null, "param": "prompt", "code":
        "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"}}});
    let cloud = always(400, &filtered);
    let azure = gateway(&cloud, "/openai/v1", AZURE).await;
    let error = error_of(&azure.chat(&ask("acme/small")).await, 400);
    assert_eq!(error["metadata"]["error_type"], "content_policy_violation", "{error}");
    for _ in 0..4 {
        azure.chat(&ask("acme/small")).await;
    }
    assert_eq!(cloud.requests().len(), 5, "the endpoint is as well as before");
    let health = azure.get("/api/v1/health/providers/cloud").await.expect(200);
    assert!(health.to_string().contains("\"closed\"") && !health.to_string().contains("\"open\""), "{health}");
    let spoken =
        Upstream::start([Script::answering(stream(&[json!({"error": {"code": "content_filter", "message": "x"}})]))]);
    let azure = gateway(&spoken, "/openai/v1", AZURE).await;
    let reply = azure.chat(&and(ask("acme/small"), json!({"stream": true}))).await;
    let error = error_of(&reply, 400);
    assert_eq!(error["metadata"]["error_type"], "content_policy_violation", "the same within a stream: {error}");
    let missing = json!({"error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}});
    let cloud = always(404, &missing);
    let azure = gateway(&cloud, DATED, AZURE_DATED).await;
    let reply = azure.chat(&ask("acme/small")).await;
    assert!(reply.status >= 500, "{} {}", reply.status, reply.text());
}

#[actix_web::test]
async fn the_openai_format_route_of_bedrock_takes_a_key_as_bearer() {
    let cloud = always(200, &completion("Left."));
    let gateway = gateway(&cloud, "/openai/v1", "").await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    let sent = cloud.requests().remove(0);
    assert!(sent.starts_with("POST /openai/v1/chat/completions HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains(&format!("authorization: Bearer {}\r\n", provider_key("cloud"))), "{sent}");
    assert!(!sent.to_lowercase().contains("\r\napi-key: "), "{sent}");
}

#[actix_web::test]
async fn the_anthropic_format_route_of_bedrock_takes_a_key_as_bearer_and_not_as_x_api_key() {
    let cloud = always(200, &message());
    let gateway = gateway(&cloud, "/anthropic/v1", "dialect = \"anthropic\"\nauth = \"bearer\"\n").await;
    let reply = gateway.chat(&ask("acme/small")).await;
    assert_eq!(reply.expect(200)["choices"][0]["message"]["content"], "Left.");
    let sent = cloud.requests().remove(0);
    assert!(sent.starts_with("POST /anthropic/v1/messages HTTP/1.1\r\n"), "{sent}");
    let head = sent.to_lowercase();
    assert!(sent.contains(&format!("authorization: Bearer {}\r\n", provider_key("cloud"))), "{sent}");
    assert!(!head.contains("x-api-key"), "{sent}");
    assert!(head.contains("anthropic-version: 2023-06-01\r\n"), "{sent}");
}

/// A message as the Anthropic API answers it.
fn message() -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Left."}], "usage": {"input_tokens": 20, "output_tokens": 5},
    })
}

/// An answer of the token endpoint of a service account: a token that is valid for so long.
fn token(name: &str, seconds: u64) -> Script {
    let answer = json!({"access_token": format!("ya29.{name}"), "expires_in": seconds, "token_type": "Bearer"});
    Script::answering(http(200, &answer))
}

/// The key file of a service account that gets its tokens at that endpoint.
fn account(tokens: &Upstream) -> String {
    let key = include_str!("fixtures/service_account/key.pem");
    json!({
        "type": "service_account", "client_email": "gateway@project.example", "private_key_id": "k1", "private_key": key,
        "token_uri": tokens.url("/token"),
    })
    .to_string()
}

/// A model at Vertex AI, whose key stands where `key` says.
fn at_vertex(cloud: &Upstream, key: &str) -> World {
    let address = cloud.address();
    World::new().with(&format!(
        "[providers.cloud]\nbase_url = \"http://{address}/v1/projects/p/locations/europe-west4/publishers/google\"\n\
         dialect = \"gemini\"\nauth = \"service-account\"\n{key}\n[[models]]\nid = \"acme/small\"\n\
         context_length = 100000\nendpoints = [{{ provider = \"cloud\", upstream_model = \"gemini-3.8-flash\", pricing = \
         {{ prompt = \"0.000001\", completion = \"0.000002\" }} }}]"
    ))
}

/// A gateway with a model at Vertex AI, called with tokens from that endpoint.
async fn vertex(cloud: &Upstream, tokens: &Upstream) -> TestGateway {
    at_vertex(cloud, "api_key_env = \"CLOUD_KEY\"").variable("CLOUD_KEY", &account(tokens)).start().await
}

/// An answer of Gemini, also as the one event of a stream.
fn candidate() -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": "Left."}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12},
    })
}

/// The tokens that the calls carried, in order.
fn tokens_of(cloud: &Upstream) -> Vec<String> {
    let token = |request: &String| {
        let (_, rest) = request.split_once("authorization: Bearer ").unwrap();
        rest.split_once("\r\n").unwrap().0.to_owned()
    };
    cloud.requests().iter().map(token).collect()
}

#[actix_web::test]
async fn a_service_account_is_exchanged_once_for_a_token_that_vertex_is_called_with() {
    let cloud = always(200, &candidate());
    let tokens = Upstream::start([token("token-5ec2e7-of-the-account", 3_600)]);
    let gateway = vertex(&cloud, &tokens).await;
    for _ in 0..2 {
        let reply = gateway.chat(&ask("acme/small")).await;
        assert_eq!(reply.expect(200)["choices"][0]["message"]["content"], "Left.");
    }
    let sent = cloud.requests().remove(1);
    let path = "/v1/projects/p/locations/europe-west4/publishers/google/models/gemini-3.8-flash:generateContent";
    assert!(sent.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{sent}");
    assert!(sent.contains("authorization: Bearer ya29.token-5ec2e7-of-the-account\r\n"), "{sent}");
    assert!(!sent.to_lowercase().contains("x-goog-api-key"), "{sent}");
    let asked = tokens.requests();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].starts_with("POST /token HTTP/1.1\r\n"), "{}", asked[0]);
    assert!(asked[0].contains("content-type: application/x-www-form-urlencoded\r\n"), "{}", asked[0]);
    let form = asked[0].split_once("\r\n\r\n").unwrap().1;
    let start = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=ey";
    assert!(form.starts_with(start) && form.matches('.').count() == 2, "{form}");
}

#[actix_web::test]
async fn a_refused_service_account_is_a_fault_of_the_provider_and_calls_nothing() {
    let cloud = always(200, &json!({}));
    let tokens = always(400, &json!({"error": "invalid_grant"}));
    let gateway = vertex(&cloud, &tokens).await;
    let reply = gateway.chat(&ask("acme/small")).await;
    assert!(reply.status >= 500, "{} {}", reply.status, reply.text());
    assert_eq!(tokens.requests().len(), 1);
    assert!(cloud.requests().is_empty());
}

#[actix_web::test]
async fn a_token_endpoint_that_is_broken_or_busy_is_no_refusal_of_the_account() {
    for status in [429, 500, 503] {
        let cloud = always(200, &candidate());
        let broken = Script::answering(http(status, &json!({"error": "internal_failure"})));
        let tokens = Upstream::start([broken, token("later", 3_600)]);
        let gateway = vertex(&cloud, &tokens).await;
        let first = gateway.chat(&ask("acme/small")).await;
        assert!([429, 502, 503].contains(&first.status), "{status}: {}", first.text());
        let again = async || gateway.chat(&ask("acme/small")).await.status;
        eventually(format!("{status}: a call with the next token"), again, |status| *status == 200).await;
        let health = gateway.get("/api/v1/health/providers/cloud").await.expect(200)["data"][0].take();
        assert_eq!(health["errors"]["auth"], 0, "{health}");
    }
}

#[actix_web::test]
async fn a_stream_from_vertex_with_a_key_file_is_relayed() {
    let body = format!("data: {}\r\n\r\n", candidate());
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n");
    let cloud = Upstream::start([Script::answering(format!("{head}{body}"))]);
    let tokens = Upstream::start([token("first", 3_600)]);
    let folder = Folder::new();
    folder.put("account.json", &account(&tokens));
    let path = folder.at("account.json");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let gateway = at_vertex(&cloud, &format!("api_key_file = {path:?}")).start().await;
    let reply = gateway.chat(&and(ask("acme/small"), json!({"stream": true}))).await;
    assert_eq!(reply.content(), "Left.", "{}", reply.text());
    let sent = cloud.requests().remove(0);
    let path = "/v1/projects/p/locations/europe-west4/publishers/google/models/gemini-3.8-flash:streamGenerateContent";
    assert!(sent.starts_with(&format!("POST {path}?alt=sse HTTP/1.1\r\n")), "{sent}");
    assert_eq!(tokens_of(&cloud), ["ya29.first"]);
}

#[actix_web::test]
async fn a_token_is_renewed_behind_the_calls_before_it_ends() {
    let cloud = always(200, &candidate());
    // It ends in four minutes: within the five in which it is renewed.
    let tokens = Upstream::start([token("first", 240), token("second", 3_600)]);
    let gateway = vertex(&cloud, &tokens).await;
    let call = async || gateway.chat(&ask("acme/small")).await.expect(200);
    call().await;
    let calls = async || {
        call().await;
        tokens_of(&cloud)
    };
    let used = eventually("the second token is used", calls, |used| used.last().unwrap() == "ya29.second").await;
    assert_eq!(used[..2], ["ya29.first"; 2], "a call waits for no renewal");
    assert_eq!(tokens.requests().len(), 2);
}

#[actix_web::test]
async fn a_token_that_is_about_to_end_is_not_used() {
    let cloud = always(200, &candidate());
    let tokens = Upstream::start([token("first", 5), token("second", 3_600)]);
    let gateway = vertex(&cloud, &tokens).await;
    for _ in 0..3 {
        gateway.chat(&ask("acme/small")).await.expect(200);
    }
    // The first call uses what it got.
    assert_eq!(tokens_of(&cloud), ["ya29.first", "ya29.second", "ya29.second"]);
}

/// A refusal that repeats the token.
fn withdrawn(name: &str) -> String {
    let message = format!("ya29.{name} is no token");
    http(401, &json!({"error": {"code": 401, "status": "UNAUTHENTICATED", "message": message}}))
}

#[actix_web::test]
async fn a_token_that_was_withdrawn_is_replaced_in_the_same_call() {
    let answers = Script::new().request().send(http(200, &candidate()));
    let refuses = Script::new().request().send(withdrawn("first"));
    let cloud = Upstream::start([refuses.then(&answers), answers]);
    let tokens = Upstream::start([token("first", 3_600), token("second", 3_600)]);
    let gateway = vertex(&cloud, &tokens).await;
    let reply = gateway.chat(&ask("acme/small")).await;
    assert_eq!(reply.expect(200)["choices"][0]["message"]["content"], "Left.");
    assert_eq!(tokens_of(&cloud), ["ya29.first", "ya29.second"]);
}

#[actix_web::test]
async fn two_refused_tokens_are_a_fault_of_the_provider_and_are_never_shown() {
    let cloud =
        Upstream::start([Script::answering(withdrawn("first-5ec2e7")), Script::answering(withdrawn("next-5ec2e7"))]);
    let tokens = Upstream::start([token("first-5ec2e7", 3_600), token("next-5ec2e7", 3_600)]);
    let gateway = vertex(&cloud, &tokens).await;
    let reply = gateway.chat(&ask("acme/small")).await;
    assert!(reply.status >= 500 && !reply.text().contains("5ec2e7"), "{} {}", reply.status, reply.text());
    assert_eq!(tokens_of(&cloud), ["ya29.first-5ec2e7", "ya29.next-5ec2e7"]);
}
