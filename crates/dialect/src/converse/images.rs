//! Images at Amazon Bedrock: the bodies that `InvokeModel` passes on to each family of models, and their answers in the form
//! of the OpenAI API.

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::Endpoint;

use super::error::fault_of_body;
use crate::{
    answer::{AnswerFault, AnswerResult},
    image_list::{ListedImage, image_list},
    image_shape::nearest_ratio,
    json::{Raw, object, push_count, push_member, push_string_member, without_mark},
    neutral::{EscapedText, UnsupportedFields},
    percent,
    sanitize::{ERROR_CHARS, clean},
};

/// Ratios of the sides that Stability's models make.
const RATIOS: [&str; 9] = ["1:1", "2:3", "3:2", "4:5", "5:4", "9:16", "16:9", "9:21", "21:9"];
/// Most images of one call to Amazon's own models.
const MOST_IMAGES: u64 = 5;

/// A family of models with a form of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImageFamily {
    /// Nova Canvas, and Titan for images.
    Amazon,
    Stability,
}

impl ImageFamily {
    /// The family that a name belongs to, with or without a region before it.
    fn named(model: &str) -> Option<ImageFamily> {
        const FAMILIES: [(&str, ImageFamily); 3] = [
            ("nova-canvas", ImageFamily::Amazon),
            ("titan-image", ImageFamily::Amazon),
            ("stability.", ImageFamily::Stability),
        ];
        FAMILIES.into_iter().find(|(name, _)| model.contains(name)).map(|(_, family)| family)
    }
}

/// Whether images of the model can be asked for.
pub(crate) fn makes_images(upstream_model: &str) -> bool {
    ImageFamily::named(upstream_model).is_some()
}

/// The path of a call, relative to the base address.
pub(crate) fn images_path(endpoint: &Endpoint) -> String {
    format!("/model/{}/invoke", percent::encoded(&endpoint.upstream_model))
}

/// The body for an image request. Fields without a place in this API are named in `unsupported`. `None` without a prompt, and for a
/// model that makes no images.
pub(crate) fn write_images(body: &str, endpoint: &Endpoint, unsupported: &mut UnsupportedFields) -> Option<Bytes> {
    let body = object(body).ok()?;
    let prompt = EscapedText::read(body.member(b"prompt")?)?;
    let mut out = BytesMut::with_capacity(prompt.bytes().len() + 160);
    match ImageFamily::named(&endpoint.upstream_model)? {
        ImageFamily::Amazon => push_amazon(body, &prompt, &mut out, unsupported),
        ImageFamily::Stability => push_stability(body, &prompt, &mut out, unsupported),
    }
    Some(out.freeze())
}

fn push_amazon(body: Raw<'_>, prompt: &EscapedText<'_>, out: &mut BytesMut, unsupported: &mut UnsupportedFields) {
    let mut config = BytesMut::new();
    for (name, value) in given(body) {
        match &*name {
            b"n" => {
                let wanted = value.count().unwrap_or(1);
                if wanted > MOST_IMAGES {
                    unsupported.emulate("n");
                }
                push_count(&mut config, b"numberOfImages", wanted.clamp(1, MOST_IMAGES));
            }
            b"size" => push_pixels(value, &mut config, unsupported),
            b"quality" => match value.text().as_deref() {
                Some("auto") => {}
                Some("standard" | "low" | "medium") => push_member(&mut config, b"quality", b"\"standard\""),
                Some("hd" | "high" | "xhigh" | "max") => push_member(&mut config, b"quality", b"\"premium\""),
                _ => unsupported.drop("quality"),
            },
            b"seed" => push_member(&mut config, b"seed", value.bytes()),
            name => unsupported.drop(&String::from_utf8_lossy(name)),
        }
    }
    push!(out; br#"{"taskType":"TEXT_IMAGE","textToImageParams":{"text":"#, prompt, br#"},"imageGenerationConfig":{"#,
        config.get(1..).unwrap_or_default(), b"}}");
}

/// Width and height of a size in pixels. The model decides where the request does.
fn push_pixels(size: Raw<'_>, config: &mut BytesMut, unsupported: &mut UnsupportedFields) {
    let size = size.text().unwrap_or_default();
    if size == "auto" {
        return;
    }
    let pixels = |side: &str| side.parse::<u64>().ok();
    let sides = size.split_once('x').and_then(|(width, height)| Some((pixels(width)?, pixels(height)?)));
    let Some((width, height)) = sides else { return unsupported.drop("size") };
    push!(config; br#","width":"#, width, br#","height":"#, height);
}

fn push_stability(body: Raw<'_>, prompt: &EscapedText<'_>, out: &mut BytesMut, unsupported: &mut UnsupportedFields) {
    push!(out; br#"{"prompt":"#, prompt);
    let has_ratio = body.member(b"aspect_ratio").is_some_and(|ratio| !ratio.is_null());
    for (name, value) in given(body) {
        match &*name {
            b"n" if value.count() == Some(1) => {}
            // One image a call.
            b"n" => unsupported.emulate("n"),
            b"aspect_ratio" => push_member(out, b"aspect_ratio", value.bytes()),
            b"size" => match value.text().as_deref() {
                Some("auto") => {}
                Some(size) if let Some(ratio) = nearest_ratio(size, &RATIOS).filter(|_| !has_ratio) => {
                    push_string_member(out, b"aspect_ratio", ratio);
                    unsupported.emulate("size");
                }
                _ => unsupported.drop("size"),
            },
            b"output_format" => push_member(out, b"output_format", value.bytes()),
            b"seed" => push_member(out, b"seed", value.bytes()),
            name => unsupported.drop(&String::from_utf8_lossy(name)),
        }
    }
    out.put_u8(b'}');
}

/// The members that say something about the image.
fn given(body: Raw<'_>) -> impl Iterator<Item = (std::borrow::Cow<'_, [u8]>, Raw<'_>)> {
    let members = body.members().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.name(), value));
    // The gateway itself gives images in the form that the client wants.
    members.filter(|(name, _)| !matches!(&**name, b"model" | b"prompt" | b"response_format"))
}

