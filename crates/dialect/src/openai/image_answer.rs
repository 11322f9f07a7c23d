//! Answers to image requests: from an image API, or from a chat answer of a model that makes images through chat.
//!
//! Every image has exactly one valid source, bytes or an address. Converting one into the other needs a store or a
//! socket, so the caller does that between reading and writing.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::FinishReason;

use super::{
    answer::whole_answer,
    finish::{clean_name, normalise},
    usage::{ImageDetails, ReportedUsage, billed_image_usage, push_cost},
};
use crate::{
    answer::{AnswerContext, AnswerFault, AnswerResult, Outcome},
    json::{Raw, push_comma, push_count, push_string_member},
    sanitize::{ERROR_CHARS, clean},
};

/// Longest address of an image.
const MAX_URL_BYTES: usize = 16 * 1024;
/// Media type of an image of unknown kind.
const DEFAULT_MEDIA_TYPE: &str = "image/png";
/// How base64 text begins for the kinds of images in use.
const SIGNATURES: [(&str, &str); 5] = [
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("UklGR", "image/webp"),
    ("R0lGOD", "image/gif"),
    ("PHN2Zy", "image/svg+xml"),
];

/// Which upstream interface made the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageOrigin {
    /// The image interface: `data[]`.
    Images,
    /// The chat interface: `message.images[]`.
    Chat,
}

/// Where an image is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageSource {
    /// Here.
    Base64 {
        /// Base64 text, checked to be nothing else.
        data: Bytes,
        /// Its media type.
        media_type: Cow<'static, str>,
    },
    /// Elsewhere.
    Url {
        /// An absolute address.
        url: String,
        /// Until when it is valid, Unix seconds, if we know.
        expires_at: Option<i64>,
    },
}

/// One image of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeImage {
    /// Where it is.
    pub source: ImageSource,
    /// The prompt the provider really used.
    pub revised_prompt: Option<String>,
}

/// The images of one call, in order.
#[derive(Debug, Clone)]
pub struct ImageAnswer {
    /// The images. The caller may put another source in place of one; their number is what was billed.
    pub images: Vec<MadeImage>,
    /// What the call took.
    pub outcome: Outcome,
    created: i64,
    details: ImageDetails,
}

/// Checks the response of an image call and prices it: the price per image for each, and tokens where they are
/// counted. [`ImageAnswer::body`] writes it.
///
/// # Errors
/// When the body is no response, holds no image, or something that only pretends to be one, or the content was refused.
pub fn rewrite_image_answer(
    body: &Bytes,
    origin: ImageOrigin,
    context: &AnswerContext,
) -> Result<ImageAnswer, AnswerFault> {
    let answer = whole_answer(body)?;
    let images = match origin {
        ImageOrigin::Images => images_of_list(answer, body)?,
        ImageOrigin::Chat => images_of_chat(answer, body)?,
    };
    if images.is_empty() {
        return Err(filtered(answer).unwrap_or_else(|| AnswerFault::malformed("no image")));
    }
    let reported = ReportedUsage::of_answer(answer);
    let usage = billed_image_usage(reported.as_ref(), images.len() as u64, context);
    let details = ImageDetails::new(reported.as_ref(), &usage);
    let outcome = Outcome {
        usage,
        cost: context.cost(&usage),
        finish: Some(FinishReason::Stop),
        native_finish: None,
        upstream_id: answer.member(b"id").and_then(clean_name).map(Cow::into_owned),
        images: images.len() as u64,
        hidden_tokens: 0,
        gives_reasoning_content: false,
    };
    Ok(ImageAnswer { images, outcome, created: context.created, details })
}

