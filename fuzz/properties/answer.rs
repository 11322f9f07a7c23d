//! The rewriting of plain answers: what it takes becomes JSON in our form, with our id and model, usage that adds up
//! and nothing null that clients trip over; what it refuses says why without control characters.

use std::sync::Arc;

use bytes::Bytes;
use pointsman_dialect::{AnswerContext, ImageOrigin, rewrite_answer, rewrite_image_answer};
use pointsman_domain::{GenerationId, Pricing};

/// Everything answers are rewritten with here.
pub(crate) fn context() -> AnswerContext {
    AnswerContext {
        generation: GenerationId::parse("gen-1763629500-AbCdEfGhIjKlMnOpQrStUv").expect("an id"),
        created: 1_763_629_500,
        model: Arc::from("acme/small"),
        provider_name: Arc::from("Acme"),
        fingerprint: Arc::from("fp_1"),
        pricing: Some(Arc::new(Pricing {
            prompt: "0.00000015".parse().expect("an amount"),
            completion: "0.0000006".parse().expect("an amount"),
            ..Pricing::default()
        })),
        prompt_tokens: 12,
        images: 0,
        exclude_reasoning: false,
        legacy_functions: false,
        service: Default::default(),
        told: Default::default(),
        clock: || 1_763_629_503,
    }
}

/// See the module.
pub(crate) fn check(body: &[u8]) {
    let body = Bytes::copy_from_slice(body);
    let context = context();
    match rewrite_answer(&body, &context) {
        Ok(answer) => in_our_form(&answer.body),
        Err(fault) => assert!(!fault.detail.chars().any(char::is_control), "{fault:?}"),
    }
    for origin in [ImageOrigin::Images, ImageOrigin::Chat] {
        let _ = rewrite_image_answer(&body, origin, &context);
    }
}

/// Checks the form of an answer for a client.
pub(crate) fn in_our_form(body: &[u8]) {
    let text = std::str::from_utf8(body).expect("a client is sent UTF-8");
    let Some(answer) = super::json::read(text) else { return };
    assert_eq!(answer["id"], "gen-1763629500-AbCdEfGhIjKlMnOpQrStUv");
    assert_eq!((&answer["model"], &answer["provider"]), (&"acme/small".into(), &"Acme".into()));
    assert!(answer["system_fingerprint"].as_str().is_some_and(|print| !print.is_empty()));
    assert!(answer.get("error").is_none());
    let choices = answer["choices"].as_array().expect("choices");
    assert!(!choices.is_empty());
    for choice in choices {
        assert!(choice["message"].is_object() && choice["index"].is_u64() && choice["finish_reason"].is_string());
        assert!(choice["message"].get("tool_calls").is_none_or(|calls| !calls.as_array().expect("calls").is_empty()));
    }
    let usage = |name: &str| answer["usage"][name].as_u64().unwrap_or_else(|| panic!("{name}: {}", answer["usage"]));
    assert_eq!(usage("total_tokens"), usage("prompt_tokens") + usage("completion_tokens"));
    assert!(answer["usage"]["cost"].is_number());
}
