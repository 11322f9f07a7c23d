//! Image requests: what is refused, and what an upstream is sent.

use expect_test::{Expect, expect};
use pointsman_dialect::{ImageFormat, image_body};
use pointsman_domain::ParameterNames;

use super::world::{catalog, endpoint_of, model_named, read_image, shown};

fn body(fields: &str) -> String {
    format!(r#"{{"model":"acme/paint","prompt":"A lighthouse"{fields}}}"#)
}

fn refused(text: &str) -> (String, &'static str) {
    let invalid = read_image(text).expect_err(text);
    (invalid.param.unwrap_or_default(), invalid.reason.as_str())
}

fn check(id: &str, fields: &str, expected: &Expect) {
    let catalog = catalog();
    let request = read_image(&body(fields)).unwrap();
    expected.assert_eq(&shown(&image_body(&request, &catalog, endpoint_of(&catalog, id)).unwrap()));
}

#[test]
fn bad_image_requests_are_blamed_on_their_field() {
    for (text, param, reason) in [
        ("", "", "invalid_json"),
        ("[]", "", "invalid_type"),
        (r#"{"prompt":"x"}"#, "model", "missing_field"),
        (r#"{"model":"a/b"}"#, "prompt", "missing_field"),
        (r#"{"model":"a/b","prompt":""}"#, "prompt", "invalid_value"),
        (r#"{"model":"a/b","prompt":7}"#, "prompt", "invalid_type"),
        (&format!(r#"{{"model":"a/b","prompt":"{}"}}"#, "é".repeat(32_001)), "prompt", "invalid_value"),
        (&body(r#","n":0"#), "n", "invalid_value"),
        (&body(r#","n":11"#), "n", "invalid_value"),
        (&body(r#","stream":true"#), "stream", "unsupported_parameter"),
        (&body(r#","stream":1"#), "stream", "invalid_type"),
        (&body(r#","quality":7"#), "quality", "invalid_type"),
        (&body(r#","output_compression":101"#), "output_compression", "invalid_value"),
        (&body(r#","input_references":[7]"#), "input_references[0]", "invalid_type"),
        (&body(r#","metadata":{"objective":"best"}"#), "metadata.objective", "invalid_value"),
        (&body(r#","size":"1x1","size":"1x1""#), "size", "invalid_value"),
    ] {
        assert_eq!(refused(text), (param.to_owned(), reason), "{text}");
    }
}

#[test]
fn the_format_is_base64_unless_an_address_is_asked_for() {
    assert_eq!(read_image(&body("")).unwrap().format, ImageFormat::Base64);
    assert_eq!(read_image(&body(r#","response_format":"url""#)).unwrap().format, ImageFormat::Url);
    assert_eq!(refused(&body(r#","response_format":"png""#)), ("response_format".to_owned(), "invalid_value"));
}

#[test]
fn a_size_is_two_integers_or_a_name() {
    for good in ["1024x1024", "1x99999", "auto", "1K", "4K"] {
        assert!(read_image(&body(&format!(r#","size":"{good}""#))).is_ok(), "{good}");
    }
    for bad in ["", "x", "1024", "1024X1024", "0x1", "01x1", "1x100000", "1x1x1", "-1x1", "1 x1", "8K", "big", "1x١"] {
        assert_eq!(refused(&body(&format!(r#","size":"{bad}""#))), ("size".to_owned(), "invalid_value"), "{bad}");
    }
}

#[test]
fn a_fixed_model_must_make_images_and_of_that_size() {
    let catalog = catalog();
    let unmet = |id: &str, fields: &str| read_image(&body(fields)).unwrap().unmet(model_named(&catalog, id));
    let wrong = unmet("acme/able", "").unwrap();
    assert_eq!((wrong.param.as_deref(), wrong.reason.as_str()), (Some("model"), "wrong_endpoint"));
    let size = unmet("acme/paint", r#","size":"64x64""#).unwrap();
    assert_eq!((size.param.as_deref(), size.reason.as_str()), (Some("size"), "invalid_value"));
    assert_eq!(size.allowed_values, ["512x512", "1024x1024"]);
    for (id, fields) in [
        ("acme/paint", ""),
        ("acme/paint", r#","size":"512x512""#),
        ("acme/paint", r#","size":"auto""#),
        ("acme/draw", r#","size":"64x64""#),
    ] {
        assert_eq!(unmet(id, fields), None, "{id} {fields}");
    }
}

#[test]
fn what_the_gateway_needs_is_found() {
    let request =
        read_image(&body(r#","n":2.0,"user":"u","input_references":["https://a/b"],"metadata":{"t":"x"}"#)).unwrap();
    assert_eq!((request.n, request.references, request.prompt_tokens), (2, 1, 3 + 4 + 1000));
    assert_eq!(request.tags, [("t".to_owned(), "x".to_owned())]);
    let needs = request.needs(&ParameterNames::published());
    assert!(needs.parameters.is_empty() && needs.output.iter().count() == 1);
}

#[test]
fn an_image_request_goes_upstream_with_the_format_it_is_to_come_back_in() {
    check(
        "acme/paint",
        r#","size":"512x512","metadata":{"objective":"cheapest"}"#,
        &expect![[r#"{"model":"up-paint","prompt":"A lighthouse","size":"512x512","response_format":"b64_json"}"#]],
    );
    check(
        "acme/paint",
        r#","response_format":"url","n":1.0,"quality":"high","seed":7,"house":"x""#,
        &expect![[r#"
        {"model":"up-paint","prompt":"A lighthouse","quality":"high","seed":7,"house":"x","response_format":"url"}
        dropped: n"#]],
    );
}

#[test]
fn an_endpoint_that_makes_images_through_chat_is_sent_a_chat() {
    check(
        "acme/draw",
        "",
        &expect![[
            r#"{"model":"up-draw","messages":[{"role":"user","content":"A lighthouse"}],"modalities":["image","text"]}"#
        ]],
    );
    check(
        "acme/draw",
        r#","size":"2K","aspect_ratio":"16:9","seed":7,"quality":"high","n":1,"user":"u""#,
        &expect![[r#"
            {"model":"up-draw","messages":[{"role":"user","content":"A lighthouse"}],"seed":7,"user":"u","modalities":["image","text"],"image_config":{"aspect_ratio":"16:9","image_size":"2K"}}
            dropped: quality"#]],
    );
    check(
        "acme/draw",
        r#","size":"512x512","n":2,"input_references":["https://a/b",{"url":"https://c/d"},{"type":"image_url","image_url":{"url":"https://e/f"}}]"#,
        &expect![[r#"
            {"model":"up-draw","messages":[{"role":"user","content":[{"type":"text","text":"A lighthouse"},{"type":"image_url","image_url":{"url":"https://a/b"}},{"type":"image_url","image_url":{"url":"https://c/d"}},{"type":"image_url","image_url":{"url":"https://e/f"}}]}],"modalities":["image","text"],"image_config":{"aspect_ratio":"1:1"}}
            dropped: n"#]],
    );
}
