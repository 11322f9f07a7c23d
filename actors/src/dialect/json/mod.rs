//! JSON that is mostly passed on: a cursor that checks the grammar and hands out slices, and a few writers.
//!
//! Not a document model: nothing is allocated and nothing is kept. What a gateway changes in an answer is
//! a handful of members, so the rest is copied as the bytes it came in.

mod cursor;
mod iterators;
mod raw;
mod write;

pub(crate) use cursor::{Cursor, JsonFault};
pub(crate) use raw::Raw;
pub(crate) use write::{push_member, push_string, push_u64, push_usd};
