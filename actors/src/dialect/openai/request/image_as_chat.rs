//! An image request written as a chat request, for endpoints that make images through chat.

use super::{
    byte_span::{BodyText, ByteSpan},
    image_fields::ImageFields,
    json::Object,
    json_type::JsonType,
    path::Path,
};

use crate::dialect::json::Raw;

/// Positions of the fields that the chat request is made of.
#[derive(Debug, Clone)]
pub(super) struct ImageAsChat {
    prompt: ByteSpan,
    references: Vec<Reference>,
    aspect_ratio: Option<ByteSpan>,
    /// `resolution`, or else a `size` that is a name.
    size: Option<ByteSpan>,
    /// Whether it is the `size`.
    takes_size: bool,
}

/// An image to start from.
#[derive(Debug, Clone)]
enum Reference {
    /// Its address.
    Address(ByteSpan),
    /// A whole part of a message.
    Part(ByteSpan),
}

impl ImageAsChat {
    pub(super) fn new(fields: &ImageFields<'_>, source: BodyText<'_>) -> ImageAsChat {
        let span = |raw: Option<Raw<'_>>| raw.map(|raw| source.span(raw));
        let named = fields.size.filter(|raw| raw.written().ends_with("K\""));
        ImageAsChat {
            prompt: span(fields.prompt).unwrap_or_default(),
            references: fields.references.iter().map(|raw| reference(*raw, source)).collect(),
            aspect_ratio: span(fields.aspect_ratio),
            size: span(fields.resolution.or(named)),
            takes_size: fields.resolution.is_none() && named.is_some(),
        }
    }

    /// The one message: the prompt, and the images to start from as further parts.
    pub(super) fn messages(&self, out: &mut Vec<u8>, body: &[u8]) {
        out.extend_from_slice(b"[{\"role\":\"user\",\"content\":");
        if self.references.is_empty() {
            copy(out, body, &self.prompt);
        } else {
            out.extend_from_slice(b"[{\"type\":\"text\",\"text\":");
            copy(out, body, &self.prompt);
            out.push(b'}');
            self.references.iter().for_each(|reference| reference.part(out, body));
            out.push(b']');
        }
        out.extend_from_slice(b"}]");
    }

    /// Whether anything was said about shape and size that a chat can express.
    pub(super) fn has_config(&self) -> bool {
        self.aspect_ratio.is_some() || self.size.is_some()
    }

    /// Whether the field `size` has a place in a chat.
    pub(super) fn takes_size(&self) -> bool {
        self.takes_size
    }

    /// The value of `image_config`.
    pub(super) fn config(&self, out: &mut Vec<u8>, body: &[u8]) {
        let members = [("\"aspect_ratio\":", &self.aspect_ratio), ("\"image_size\":", &self.size)];
        let given = members.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        out.push(b'{');
        for (position, (name, value)) in given.enumerate() {
            if position > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name.as_bytes());
            copy(out, body, value);
        }
        out.push(b'}');
    }
}

impl Reference {
    fn part(&self, out: &mut Vec<u8>, body: &[u8]) {
        out.push(b',');
        match self {
            Reference::Part(span) => copy(out, body, span),
            Reference::Address(span) => {
                out.extend_from_slice(b"{\"type\":\"image_url\",\"image_url\":{\"url\":");
                copy(out, body, span);
                out.extend_from_slice(b"}}");
            }
        }
    }
}

fn reference(raw: Raw<'_>, source: BodyText<'_>) -> Reference {
    if JsonType::of(raw) == JsonType::Text {
        return Reference::Address(source.span(raw));
    }
    let read = Object::read(raw, &Path::Field("input_references")).ok();
    match read.as_ref().and_then(|object| object.get("url")) {
        Some(address) => Reference::Address(source.span(address)),
        None => Reference::Part(source.span(raw)),
    }
}

fn copy(out: &mut Vec<u8>, body: &[u8], span: &ByteSpan) {
    out.extend_from_slice(body.get(span.clone()).unwrap_or_default());
}
