//! Limits for reading a request body.

use std::sync::Arc;

use pointsman_config::BodyPace;

use crate::access::load::KeyBuffer;

/// Limits for reading one request body.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    /// Maximum size in bytes.
    pub bytes: usize,
    /// Minimum transfer rate.
    pub pace: BodyPace,
    /// Counter of the buffered bytes of the caller's key.
    pub buffer: Arc<KeyBuffer>,
}
