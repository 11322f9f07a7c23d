//! The splice of a stream: what servers of chat send to clients of chat, chunk by chunk, without I/O.
//!
//! A chunk is rewritten in [`chunk`] and [`choice`], and how a stream ends is written in [`stream_end`].

mod choice;
mod chunk;
mod chunk_prefix;
mod split_halves;
#[deny(clippy::float_arithmetic)]
mod stream_end;
mod text_template;

pub(crate) use chunk::ChatRewriter;
pub(crate) use split_halves::SplitHalves;
