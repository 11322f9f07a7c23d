//! Images of Google's models that make nothing else: the body of `predict`, and its answer in the form of the OpenAI API.

use bytes::{Bytes, BytesMut};
use pointsman_domain::Endpoint;

use super::{error, request::path_of};
use crate::{
    answer::{AnswerFault, AnswerResult},
    image_list::{ListedImage, image_list},
    image_shape::{class_of, nearest_ratio},
    json::{Raw, object, push_count, push_member, push_object, push_string_member, without_mark},
    neutral::{EscapedText, UnsupportedFields},
    sanitize::{ERROR_CHARS, clean},
};

/// Most images of one call.
const MOST_IMAGES: u64 = 4;
/// Ratios of the sides.
const RATIOS: [&str; 5] = ["1:1", "3:4", "4:3", "9:16", "16:9"];

/// The path of a call, relative to the base address.
pub(crate) fn images_path(endpoint: &Endpoint) -> String {
    path_of(endpoint, ":predict")
}

/// The body for an image request. Fields without a place in this API are named in `unsupported`. `None` without a prompt.
pub(crate) fn write_images(body: &str, unsupported: &mut UnsupportedFields) -> Option<Bytes> {
    let body = object(body).ok()?;
    let prompt = EscapedText::read(body.member(b"prompt")?)?;
    let (mut parameters, mut output) = (BytesMut::new(), BytesMut::new());
    let has = |name: &[u8]| body.member(name).is_some_and(|value| !value.is_null());
    for (key, value) in body.members().filter(|(_, value)| !value.is_null()) {
        match &*key.name() {
            // The gateway itself gives images in the form that the client wants.
            b"model" | b"prompt" | b"response_format" => {}
            b"n" => push_number(value, &mut parameters, unsupported),
            b"aspect_ratio" => push_member(&mut parameters, b"aspectRatio", value.bytes()),
            b"resolution" => push_member(&mut parameters, b"sampleImageSize", value.bytes()),
            b"size" => push_size(value, (has(b"aspect_ratio"), has(b"resolution")), &mut parameters, unsupported),
            b"output_format" if value.text().is_some() => {
                push_string_member(&mut output, b"mimeType", &format!("image/{}", value.text().unwrap_or_default()));
            }
            b"output_compression" => push_member(&mut output, b"compressionQuality", value.bytes()),
            name => unsupported.drop(&String::from_utf8_lossy(name)),
        }
    }
    push_object(&mut parameters, b"outputOptions", &output);
    let mut out = BytesMut::with_capacity(prompt.bytes().len() + 128);
    push!(out; br#"{"instances":[{"prompt":"#, prompt, br#"}],"parameters":{"#, parameters.get(1..).unwrap_or_default(),
        b"}}");
    Some(out.freeze())
}

fn push_number(value: Raw<'_>, parameters: &mut BytesMut, unsupported: &mut UnsupportedFields) {
    let wanted = value.count().unwrap_or(1);
    if wanted > MOST_IMAGES {
        unsupported.emulate("n");
    }
    push_count(parameters, b"sampleCount", wanted.clamp(1, MOST_IMAGES));
}

/// A size in pixels as the nearest shape, or the name of a class. What the request says itself counts more.
fn push_size(
    value: Raw<'_>,
    (ratio, class): (bool, bool),
    parameters: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    let size = value.text().unwrap_or_default();
    if size == "auto" {
        return;
    }
    let named = ["1K", "2K"].into_iter().find(|name| *name == size);
    // There is nothing above it here.
    let class_of_size = named.or_else(|| class_of(&size).or((size == "4K").then_some("4K")).map(|_| "2K"));
    let ratio_of_size = nearest_ratio(&size, &RATIOS).filter(|_| !ratio);
    let class_of_size = class_of_size.filter(|_| !class);
    for (name, nearest) in [(&b"aspectRatio"[..], ratio_of_size), (b"sampleImageSize", class_of_size)] {
        if let Some(nearest) = nearest {
            push_string_member(parameters, name, nearest);
        }
    }
    match (ratio_of_size, class_of_size) {
        (None, None) => unsupported.drop("size"),
        (None, Some(_)) if named.is_some() => {}
        _ => unsupported.emulate("size"),
    }
}

