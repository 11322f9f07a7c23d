//! Provider wire formats, both ways: bytes to domain and back, without sockets.
//!
//! What the gateway routes is a chat: most clients send one in the OpenAI dialect, and requests in other dialects are read into
//! the neutral form. For an endpoint of the same dialect a chat is **spliced**: the body is checked in one pass that keeps
//! positions instead of values, and is written as slices of the original. Unknown fields and every byte of a prompt, a
//! schema or tool call arguments survive. Responses and chunks are rewritten in the same way. For an endpoint of another
//! dialect `translation` goes through the neutral form.
//!
//! Layout: each dialect has a directory of its own; what they share is in `neutral`; framing of streams is in
//! [`frame`], JSON without a document model in `json`, and the cleaning of provider texts in `sanitize`. A further dialect
//! is a new variant of [`Dialect`](pointsman_domain::Dialect), a new directory, and its arms in `translation`, `upstream_decoder`,
//! `embeddings` and `count_tokens`.

/// An array of names, each a word.
macro_rules! names {
    ($($name:ident)*) => { [$(stringify!($name)),*] };
}

/// The same as bytes.
macro_rules! byte_names {
    ($($name:ident)*) => { [$(stringify!($name).as_bytes()),*] };
}

/// Appends pieces of JSON to a buffer, in order: `push!(out; br#"{"id":"#, id, b"}")`. What each type of a piece stands for:
/// `json::Piece`.
macro_rules! push {
    ($out:expr; $($piece:expr),+) => {{
        use crate::json::Buffer as _;
        let out = $out.buffer();
        $(crate::json::Piece::push(&$piece, out);)+
    }};
}

/// A struct of the values that some members of an object have.
macro_rules! member_values {
    ($(#[$attribute:meta])* $visible:vis struct $name:ident { $($field:ident = $member:literal),+ }) => {
        $(#[$attribute])*
        #[derive(Default)]
        $visible struct $name<'a> {
            $($visible $field: Option<crate::json::Raw<'a>>),+
        }

        impl<'a> $name<'a> {
            /// The place of the value of the member of that name.
            #[inline]
            $visible fn slot(&mut self, name: &[u8]) -> Option<&mut Option<crate::json::Raw<'a>>> {
                Some(match name {
                    $($member => &mut self.$field,)+
                    _ => return None,
                })
            }
        }
    };
}

#[deny(clippy::float_arithmetic)]
mod answer;
mod answer_check;
mod answer_stream;
mod anthropic;
mod body_edits;
mod capability_gaps;
mod claude;
mod client_chat;
mod client_encoder;
mod client_request;
mod converse;
mod count_tokens;
mod embeddings;
pub mod frame;
mod gateway_fields;
mod gemini;
mod image_list;
mod image_shape;
mod json;
mod lost_parameters;
mod neutral;
pub mod openai;
mod outgoing;
pub mod percent;
mod reasoning_format;
mod refusal;
mod responses;
mod sanitize;
mod stream_error;
mod stream_reader;
mod translation;
mod upstream_decoder;
mod whole_answer;

pub use answer::{Answer, AnswerContext, AnswerFault, Outcome};
pub use answer_check::broken_answer;
pub use answer_stream::{ChatStream, SILENT_WORK};
pub use anthropic::client_error::{MessagesError, UPSTREAM_TOO_LONG, too_long_by, too_long_message};
pub use capability_gaps::capability_gaps;
pub use client_chat::ClientReader;
pub use client_request::{ClientRequest, ClientShape};
pub use count_tokens::{CountRequest, count_request, counted_tokens, counts_tokens};
pub use embeddings::{
    BufferedAnswer, EmbeddingSupport, embedding_body, embedding_path, embedding_support, embedding_tokens,
    embeddings_of,
};
pub use frame::KEEP_ALIVE;
pub use gemini::{RememberedSignatures, SignatureMemory, SignatureSources, Signatures};
pub use lost_parameters::{lost_parameters, unmet_translation};
pub use neutral::{StateKey, UnsupportedFields, UpstreamHeaders, refuse_repeated, with_whole_characters};
pub use openai::{
    ImageAnswer, ImageOrigin, ImageSource, MadeImage, Progress, StreamOptions, UsageChunk,
    request::{
        ChatPurpose, ChatRequest, EmbeddingRequest, ImageFormat, ImageRequest, PROVIDER_MEMBERS, RequestLimits,
        Restriction, RestrictionKind, VectorFormat, field_meant_at_top_level, field_meant_in_metadata, parameter_meant,
        shown, top_level_names,
    },
    rewrite_answer, rewrite_embeddings, rewrite_image_answer, usage_of_failed_answer,
};
pub use outgoing::{OutgoingBody, SentBody, Translation};
pub use reasoning_format::reasoning_format;
pub use refusal::{Doubt, Refusal, RefusedAttempt, RefusedRequest, TokenLimit, read_refusal};
pub use responses::inbound::ResponseEcho;
pub use responses::provider_state::ProviderState;
pub use stream_error::StreamError;
pub use translation::{
    chat_body, chat_body_with, chat_path, image_body, image_path, makes_images, refuses_signature, retry_delay,
};
pub use whole_answer::{completion_of, images_of, rewrite_whole, usage_of_failure};
