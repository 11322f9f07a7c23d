//! How the reading of a body stops. The prompt goes by once, as slices of the body, and nothing of it is kept but numbers and
//! positions.

use pointsman_domain::Invalid;

use super::fault;
use crate::{
    json::{JsonFault, Raw},
    neutral::Path,
};

/// Why reading stopped.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The text is no JSON.
    NoJson,
    /// A mistake in it.
    Mistake(Box<Invalid>),
}

impl Stopped {
    /// The same, where a mistake is about the shape of the conversation.
    pub(super) fn in_prompt(self) -> Stopped {
        match self {
            Stopped::NoJson => Stopped::NoJson,
            Stopped::Mistake(invalid) => fault::in_prompt(*invalid).into(),
        }
    }
}

impl From<JsonFault> for Stopped {
    fn from(_: JsonFault) -> Stopped {
        Stopped::NoJson
    }
}

impl From<Invalid> for Stopped {
    fn from(invalid: Invalid) -> Stopped {
        Stopped::Mistake(Box::new(invalid))
    }
}

/// Keeps the value of a member, which the object at `path` may have once.
#[inline]
pub(super) fn once<T>(slot: &mut Option<T>, value: T, path: &Path<'_>, key: Raw<'_>) -> Result<(), Stopped> {
    if slot.is_some() {
        return Err(given_twice(path, key));
    }
    *slot = Some(value);
    Ok(())
}

#[cold]
fn given_twice(path: &Path<'_>, key: Raw<'_>) -> Stopped {
    fault::given_twice(&path.member(&key.text().unwrap_or_default())).into()
}