/// The answer as one of the OpenAI API. Images that the filter for safety kept back are left out.
///
/// # Errors
/// When the upstream reports an error, the body is no answer, or all images were kept back.
pub(crate) fn images_of(body: &str) -> AnswerResult<Bytes> {
    let answer = Raw::whole(without_mark(body))?;
    if let Some(fault) = error::fault(answer) {
        return Err(fault);
    }
    let predictions = || answer.elements_of(b"predictions");
    let mut images = predictions().filter_map(|image| Some((image, image.member(b"bytesBase64Encoded")?))).peekable();
    if images.peek().is_none() {
        let why = predictions().find_map(|image| image.member(b"raiFilteredReason")?.text());
        let why = why.unwrap_or("no reason given".into());
        return Err(AnswerFault::refused_content(&clean(&why, ERROR_CHARS)));
    }
    let listed = images.map(|(image, data)| {
        let revised_prompt = image.member(b"prompt").filter(|prompt| prompt.is_string());
        ListedImage { data, revised_prompt }
    });
    Ok(image_list(listed, body.len() + 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_domain::FailureKind;

    #[track_caller]
    fn check(body: &str, expected: &str, dropped: &[&str], emulated: &[&str]) {
        let mut unsupported = UnsupportedFields::default();
        let written = write_images(body, &mut unsupported).unwrap();
        assert_eq!(written, expected);
        let names = |names: &[std::sync::Arc<str>]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            (names(unsupported.dropped()), names(unsupported.emulated())),
            (dropped.iter().map(ToString::to_string).collect(), emulated.iter().map(ToString::to_string).collect(),)
        );
    }

    #[test]
    fn a_request_becomes_a_prediction_with_the_nearest_shape() {
        check(
            r#"{"model":"m","prompt":"caf\u00e9","n":6,"size":"1792x1024","quality":"high","output_format":"jpeg","output_compression":80}"#,
            r#"{"instances":[{"prompt":"caf\u00e9"}],"parameters":{"sampleCount":4,"aspectRatio":"16:9","sampleImageSize":"2K","outputOptions":{"mimeType":"image/jpeg","compressionQuality":80}}}"#,
            &["quality"],
            &["n", "size"],
        );
        check(r#"{"prompt":"a","size":"auto"}"#, r#"{"instances":[{"prompt":"a"}],"parameters":{}}"#, &[], &[]);
        check(
            r#"{"prompt":"a","size":"2K","aspect_ratio":"1:1"}"#,
            r#"{"instances":[{"prompt":"a"}],"parameters":{"sampleImageSize":"2K","aspectRatio":"1:1"}}"#,
            &[],
            &[],
        );
        check(
            r#"{"prompt":"a","size":"1024x1024","aspect_ratio":"4:3"}"#,
            r#"{"instances":[{"prompt":"a"}],"parameters":{"aspectRatio":"4:3"}}"#,
            &["size"],
            &[],
        );
    }

    #[test]
    fn images_that_were_kept_back_are_left_out_and_without_any_the_request_is_refused() {
        let some = r#"{"predictions":[{"bytesBase64Encoded":"aGk=","mimeType":"image/png","prompt":"p"},{"raiFilteredReason":"unsafe"}]}"#;
        assert_eq!(images_of(some).unwrap(), r#"{"data":[{"b64_json":"aGk=","revised_prompt":"p"}]}"#);
        for (body, kind) in [
            (r#"{"predictions":[{"raiFilteredReason":"unsafe"}]}"#, FailureKind::BadRequest),
            ("{}", FailureKind::BadRequest),
            ("{", FailureKind::Truncated),
            (r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}"#, FailureKind::RateLimited),
        ] {
            assert_eq!(images_of(body).unwrap_err().kind, kind, "{body}");
        }
        let why = |body: &str| images_of(body).unwrap_err().refused_content;
        assert_eq!(why(r#"{"predictions":[{"raiFilteredReason":"unsafe"}]}"#).as_deref(), Some("unsafe"));
        assert_eq!(why(r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}"#), None);
    }
}
