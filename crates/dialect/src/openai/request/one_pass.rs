//! Reads large values in one pass: the prompt goes by once, as slices of the body, and nothing of it is kept but numbers and
//! positions. Escapes are measured, not resolved.

use pointsman_domain::Invalid;

use super::fault;
use crate::{
    json::{Cursor, JsonFault, Raw},
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

/// Passes the array that comes next: `read` passes each element, which it gets with its position. Gives their number, or the
/// value that stands there instead of an array.
pub(super) fn elements<'a>(
    cursor: &mut Cursor<'a>,
    mut read: impl FnMut(&mut Cursor<'a>, usize) -> Result<(), Stopped>,
) -> Result<Result<usize, Raw<'a>>, Stopped> {
    if cursor.peek()? != b'[' {
        return Ok(Err(cursor.value()?));
    }
    cursor.enter()?;
    let (mut first, mut count) = (true, 0);
    while cursor.element(&mut first)? {
        read(cursor, count)?;
        count += 1;
    }
    cursor.leave();
    Ok(Ok(count))
}

/// Passes the object that comes next: `read` gets each key, and passes its value. Gives the value that stands there instead of
/// an object, if one does.
pub(super) fn members<'a>(
    cursor: &mut Cursor<'a>,
    mut read: impl FnMut(&mut Cursor<'a>, Raw<'a>) -> Result<(), Stopped>,
) -> Result<Option<Raw<'a>>, Stopped> {
    if cursor.peek()? != b'{' {
        return Ok(Some(cursor.value()?));
    }
    cursor.enter()?;
    let mut first = true;
    while let Some(key) = cursor.key(&mut first)? {
        read(cursor, key)?;
    }
    cursor.leave();
    Ok(None)
}

/// Keeps the value of a member, which the object at `path` may have once.
pub(super) fn once<T>(slot: &mut Option<T>, value: T, path: &Path<'_>, name: &str) -> Result<(), Stopped> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(fault::given_twice(&path.member(name)).into()),
    }
}
