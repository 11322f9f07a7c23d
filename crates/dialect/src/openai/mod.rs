//! The OpenAI chat and image API: requests, answers and streams.

pub(crate) mod agent_chat;
#[deny(clippy::float_arithmetic)]
mod answer;
pub(crate) mod answer_reader;
pub(crate) mod chunk_writer;
pub(crate) mod completion_writer;
pub(crate) mod conversation_reader;
mod embedding_answer;
pub(crate) mod error;
mod finish;
pub(crate) mod foreign_members;
#[deny(clippy::float_arithmetic)]
mod image_answer;
mod message_member;
pub(crate) mod prompt_writer;
pub mod request;
pub(crate) mod request_writer;
mod stream;
pub(crate) mod text_completion;
mod tool_call;
pub(crate) mod tool_writer;
#[deny(clippy::float_arithmetic)]
mod usage;

pub use answer::{rewrite_answer, usage_of_failed_answer};
pub use embedding_answer::rewrite_embeddings;
pub use image_answer::{ImageAnswer, ImageOrigin, ImageSource, MadeImage, rewrite_image_answer};
pub(crate) use stream::whole_answer;
pub use stream::{ChatStream, Progress, SILENT_WORK, StreamOptions, UsageChunk};
