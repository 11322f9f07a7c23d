//! What holds of any body.

use pointsman_dialect::{ChatPurpose, ChatRequest, ImageRequest, RequestLimits};
use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Map, Value, json};

use super::world::{catalog, endpoint_of, parse};

/// Any JSON value, a few levels deep.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        "(auto|text|function|user|tool|https://a/b|acme/\\*)".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let name = prop_oneof![
            "(role|content|type|text|image_url|url|tool_calls|function|name|id|arguments|parameters|effort|sort)",
            ".{0,4}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..4).prop_map(|members| Value::from(Map::from_iter(members))),
        ]
    })
}

/// The names of fields that mean something.
fn name() -> impl Strategy<Value = String> {
    let known = "(model|models|messages|stream|stream_options|max_tokens|max_completion_tokens|temperature|top_k|n|\
        seed|stop|tools|tool_choice|response_format|reasoning|reasoning_effort|modalities|metadata|extra_body|\
        provider|plugins|objective|allowed_models|weights|user|trace|usage|store|logit_bias|prompt|size)";
    prop_oneof![8 => known.prop_map(String::from), 1 => ".{0,6}".prop_map(String::from)]
}

/// Bodies that are nearly good: good ones with a few members replaced by anything.
fn nearly_good() -> impl Strategy<Value = Value> {
    prop::collection::vec((name(), value()), 0..4).prop_map(|members| {
        let mut body = json!({"model": "acme/able", "messages": [{"role": "user", "content": "Hi"}]});
        body.as_object_mut().unwrap().extend(members);
        body
    })
}

/// Good bodies.
fn good() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        ".{0,20}".prop_map(|text| json!({"type": "text", "text": text})),
        Just(json!({"type": "image_url", "image_url": {"url": "https://a/b.png"}})),
    ];
    let content =
        prop_oneof![".{0,40}".prop_map(Value::from), prop::collection::vec(part, 1..3).prop_map(Value::from),];
    let message = prop_oneof![
        ("(user|system|assistant)", content).prop_map(|(role, content)| json!({"role": role, "content": content})),
        ".{0,20}".prop_map(|arguments| json!({"role": "assistant", "content": null, "tool_calls":
            [{"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}]})),
    ];
    let extra = prop::collection::vec(("x_[a-e]", value()), 0..3);
    (prop::collection::vec(message, 1..5), extra, any::<bool>(), 0.0..2.0).prop_map(
        |(messages, extra, stream, temperature)| {
            let mut body = json!({"model": "acme/able", "messages": messages, "stream": stream,
                "temperature": temperature, "metadata": {"objective": "fastest"}});
            body.as_object_mut().unwrap().extend(extra);
            body
        },
    )
}

/// Reads a body in every form, and writes it for every endpoint if it is good.
fn digest(body: &[u8]) {
    let limits = RequestLimits::default();
    let bytes = bytes::Bytes::copy_from_slice(body);
    let catalog = catalog();
    for form in [ChatPurpose::Chat, ChatPurpose::Preview] {
        if let Ok(request) = ChatRequest::parse(bytes.clone(), form, &limits) {
            let _ = request.restrictions();
            for model in &catalog.models {
                let _ = request.unmet(&catalog, model);
            }
            for endpoint in &catalog.endpoints {
                let outgoing = request.upstream_body(&catalog, endpoint);
                serde_json::from_slice::<Value>(&outgoing.bytes).expect("an upstream is sent JSON");
            }
        }
    }
    if let Ok(request) = ImageRequest::parse(bytes, &limits) {
        for endpoint in &catalog.endpoints {
            let outgoing = request.upstream_body(&catalog, endpoint);
            serde_json::from_slice::<Value>(&outgoing.bytes).expect("an upstream is sent JSON");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1_763_629_500),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        digest(&bytes);
    }

    #[test]
    fn no_text_made_of_json_tokens_makes_the_reader_panic(
        tokens in prop::collection::vec(
            "(\\{|\\}|\\[|\\]|:|,|\"|\\\\|\\\\u[d0][89c]00|\"model\"|\"messages\"|\"role\"|null|-?1e9|true| )", 0..40
        )
    ) {
        digest(tokens.concat().as_bytes());
    }

    #[test]
    fn nearly_good_bodies_are_read_or_refused_and_written_as_json(body in nearly_good()) {
        digest(body.to_string().as_bytes());
        digest(serde_json::to_string_pretty(&body).unwrap().as_bytes());
    }

    #[test]
    fn a_body_cut_anywhere_is_not_json(body in good(), cut in 0.0..1.0) {
        let text = body.to_string();
        let cut = (text.len() as f64 * cut) as usize;
        let invalid = parse(&text.as_bytes()[..cut]).expect_err("half a body");
        prop_assert_eq!(invalid.reason.as_str(), "invalid_json");
    }

    #[test]
    fn what_goes_upstream_holds_the_same_messages_and_the_same_strangers(body in good(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&body).unwrap() } else { body.to_string() };
        let catalog = catalog();
        let request = parse(&text).expect("good");
        let outgoing = request.upstream_body(&catalog, endpoint_of(&catalog, "acme/able"));
        let sent: Value = serde_json::from_slice(&outgoing.bytes).expect("an upstream is sent JSON");
        // Read back like what was sent: a float need not survive being written and read.
        let mut wanted: Value = serde_json::from_str(&text).expect("good");
        let members = wanted.as_object_mut().unwrap();
        members.insert("model".to_owned(), "up-able".into());
        members.remove("metadata");
        if members.get("stream") == Some(&Value::Bool(true)) {
            members.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
        prop_assert_eq!(sent, wanted);
    }
}
