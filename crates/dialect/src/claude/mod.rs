//! What is known of Claude, whichever API serves it: what its models differ in, how they are told to reason, and which schemas
//! they can be held to.

pub(crate) mod models;
pub(crate) mod schema;
pub(crate) mod thinking;
