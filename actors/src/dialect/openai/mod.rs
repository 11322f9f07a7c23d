//! The OpenAI chat convention.

mod answer;
mod finish;
mod image_answer;
mod member;
mod stream;
mod tool_call;
mod upstream_error;
mod usage;

pub use answer::rewrite_answer;
pub use image_answer::{ImageAnswer, ImageOrigin, ImageSource, MadeImage, rewrite_image_answer};
pub use stream::{ChatStream, Progress, StreamError, StreamOptions, UsageChunk};
