//! JSON that is mostly copied: a cursor that checks the grammar and returns slices, and a few writers.
//!
//! Not a document model: it allocates nothing and keeps nothing. The gateway changes only a few members of an answer;
//! all others are copied byte for byte.

mod cursor;
mod iterators;
mod raw;
mod splice;
mod write;

pub(crate) use cursor::{Cursor, JsonFault, MAX_DEPTH, Picked};
pub(crate) use iterators::Members;
pub(crate) use raw::{Raw, length_without_escapes, without_escapes, without_mark};
pub(crate) use splice::{Splice, SpliceAction, checked_object, object, quoted, with_first_member, with_first_members};
pub(crate) use write::{
    Buffer, Comma, Piece, push_array, push_comma, push_count, push_key, push_member, push_object, push_quoted,
    push_string, push_string_member, push_u64, push_usd,
};
