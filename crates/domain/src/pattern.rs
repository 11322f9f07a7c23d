use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// An entry of an allowed or blocked list: a model id, or a prefix ending in one `*`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ModelPattern {
    /// Exactly this id or canonical slug.
    Exact(String),
    /// Every id with this prefix; empty for `*` alone.
    Prefix(String),
}

/// The text is not a pattern: it is empty, or contains a `*` before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternFault;

impl ModelPattern {
    /// Whether a model of this id and canonical slug matches.
    pub fn matches(&self, id: &str, canonical_slug: &str) -> bool {
        match self {
            ModelPattern::Exact(text) => id == text || canonical_slug == text,
            ModelPattern::Prefix(prefix) => id.starts_with(prefix.as_str()),
        }
    }
}

impl FromStr for ModelPattern {
    type Err = PatternFault;

    fn from_str(text: &str) -> Result<ModelPattern, PatternFault> {
        let (prefix, starred) = text.strip_suffix('*').map_or((text, false), |prefix| (prefix, true));
        if text.is_empty() || prefix.contains('*') || text.chars().any(char::is_control) || text.len() > 256 {
            return Err(PatternFault);
        }
        Ok(if starred { ModelPattern::Prefix(prefix.to_owned()) } else { ModelPattern::Exact(text.to_owned()) })
    }
}

impl fmt::Display for ModelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelPattern::Exact(text) => f.write_str(text),
            ModelPattern::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}
