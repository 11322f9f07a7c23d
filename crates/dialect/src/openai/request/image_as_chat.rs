//! An image request written as a chat request, for endpoints that make images through chat.

use super::{
    byte_span::{BodyText, ByteSpan},
    image_fields::ImageFields,
    json::Object,
    json_type::JsonType,
    splice::string,
};
use crate::{
    image_shape::{class_of, nearest_ratio},
    json::Raw,
    neutral::Path,
};

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
    /// What a `size` in pixels is closest to, where the request says nothing itself.
    shape: Shape,
}

/// A ratio of the sides, and a class of sizes.
#[derive(Debug, Clone, Copy, Default)]
struct Shape {
    ratio: Option<&'static str>,
    class: Option<&'static str>,
}

/// The ratios of sides that models of chat make.
const RATIOS: [&str; 8] = ["1:1", "2:3", "3:2", "3:4", "4:3", "9:16", "16:9", "21:9"];

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
        let pixels = fields.size.map(|raw| raw.written().trim_matches('"')).unwrap_or_default();
        let shape = Shape {
            ratio: nearest_ratio(pixels, &RATIOS).filter(|_| fields.aspect_ratio.is_none()),
            class: class_of(pixels).filter(|_| fields.resolution.is_none()),
        };
        ImageAsChat {
            prompt: span(fields.prompt).unwrap_or_default(),
            references: fields.references.iter().map(|raw| reference(*raw, source)).collect(),
            aspect_ratio: span(fields.aspect_ratio),
            size: span(fields.resolution.or(named)),
            takes_size: fields.resolution.is_none() && named.is_some(),
            shape,
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
        self.aspect_ratio.is_some() || self.size.is_some() || self.takes_shape()
    }

    /// Whether the field `size` has a place in a chat.
    pub(super) fn takes_size(&self) -> bool {
        self.takes_size
    }

    /// Whether a size in pixels has a place in a chat, as the nearest shape.
    pub(super) fn takes_shape(&self) -> bool {
        self.shape.ratio.is_some() || self.shape.class.is_some()
    }

    /// The value of `image_config`.
    pub(super) fn config(&self, out: &mut Vec<u8>, body: &[u8]) {
        let members = [
            ("\"aspect_ratio\":", &self.aspect_ratio, self.shape.ratio),
            ("\"image_size\":", &self.size, self.shape.class),
        ];
        let given = members.into_iter().filter(|(_, value, nearest)| value.is_some() || nearest.is_some());
        out.push(b'{');
        for (position, (name, value, nearest)) in given.enumerate() {
            if position > 0 {
                out.push(b',');
            }
            out.extend_from_slice(name.as_bytes());
            match value {
                Some(value) => copy(out, body, value),
                None => string(out, nearest.unwrap_or_default()),
            }
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
