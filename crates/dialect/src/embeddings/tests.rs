use pointsman_domain::{EndpointId, FailureKind};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const GEMINI: &str = "gemini-embedding-001";
const STUDIO: (Dialect, Platform) = (Dialect::Gemini, Platform::Native);
const VERTEX: (Dialect, Platform) = (Dialect::Gemini, Platform::Vertex);
const BEDROCK: (Dialect, Platform) = (Dialect::Converse, Platform::Native);

fn endpoint((dialect, platform): (Dialect, Platform), model: &str) -> Endpoint {
    let id = EndpointId::new(model, "cloud", "");
    Endpoint { dialect, platform, ..Endpoint::with_defaults(id, 0, 0, model) }
}

/// The bodies of the calls that a request becomes, and the fields that were dropped.
fn written(at: (Dialect, Platform), model: &str, body: &str) -> Option<(Vec<String>, Vec<String>)> {
    written_for(&endpoint(at, model), body)
}

fn written_for(endpoint: &Endpoint, body: &str) -> Option<(Vec<String>, Vec<String>)> {
    let mut unsupported = UnsupportedFields::default();
    let bodies = EmbeddingApi::of_endpoint(endpoint)?.bodies(body, endpoint, &mut unsupported)?;
    let bodies = bodies.map(|body| String::from_utf8(body.to_vec()).unwrap()).collect();
    Some((bodies, unsupported.dropped().iter().map(ToString::to_string).collect()))
}

fn read(at: (Dialect, Platform), model: &str, inputs: usize, answers: &[&str]) -> Result<String, FailureKind> {
    let answers: Vec<BufferedAnswer> = answers
        .iter()
        .map(|body| BufferedAnswer { body: Bytes::from((*body).to_owned()), input_tokens: Some(5), service_tier: None })
        .collect();
    let joined = embeddings_of(&answers, inputs, &endpoint(at, model)).map_err(|fault| fault.kind)?;
    Ok(String::from_utf8(joined.to_vec()).unwrap())
}

#[track_caller]
fn sends(at: (Dialect, Platform), model: &str, body: &str, path: &str, expected: &[&str], dropped: &[&str]) {
    let (bodies, lost) = written(at, model, body).unwrap();
    assert_eq!(bodies, expected);
    assert_eq!(lost, dropped);
    assert_eq!(&*embedding_path(&endpoint(at, model)), path);
}

const ASKED: &str = r#"{"model":"m","input":["a\u00e9","b"],"dimensions":256,"encoding_format":"base64","user":"u","input_type":"search_query","truncate":"END"}"#;

