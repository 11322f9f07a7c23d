use pointsman_domain::{EndpointId, Model, ParameterNames, Provider, ProviderSlug};
use serde_json::{Value, json};

use super::*;
use crate::openai::request::{ChatPurpose, RequestLimits};

const CLAUDE: &str = "anthropic.claude-x";

/// The path and the body of the count of a chat at such an endpoint.
fn asked((dialect, platform): (Dialect, Platform), model: &str) -> Option<(String, Value)> {
    let id = EndpointId::new("acme/m", "cloud", "");
    let endpoint = Endpoint { dialect, platform, counts_tokens: true, ..Endpoint::with_defaults(id, 0, 0, model) };
    let provider = Provider::with_defaults(ProviderSlug::new("cloud").unwrap());
    let models = vec![Model::with_defaults("acme/m".parse().unwrap(), vec![0])];
    let parameters = ParameterNames::published();
    let catalog = Catalog::new(1, vec![provider], models, vec![endpoint.clone()], vec![], &[], parameters).unwrap();
    let chat = json!({
        "model": "acme/m", "stop": ["."], "stream": true,
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    });
    let chat = ChatRequest::parse(Bytes::from(chat.to_string()), ChatPurpose::Chat, &RequestLimits::default()).unwrap();
    let call = count_request(&chat, &catalog, &endpoint)?;
    Some((call.path.to_string(), serde_json::from_slice(&call.body).unwrap()))
}

#[track_caller]
fn names(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_message_is_counted_without_what_only_its_answer_needs() {
    let (path, body) = asked((Dialect::Anthropic, Platform::Native), "claude-x").unwrap();
    assert_eq!(path, "/messages/count_tokens");
    assert_eq!(names(&body), ["messages", "model", "system"]);
    let (path, body) = asked((Dialect::Anthropic, Platform::Vertex), "claude-x@20260101").unwrap();
    assert_eq!(path, "/models/count-tokens:rawPredict");
    assert_eq!(names(&body), ["anthropic_version", "messages", "model", "system"]);
    assert_eq!(body["model"], "claude-x@20260101");
}

#[test]
fn amazon_counts_what_converse_and_invoke_model_would_get() {
    let (path, body) = asked((Dialect::Converse, Platform::Native), CLAUDE).unwrap();
    assert_eq!(path, "/model/anthropic.claude-x/count-tokens");
    assert_eq!(names(&body["input"]["converse"]), ["messages", "system"]);
    let (path, body) = asked((Dialect::Anthropic, Platform::Bedrock), CLAUDE).unwrap();
    assert_eq!(path, "/model/anthropic.claude-x/count-tokens");
    let packed = STANDARD.decode(body["input"]["invokeModel"]["body"].as_str().unwrap()).unwrap();
    let packed: Value = serde_json::from_slice(&packed).unwrap();
    assert!(packed["max_tokens"].as_u64().unwrap() > 0, "{packed}");
    assert_eq!(packed["anthropic_version"], "bedrock-2023-05-31");
}

#[test]
fn gemini_counts_a_whole_request_and_vertex_the_parts_of_one() {
    let (path, body) = asked((Dialect::Gemini, Platform::Native), "gemini-x").unwrap();
    assert_eq!(path, "/models/gemini-x:countTokens");
    let request = &body["generateContentRequest"];
    assert_eq!(request["model"], "models/gemini-x");
    assert_eq!(request["contents"][0]["parts"][0]["text"], "hi");
    let (path, body) = asked((Dialect::Gemini, Platform::Vertex), "gemini-x").unwrap();
    assert_eq!(path, "/models/gemini-x:countTokens");
    assert_eq!(body["systemInstruction"]["parts"][0]["text"], "Be short.");
    assert!(body.get("model").is_none(), "{body}");
}

#[test]
fn a_response_is_counted_without_what_only_its_answer_needs() {
    let (path, body) = asked((Dialect::Responses, Platform::Native), "gpt-5.6").unwrap();
    assert_eq!(path, "/responses/input_tokens");
    assert_eq!(names(&body), ["input", "instructions", "model"]);
    assert!(counts_tokens(Dialect::Responses, "gpt-5.6"));
    for others in ["openai/gpt-5.6", "openai.gpt-oss-120b", "local"] {
        assert!(!counts_tokens(Dialect::Responses, others), "{others}");
    }
}

#[test]
fn others_are_estimated() {
    assert!(asked((Dialect::OpenAi, Platform::Native), "gpt-x").is_none());
    assert!(!counts_tokens(Dialect::Converse, "amazon.nova-pro-v1:0"));
    assert!(counts_tokens(Dialect::Converse, "us.anthropic.claude-x"));
}

#[test]
fn a_count_is_read_whoever_counted() {
    for answer in [r#"{"input_tokens":7}"#, r#"{"inputTokens":7}"#, r#"{"totalTokens":7,"cachedContentTokenCount":0}"#]
    {
        assert_eq!(counted_tokens(answer.as_bytes()), Some(7), "{answer}");
    }
    for answer in ["{}", "", "[]", r#"{"input_tokens":0}"#, r#"{"input_tokens":-1}"#, r#"{"error":{"message":"no"}}"#] {
        assert_eq!(counted_tokens(answer.as_bytes()), None, "{answer}");
    }
}
