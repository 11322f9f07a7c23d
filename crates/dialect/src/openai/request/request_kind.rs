//! Kinds of requests that are read field by field.

/// Kind of request of any body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    Chat,
    Preview,
    Image,
    Embedding,
}
