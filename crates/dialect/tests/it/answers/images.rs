//! Image calls.

use std::sync::Arc;

use bytes::Bytes;
use expect_test::expect_file;
use pointsman_dialect::{ImageOrigin, ImageSource, rewrite_image_answer};
use pointsman_domain::Pricing;

use super::common::{account, context, corpus, usd};

#[test]
fn image_answers_become_what_their_golden_files_say() {
    for (path, body) in corpus("images", "json") {
        let mut context = context();
        context.pricing =
            Some(Arc::new(Pricing { image: usd("0.04"), ..Pricing::clone(context.pricing.as_ref().unwrap()) }));
        let through_chat = path.to_string_lossy().contains("through_chat");
        let origin = if through_chat { ImageOrigin::Chat } else { ImageOrigin::Images };
        let account = match rewrite_image_answer(&Bytes::from(body), origin, &context) {
            Ok(answer) => {
                let text = format!("{}\n", String::from_utf8_lossy(&answer.body()));
                account(&text, None, Some(&answer.outcome))
            }
            Err(fault) => account("", Some(&fault), None),
        };
        expect_file![path.with_extension("out")].assert_eq(&account);
    }
}

#[test]
fn a_source_may_be_replaced_before_writing_and_the_bill_stays() {
    let body = Bytes::from_static(br#"{"data":[{"b64_json":"iVBORw0KGgo="}]}"#);
    let mut answer = rewrite_image_answer(&body, ImageOrigin::Images, &context()).expect("an answer");
    let billed = answer.outcome.clone();
    let url = "https://here.example/api/v1/images/files/0123.png".to_owned();
    answer.images[0].source = ImageSource::Url { url, expires_at: Some(1_763_633_100) };
    let written = String::from_utf8_lossy(&answer.body()).into_owned();
    assert!(
        written.contains(
            r#""data":[{"url":"https://here.example/api/v1/images/files/0123.png","expires_at":1763633100}]"#
        )
    );
    assert_eq!(answer.outcome, billed);
}
