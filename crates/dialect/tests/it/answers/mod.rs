//! The answer side of the OpenAI dialect, byte for byte: recorded and hostile upstream answers against golden files.
//!
//! Inputs lie in `tests/corpus`, each beside what must come of it (`.out`). A new oddity of an upstream becomes a
//! new file; `UPDATE_EXPECT=1` writes what comes of it, for reading before it is committed.

mod common;
mod images;
mod plain;
mod properties;
mod stream;
