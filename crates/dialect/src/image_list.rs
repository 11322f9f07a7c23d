//! The list of images that an answer of the OpenAI image API holds.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::json::{Raw, push_member};

/// One image of another API.
pub(crate) struct ListedImage<'a> {
    /// The image in base64, as a JSON string.
    pub(crate) data: Raw<'a>,
    /// The prompt that the model made of the client's, as a JSON string.
    pub(crate) revised_prompt: Option<Raw<'a>>,
}

/// The answer with these images. `capacity`: its length in bytes, about.
pub(crate) fn image_list<'a>(images: impl Iterator<Item = ListedImage<'a>>, capacity: usize) -> Bytes {
    let mut out = BytesMut::with_capacity(capacity);
    out.put_slice(b"{\"data\":[");
    for (place, image) in images.enumerate() {
        out.put_slice(if place > 0 { b",{\"b64_json\":" } else { b"{\"b64_json\":" });
        out.put_slice(image.data.bytes());
        if let Some(prompt) = image.revised_prompt {
            push_member(&mut out, b"revised_prompt", prompt.bytes());
        }
        out.put_u8(b'}');
    }
    out.put_slice(b"]}");
    out.freeze()
}
