//! The tool by which models of this API make images: chat asks for an image with `modalities` and `image_config`.

use bytes::{BufMut as _, BytesMut};

use crate::{
    image_shape::nearest_ratio,
    json::{Raw, push_string_member},
    neutral::{Conversation, UnsupportedFields},
};

/// The sizes that the tool makes, each with the ratio of its sides.
const SIZES: [(&str, &str); 3] = [("1:1", "1024x1024"), ("2:3", "1024x1536"), ("3:2", "1536x1024")];

/// Whether the conversation asks for an image.
pub(super) fn wants_image(conversation: &Conversation<'_>) -> bool {
    conversation.parameter("modalities").is_some_and(|list| list.elements().any(is_image))
}

/// Whether it asks for nothing else.
pub(super) fn wants_only_image(conversation: &Conversation<'_>) -> bool {
    wants_image(conversation) && conversation.parameter("modalities").is_some_and(|list| list.elements().all(is_image))
}

fn is_image(kind: Raw<'_>) -> bool {
    kind.text().as_deref() == Some("image")
}

/// Appends the tool.
pub(super) fn push_image_tool(
    conversation: &Conversation<'_>,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    out.put_slice(b"{\"type\":\"image_generation\"");
    let config = conversation.parameter("image_config").into_iter().flat_map(Raw::members);
    for (key, value) in config.filter(|(_, value)| !value.is_null()) {
        let name = key.name();
        match (&*name, value.text()) {
            (b"aspect_ratio", Some(wanted)) => {
                // The nearest ratio is that of a size in pixels with these sides.
                let nearest = nearest_ratio(&wanted.replace(':', "x"), &SIZES.map(|(ratio, _)| ratio));
                let Some((ratio, size)) = SIZES.into_iter().find(|(ratio, _)| Some(*ratio) == nearest) else {
                    unsupported.drop("image_config.aspect_ratio");
                    continue;
                };
                if ratio != wanted {
                    unsupported.emulate("image_config.aspect_ratio");
                }
                push_string_member(out, b"size", size);
            }
            _ => unsupported.drop(&format!("image_config.{}", String::from_utf8_lossy(&name))),
        }
    }
    out.put_u8(b'}');
}
