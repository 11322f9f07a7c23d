use proptest::prelude::*;

use super::{
    super::embeddings::{embeddings_of, embeddings_path, write_embeddings},
    *,
};

const MODEL: &str = "gemini-embedding-001";

fn written(body: &str) -> Option<(String, Vec<String>)> {
    let mut fates = FieldFates::default();
    let written = write_embeddings(body, &endpoint(MODEL), &mut fates)?;
    let dropped = fates.dropped().iter().map(ToString::to_string).collect();
    Some((String::from_utf8(written.to_vec()).unwrap(), dropped))
}

#[test]
fn each_input_becomes_a_request_in_order_with_the_same_dimensions() {
    let (body, dropped) =
        written(r#"{"model":"auto","input":["a\u00e9","b"],"dimensions":256,"encoding_format":"base64","user":"u"}"#)
            .unwrap();
    let request = |text: &str| {
        format!(
            r#"{{"model":"models/{MODEL}","content":{{"parts":[{{"text":"{text}"}}]}},"outputDimensionality":256}}"#
        )
    };
    assert_eq!(body, format!(r#"{{"requests":[{},{}]}}"#, request(r"a\u00e9"), request("b")));
    assert_eq!(dropped, ["user"]);
    assert_eq!(written(r#"{"input":"x"}"#).unwrap().0.matches("\"parts\"").count(), 1);
    assert_eq!(embeddings_path(&endpoint(MODEL)), "/models/gemini-embedding-001:batchEmbedContents");
}

#[test]
fn token_ids_are_not_text() {
    for input in ["[1,2]", "[[1],[2]]", r#"["a",[1]]"#, "[]", "{}", "1"] {
        assert_eq!(written(&format!(r#"{{"input":{input}}}"#)), None, "{input}");
    }
}

#[test]
fn vectors_keep_their_order_and_every_digit() {
    let body = r#"{"embeddings":[{"values":[0.10,-1e-9]},{"values":[1]}],"usageMetadata":{"promptTokenCount":7}}"#;
    let expected = r#"{"data":[{"index":0,"embedding":[0.10,-1e-9]},{"index":1,"embedding":[1]}],"usage":{"prompt_tokens":7,"total_tokens":7}}"#;
    assert_eq!(embeddings_of(body).unwrap(), expected);
    let only = embeddings_of(r#"{"embedding":{"values":[2]}}"#).unwrap();
    assert_eq!(only, r#"{"data":[{"index":0,"embedding":[2]}]}"#);
}

#[test]
fn a_failed_part_fails_the_whole() {
    let kind = |body: &str| embeddings_of(body).unwrap_err().kind;
    assert_eq!(kind(r#"{"embeddings":[{"values":[1]},{}]}"#), FailureKind::Malformed);
    assert_eq!(kind("{}"), FailureKind::Malformed);
    assert_eq!(kind(r#"{"embeddings":[{"values":[1]}"#), FailureKind::Truncated);
    assert_eq!(kind(r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}"#), FailureKind::RateLimited);
}

proptest! {
    #[test]
    fn every_text_arrives_and_no_bytes_cause_a_panic(
        texts in prop::collection::vec(any::<String>(), 1..5),
        bytes in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let (body, _) = written(&json!({"input": texts}).to_string()).unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        let sent: Vec<&str> = body["requests"].as_array().unwrap().iter().map(|one| one["content"]["parts"][0]["text"].as_str().unwrap()).collect();
        prop_assert_eq!(sent, texts);
        let text = String::from_utf8_lossy(&bytes);
        let _ = written(&text);
        let _ = embeddings_of(&text);
    }
}