#[test]
fn each_input_becomes_a_request_in_order_with_the_same_dimensions() {
    let request = |text: &str| {
        format!(
            r#"{{"model":"models/{GEMINI}","content":{{"parts":[{{"text":"{text}"}}]}},"outputDimensionality":256}}"#
        )
    };
    let expected = format!(r#"{{"requests":[{},{}]}}"#, request(r"a\u00e9"), request("b"));
    let path = "/models/gemini-embedding-001:batchEmbedContents";
    sends(STUDIO, GEMINI, ASKED, path, &[&expected], &["input_type", "truncate", "user"]);
    let many: Vec<String> = (0..2_048).map(|n| n.to_string()).collect();
    let (bodies, _) = written(STUDIO, GEMINI, &json!({"input": many}).to_string()).unwrap();
    assert_eq!(bodies.len(), 21);
    let sent = bodies.iter().flat_map(|body| {
        let body: Value = serde_json::from_str(body).unwrap();
        let requests = body["requests"].as_array().unwrap().clone();
        assert!(requests.len() <= 100);
        requests.into_iter().map(|one| one["content"]["parts"][0]["text"].as_str().unwrap().to_owned())
    });
    assert!(sent.eq(many));
}

#[test]
fn vertex_predicts_with_older_models_and_embeds_one_content_a_call_with_gemini() {
    let predicted =
        r#"{"instances":[{"content":"a\u00e9"},{"content":"b"}],"parameters":{"outputDimensionality":256}}"#;
    let dropped = ["input_type", "truncate", "user"];
    sends(VERTEX, "text-embedding-005", ASKED, "/models/text-embedding-005:predict", &[predicted], &dropped);
    let content = |text: &str| {
        format!(
            r#"{{"content":{{"parts":[{{"text":"{text}"}}]}},"embedContentConfig":{{"outputDimensionality":256}}}}"#
        )
    };
    let path = "/models/gemini-embedding-2:embedContent";
    sends(VERTEX, "gemini-embedding-2", ASKED, path, &[&content(r"a\u00e9"), &content("b")], &dropped);
    let answer = r#"{"predictions":[{"embeddings":{"values":[0.10],"statistics":{"token_count":4,"truncated":false}}},{"embeddings":{"values":[2],"statistics":{"token_count":3.0}}}]}"#;
    let expected = r#"{"data":[{"index":0,"embedding":[0.10]},{"index":1,"embedding":[2]}],"usage":{"prompt_tokens":7,"total_tokens":7}}"#;
    assert_eq!(read(VERTEX, "text-embedding-005", 2, &[answer]).unwrap(), expected);
    let one = r#"{"embedding":{"values":[0.10]},"usageMetadata":{"promptTokenCount":4}}"#;
    let other = r#"{"embedding":{"values":[2]},"usageMetadata":{"promptTokenCount":3}}"#;
    assert_eq!(read(VERTEX, "gemini-embedding-2", 2, &[one, other]).unwrap(), expected);
}

#[test]
fn titan_embeds_one_text_a_call() {
    let calls = [r#"{"inputText":"a\u00e9","dimensions":256}"#, r#"{"inputText":"b","dimensions":256}"#];
    let path = "/model/amazon.titan-embed-text-v2%3A0/invoke";
    sends(BEDROCK, "amazon.titan-embed-text-v2:0", ASKED, path, &calls, &["input_type", "truncate", "user"]);
    let (bodies, _) = written(BEDROCK, "amazon.titan-embed-image-v1", r#"{"input":"x","dimensions":384}"#).unwrap();
    assert_eq!(bodies, [r#"{"inputText":"x","embeddingConfig":{"outputEmbeddingLength":384}}"#]);
    let one = r#"{"embedding":[0.5],"inputTextTokenCount":4,"message":null}"#;
    let other = r#"{"embedding":[1e-9],"inputTextTokenCount":2}"#;
    let expected = r#"{"data":[{"index":0,"embedding":[0.5]},{"index":1,"embedding":[1e-9]}],"usage":{"prompt_tokens":6,"total_tokens":6}}"#;
    assert_eq!(read(BEDROCK, "amazon.titan-embed-text-v2:0", 2, &[one, other]).unwrap(), expected);
}

#[test]
fn cohere_embeds_up_to_96_texts_a_call_and_counts_tokens_in_a_header() {
    let call = r#"{"texts":["a\u00e9","b"],"input_type":"search_query","truncate":"END","output_dimension":256}"#;
    let at = (Dialect::Anthropic, Platform::Bedrock);
    sends(at, "us.cohere.embed-v4:0", ASKED, "/model/us.cohere.embed-v4%3A0/invoke", &[call], &["user"]);
    let (bodies, _) = written(BEDROCK, "cohere.embed-english-v3", r#"{"input":["x"]}"#).unwrap();
    assert_eq!(bodies, [r#"{"texts":["x"],"input_type":"search_document"}"#]);
    let texts: Vec<String> = (0..193).map(|n| n.to_string()).collect();
    let (bodies, _) = written(BEDROCK, "cohere.embed-english-v3", &json!({"input": texts}).to_string()).unwrap();
    assert_eq!(bodies.len(), 3);
    let third = r#"{"embeddings":[[1],[2]],"id":"x","response_type":"embeddings_floats","texts":["a","b"]}"#;
    let fourth = r#"{"embeddings":{"float":[[1],[2]]},"response_type":"embeddings_by_type"}"#;
    let expected = r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[2]}],"usage":{"prompt_tokens":5,"total_tokens":5}}"#;
    for answer in [third, fourth] {
        assert_eq!(read(BEDROCK, "cohere.embed-english-v3", 2, &[answer]).unwrap(), expected);
    }
}

#[test]
fn a_configured_number_of_inputs_per_call_holds_where_a_call_takes_a_list() {
    let five = json!({"input": ["a", "b", "c", "d", "e"]}).to_string();
    for (at, model, calls) in [
        (STUDIO, GEMINI, 3),
        (VERTEX, "text-embedding-005", 3),
        (BEDROCK, "cohere.embed-english-v3", 3),
        (BEDROCK, "amazon.titan-embed-text-v2:0", 5),
    ] {
        let endpoint = Endpoint { inputs_per_call: Some(2), ..endpoint(at, model) };
        assert_eq!(written_for(&endpoint, &five).unwrap().0.len(), calls, "{model}");
    }
    let endpoint = Endpoint { inputs_per_call: Some(2), ..endpoint(STUDIO, GEMINI) };
    let answers = [r#"{"embeddings":[{"values":[1]},{"values":[2]}]}"#, r#"{"embeddings":[{"values":[3]}]}"#];
    let answers =
        answers.map(|body| BufferedAnswer { body: Bytes::from(body), input_tokens: None, service_tier: None });
    let joined: Value = serde_json::from_slice(&embeddings_of(&answers, 3, &endpoint).unwrap()).unwrap();
    assert_eq!(joined["data"].as_array().unwrap().len(), 3);
}

#[test]
fn nova_embeds_one_text_a_call_and_cuts_none() {
    let model = "amazon.nova-2-multimodal-embeddings-v1:0";
    let (bodies, _) = written(BEDROCK, model, r#"{"input":["x"],"dimensions":1024}"#).unwrap();
    let expected = r#"{"taskType":"SINGLE_EMBEDDING","singleEmbeddingParams":{"embeddingPurpose":"GENERIC_INDEX","embeddingDimension":1024,"text":{"truncationMode":"NONE","value":"x"}}}"#;
    assert_eq!(bodies, [expected]);
    let answer = r#"{"embeddings":[{"embeddingType":"TEXT","embedding":[0.25]}],"inputTokenCount":3}"#;
    let expected = r#"{"data":[{"index":0,"embedding":[0.25]}],"usage":{"prompt_tokens":3,"total_tokens":3}}"#;
    assert_eq!(read(BEDROCK, model, 1, &[answer]).unwrap(), expected);
}

#[test]
fn how_a_model_at_bedrock_is_called_must_follow_from_its_name() {
    let support = |(dialect, platform): (Dialect, Platform), model| embedding_support(dialect, platform, model);
    assert_eq!(support(BEDROCK, "arn:aws:bedrock:us-east-1:1:application-inference-profile/x"), EmbeddingSupport::None);
    assert_eq!(support(BEDROCK, "eu.cohere.embed-v4:0"), EmbeddingSupport::Texts);
    assert_eq!(support(STUDIO, "any"), EmbeddingSupport::Texts);
    assert_eq!(support((Dialect::OpenAi, Platform::Native), "any"), EmbeddingSupport::TextsAndTokens);
}

#[test]
fn token_ids_are_not_text() {
    for input in ["[1,2]", "[[1],[2]]", r#"["a",[1]]"#, "[]", "{}", "1"] {
        for (at, model) in [(STUDIO, GEMINI), (BEDROCK, "cohere.embed-v4:0")] {
            assert!(written(at, model, &format!(r#"{{"input":{input}}}"#)).is_none(), "{input}");
        }
    }
}

#[test]
fn vectors_keep_their_order_and_every_digit() {
    let body = r#"{"embeddings":[{"values":[0.10,-1e-9]},{"values":[1]}],"usageMetadata":{"promptTokenCount":7}}"#;
    let expected = r#"{"data":[{"index":0,"embedding":[0.10,-1e-9]},{"index":1,"embedding":[1]}],"usage":{"prompt_tokens":7,"total_tokens":7}}"#;
    assert_eq!(read(STUDIO, GEMINI, 2, &[body]).unwrap(), expected);
    let only = read(STUDIO, GEMINI, 1, &[r#"{"embedding":{"values":[2]}}"#]).unwrap();
    assert_eq!(only, r#"{"data":[{"index":0,"embedding":[2]}]}"#);
}

#[test]
fn a_failed_part_fails_the_whole() {
    let kind = |body: &str| read(STUDIO, GEMINI, 2, &[body]).unwrap_err();
    assert_eq!(kind(r#"{"embeddings":[{"values":[1]},{}]}"#), FailureKind::Malformed);
    assert_eq!(kind("{}"), FailureKind::Malformed);
    assert_eq!(kind(r#"{"embeddings":[{"values":[1]}"#), FailureKind::Truncated);
    assert_eq!(kind(r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}"#), FailureKind::RateLimited);
    let titan = "amazon.titan-embed-text-v2:0";
    let (vector, none) = (r#"{"embedding":[1],"inputTextTokenCount":1}"#, r#"{"message":"Too many requests"}"#);
    assert_eq!(read(BEDROCK, titan, 2, &[vector, none]), Err(FailureKind::Server));
    assert_eq!(read(BEDROCK, titan, 2, &[vector, r#"{"embedding":"x"}"#]), Err(FailureKind::Malformed));
    // A call that gives one vector too many does not make up for one that gives none.
    let (two, zero) = (r#"{"embeddings":[[1],[2]]}"#, r#"{"embeddings":[]}"#);
    assert_eq!(read(BEDROCK, "cohere.embed-v4:0", 97, &[two, zero]), Err(FailureKind::Malformed));
}

#[test]
fn tokens_of_some_calls_are_those_that_were_counted() {
    let answer =
        |body: &str| BufferedAnswer { body: Bytes::from(body.to_owned()), input_tokens: None, service_tier: None };
    let answers = [answer(r#"{"embedding":[1],"inputTextTokenCount":4}"#), answer("{")];
    assert_eq!(embedding_tokens(&answers, &endpoint(BEDROCK, "amazon.titan-embed-text-v2:0")), 4);
}

proptest! {
    #[test]
    fn every_text_arrives_and_no_bytes_cause_a_panic(
        texts in prop::collection::vec(any::<String>(), 1..5),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let asked = json!({"input": texts}).to_string();
        let noise = String::from_utf8_lossy(&bytes);
        let found = |at, model, pointer: &str| -> Vec<String> {
            let (bodies, _) = written(at, model, &asked).unwrap();
            let text = |body: &String| serde_json::from_str::<Value>(body).unwrap().pointer(pointer).unwrap().as_str().unwrap().to_owned();
            bodies.iter().map(text).collect()
        };
        prop_assert_eq!(&found(VERTEX, "gemini-embedding-2", "/content/parts/0/text"), &texts);
        prop_assert_eq!(&found(BEDROCK, "amazon.titan-embed-text-v2:0", "/inputText"), &texts);
        let nova = "amazon.nova-2-multimodal-embeddings-v1:0";
        prop_assert_eq!(&found(BEDROCK, nova, "/singleEmbeddingParams/text/value"), &texts);
        for (at, model) in [(STUDIO, GEMINI), (VERTEX, "text-embedding-005"), (BEDROCK, nova), (BEDROCK, "cohere.embed-v4:0")] {
            let _ = written(at, model, &noise);
            let _ = read(at, model, 1, &[&noise]);
        }
    }
}
