//! The OpenAI chat and image API: requests, answers and streams.

pub(crate) mod agent_chat;
#[deny(clippy::float_arithmetic)]
mod answer;
mod chat_encoder;
#[cfg(test)]
pub(crate) mod chat_events;
mod chunk_parts;
pub(crate) mod completion_writer;
pub(crate) mod conversation_reader;
mod decode;
mod embedding_answer;
pub(crate) mod error;
mod event_meter;
mod finish;
pub(crate) mod foreign_members;
#[deny(clippy::float_arithmetic)]
mod image_answer;
mod message_member;
#[deny(clippy::float_arithmetic)]
mod meter;
pub(crate) mod prompt_writer;
pub mod request;
pub(crate) mod request_writer;
mod stream;
mod stream_options;
pub(crate) mod text_completion;
mod tool_call;
mod tool_calls;
pub(crate) mod tool_writer;
#[deny(clippy::float_arithmetic)]
mod usage;

pub(crate) use answer::{one_line, utf8};
pub use answer::{rewrite_answer, usage_of_failed_answer};
pub(crate) use chat_encoder::ChatEncoder;
pub(crate) use decode::Decoder;
pub use embedding_answer::rewrite_embeddings;
pub(crate) use event_meter::{EventMeter, Metered};
pub use image_answer::{ImageAnswer, ImageOrigin, ImageSource, MadeImage, rewrite_image_answer};
pub(crate) use meter::AnswerMeter;
pub(crate) use stream::{ChatRewriter, SplitHalves};
pub use stream_options::{Progress, StreamOptions, UsageChunk};
pub(crate) use tool_calls::ToolCallOrder;