/// The answer as one of the OpenAI API. Images that the filter for safety kept back are left out.
///
/// # Errors
/// When the upstream reports an error, the body is no answer, or all images were kept back.
pub(crate) fn images_of(body: &str) -> AnswerResult<Bytes> {
    let answer = Raw::whole(without_mark(body))?;
    if let Some(fault) = fault_of_body(answer) {
        return Err(fault);
    }
    let [images, error, reasons] = answer.pick([b"images", b"error", b"finish_reasons"]);
    let mut images = images.into_iter().flat_map(Raw::elements).filter(|image| image.is_filled()).peekable();
    if images.peek().is_none() {
        let reason = reasons.into_iter().flat_map(Raw::elements).find_map(Raw::text);
        let Some(why) = error.and_then(Raw::text).or(reason) else {
            return Err(AnswerFault::malformed("no images"));
        };
        return Err(AnswerFault::refused_content(&clean(&why, ERROR_CHARS)));
    }
    Ok(image_list(images.map(|data| ListedImage { data, revised_prompt: None }), body.len() + 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_domain::{Dialect, EndpointId, FailureKind};

    #[track_caller]
    fn check(model: &str, body: &str, expected: &str, dropped: &[&str], emulated: &[&str]) {
        let id = EndpointId::new(model, "bedrock", "");
        let endpoint = Endpoint { dialect: Dialect::Converse, ..Endpoint::with_defaults(id, 0, 0, model) };
        let mut unsupported = UnsupportedFields::default();
        assert_eq!(write_images(body, &endpoint, &mut unsupported).unwrap(), expected);
        let names = |names: &[std::sync::Arc<str>]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!((names(unsupported.dropped()), names(unsupported.emulated())), (own(dropped), own(emulated)));
    }

    fn own(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_request_becomes_a_task_of_amazons_models() {
        check(
            "us.amazon.nova-canvas-v1:0",
            r#"{"model":"m","prompt":"caf\u00e9","n":6,"size":"1280x720","quality":"high","seed":7,"response_format":"url","user":"u"}"#,
            r#"{"taskType":"TEXT_IMAGE","textToImageParams":{"text":"caf\u00e9"},"imageGenerationConfig":{"numberOfImages":5,"width":1280,"height":720,"quality":"premium","seed":7}}"#,
            &["user"],
            &["n"],
        );
        check(
            "amazon.titan-image-generator-v2:0",
            r#"{"prompt":"a","size":"2K","quality":"auto","aspect_ratio":null}"#,
            r#"{"taskType":"TEXT_IMAGE","textToImageParams":{"text":"a"},"imageGenerationConfig":{}}"#,
            &["size"],
            &[],
        );
    }

    #[test]
    fn a_request_becomes_a_prompt_of_stabilitys_models_with_the_nearest_shape() {
        check(
            "stability.stable-image-core-v1:1",
            r#"{"prompt":"a","n":2,"size":"1792x1024","output_format":"jpeg","background":"opaque"}"#,
            r#"{"prompt":"a","aspect_ratio":"16:9","output_format":"jpeg"}"#,
            &["background"],
            &["n", "size"],
        );
        check(
            "stability.sd3-5-large-v1:0",
            r#"{"prompt":"a","n":1,"size":"1024x1024","aspect_ratio":"4:5"}"#,
            r#"{"prompt":"a","aspect_ratio":"4:5"}"#,
            &["size"],
            &[],
        );
    }

    #[test]
    fn images_that_were_kept_back_are_left_out_and_without_any_the_request_is_refused() {
        let some = r#"{"images":["aGk=",null],"finish_reasons":[null,"Filter reason: output image"]}"#;
        assert_eq!(images_of(some).unwrap(), r#"{"data":[{"b64_json":"aGk="}]}"#);
        let why = |body: &str| images_of(body).unwrap_err().refused_content;
        assert_eq!(why(r#"{"images":[],"error":"blocked by our filters"}"#).as_deref(), Some("blocked by our filters"));
        assert_eq!(
            why(r#"{"images":[null],"finish_reasons":["Filter reason: prompt"]}"#).as_deref(),
            Some("Filter reason: prompt")
        );
        for (body, kind) in [
            ("{}", FailureKind::Malformed),
            ("{", FailureKind::Truncated),
            (r#"{"__type":"ThrottlingException","message":"slow down"}"#, FailureKind::RateLimited),
        ] {
            assert_eq!(images_of(body).unwrap_err().kind, kind, "{body}");
        }
    }
}
