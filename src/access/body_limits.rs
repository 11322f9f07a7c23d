//! The bounds under which a request body is read.

use std::sync::Arc;

use crate::{access::load::Share, config::BodyPace};

/// The bounds a body is read under.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    /// Most bytes.
    pub bytes: usize,
    /// How fast it must come.
    pub pace: BodyPace,
    /// Where its bytes are counted, together with everything else of its caller's.
    pub share: Arc<Share>,
}