impl ImageAnswer {
    /// The body for the client, with every image as its source is now.
    pub fn body(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(512 + self.images.iter().map(MadeImage::bytes).sum::<usize>());
        push!(out; br#"{"created":"#, u64::try_from(self.created).unwrap_or(0), br#","data":["#);
        for image in self.images.iter() {
            push_comma(&mut out);
            image.push(&mut out);
        }
        out.put_u8(b']');
        self.push_usage(&mut out);
        out.put_u8(b'}');
        out.freeze()
    }

    fn push_usage(&self, out: &mut BytesMut) {
        let usage = &self.outcome.usage;
        push!(out; br#","usage":{"prompt_tokens":"#, usage.prompt_tokens, br#","completion_tokens":"#,
            usage.completion_tokens, br#","total_tokens":"#, usage.total_tokens(), br#","input_tokens":"#,
            usage.prompt_tokens, br#","output_tokens":"#, usage.completion_tokens);
        self.details.push(out);
        push_cost(out, self.outcome.cost.as_ref());
        out.put_u8(b'}');
    }
}

impl MadeImage {
    fn bytes(&self) -> usize {
        let source = match &self.source {
            ImageSource::Base64 { data, .. } => data.len(),
            ImageSource::Url { url, .. } => url.len(),
        };
        source + self.revised_prompt.as_ref().map_or(0, String::len) + 128
    }

    fn push(&self, out: &mut BytesMut) {
        match &self.source {
            ImageSource::Base64 { data, media_type } => {
                push!(out; br#"{"b64_json":""#, data, br#"","media_type":"#, media_type);
            }
            ImageSource::Url { url, expires_at } => {
                push!(out; br#"{"url":"#, url);
                if let Some(expires_at) = expires_at {
                    push_count(out, b"expires_at", u64::try_from(*expires_at).unwrap_or(0));
                }
            }
        }
        if let Some(prompt) = &self.revised_prompt {
            push_string_member(out, b"revised_prompt", prompt);
        }
        out.put_u8(b'}');
    }
}

fn images_of_list(answer: Raw<'_>, body: &Bytes) -> AnswerResult<Vec<MadeImage>> {
    let data = answer.member(b"data").ok_or_else(|| AnswerFault::malformed("no data"))?;
    data.elements().map(|element| image_of_element(element, body)).collect()
}

/// One element of `data`. An upstream that fills in both fields means the bytes.
fn image_of_element(element: Raw<'_>, body: &Bytes) -> AnswerResult<MadeImage> {
    let field = |name: &[u8]| element.member(name).and_then(Raw::filled_string);
    let source = match (field(b"b64_json"), field(b"url")) {
        (Some(base64), _) => source_of_base64(base64, body),
        (None, Some(url)) => source_of_url(url, body),
        (None, None) => None,
    };
    let source = source.ok_or_else(|| AnswerFault::malformed("an element without an image in it"))?;
    let revised_prompt = field(b"revised_prompt").and_then(Raw::text);
    Ok(MadeImage { source, revised_prompt: revised_prompt.map(|text| clean(&text, ERROR_CHARS).into_owned()) })
}

/// Every image of every message: `images[].image_url.url`, or a plain text in its place.
fn images_of_chat(answer: Raw<'_>, body: &Bytes) -> AnswerResult<Vec<MadeImage>> {
    let choices = answer.member(b"choices").ok_or_else(|| AnswerFault::malformed("no choices"))?;
    let messages = choices.elements().filter_map(|choice| choice.member(b"message"));
    let images = messages.filter_map(|message| message.member(b"images")).flat_map(Raw::elements);
    images
        .map(|image| {
            let place = image.member(b"image_url").unwrap_or(image);
            let source = place.member(b"url").or(Some(place)).and_then(|url| source_of_url(url, body));
            let source = source.ok_or_else(|| AnswerFault::malformed("an image that is none"))?;
            Ok(MadeImage { source, revised_prompt: None })
        })
        .collect()
}

/// The fault of an answer from which a filter kept every image back.
fn filtered(answer: Raw<'_>) -> Option<AnswerFault> {
    let word = |choice: Raw<'_>| choice.member(b"finish_reason")?.text().map(|word| normalise(&word));
    let mut choices = answer.member(b"choices")?.elements();
    let choice = choices.find(|choice| word(*choice) == Some(FinishReason::ContentFilter))?;
    let native = choice.member(b"native_finish_reason").filter(|native| native.is_string());
    Some(AnswerFault::refused_content(&native.or(choice.member(b"finish_reason")).and_then(clean_name)?))
}

/// A web address, or the bytes inside a `data:` one. Some mock servers put any text there.
fn source_of_url(raw: Raw<'_>, body: &Bytes) -> Option<ImageSource> {
    let text = raw.text()?;
    if text.starts_with("data:") {
        return source_of_base64(raw, body);
    }
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    let is_clean = text.bytes().all(|byte| byte.is_ascii_graphic());
    (is_web && is_clean && text.len() <= MAX_URL_BYTES)
        .then(|| ImageSource::Url { url: text.into_owned(), expires_at: None })
}

/// Base64 text, bare or as a `data:` address. Shares the memory of the body where it can.
fn source_of_base64(raw: Raw<'_>, body: &Bytes) -> Option<ImageSource> {
    let text = raw.text()?;
    let (announced, base64) = match text.strip_prefix("data:") {
        Some(rest) => rest.split_once(";base64,").map(|(kind, base64)| (Some(kind), base64))?,
        None => (None, &*text),
    };
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_');
    if base64.is_empty() || !base64.bytes().all(is_base64) {
        return None;
    }
    let media_type = media_type(base64, announced);
    let data = match &text {
        Cow::Borrowed(_) => body.slice_ref(base64.as_bytes()),
        Cow::Owned(_) => Bytes::copy_from_slice(base64.as_bytes()),
    };
    Some(ImageSource::Base64 { data, media_type })
}

/// What the bytes say they are, else what the upstream says.
fn media_type(base64: &str, announced: Option<&str>) -> Cow<'static, str> {
    if let Some((_, kind)) = SIGNATURES.iter().find(|(signature, _)| base64.starts_with(signature)) {
        return Cow::Borrowed(kind);
    }
    let is_plausible = |kind: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'+' | b'.');
        kind.starts_with("image/") && kind.len() <= 64 && kind.bytes().all(plain)
    };
    announced.filter(is_plausible).map_or(Cow::Borrowed(DEFAULT_MEDIA_TYPE), |kind| Cow::Owned(kind.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(json: &str) -> AnswerResult<MadeImage> {
        let body = Bytes::copy_from_slice(json.as_bytes());
        let raw = Raw::whole_of(&body).unwrap();
        image_of_element(raw, &body)
    }

    fn check(json: &str, written: &str) {
        let mut out = BytesMut::new();
        element(json).unwrap().push(&mut out);
        assert_eq!(std::str::from_utf8(&out).unwrap(), written);
    }

    #[test]
    fn an_element_has_one_source_of_known_kind() {
        check(r#"{"b64_json":"iVBORw0KGgoAAA=="}"#, r#"{"b64_json":"iVBORw0KGgoAAA==","media_type":"image/png"}"#);
        check(r#"{"b64_json":"\/9j\/AA","url":null}"#, r#"{"b64_json":"/9j/AA","media_type":"image/jpeg"}"#);
        check(
            r#"{"url":"https://cdn.example/a.png","b64_json":null,"revised_prompt":"a \"cat\""}"#,
            r#"{"url":"https://cdn.example/a.png","revised_prompt":"a \"cat\""}"#,
        );
        check(r#"{"url":"data:image/avif;base64,AAAA"}"#, r#"{"b64_json":"AAAA","media_type":"image/avif"}"#);
        check(r#"{"b64_json":"data:text/html;base64,AAAA"}"#, r#"{"b64_json":"AAAA","media_type":"image/png"}"#);
    }

    #[test]
    fn what_only_pretends_to_be_an_image_is_noticed() {
        for odd in [
            r#"{"b64_json":null,"url":"Sure! Here is a picture of a cat."}"#,
            r#"{"b64_json":null,"url":null}"#,
            r#"{"b64_json":"not base64!"}"#,
            r#"{"url":"file:///etc/passwd"}"#,
            r#"{"url":"https://cdn.example/a b"}"#,
            r#"{"url":"data:image/png,raw"}"#,
            "{}",
            "null",
        ] {
            assert!(element(odd).is_err(), "{odd}");
        }
    }
}
