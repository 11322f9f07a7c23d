//! The frame of any request: one JSON object whose names are given once.

use std::{borrow::Cow, fmt::Display};

use bytes::Bytes;
use pointsman_domain::{Invalid, InvalidReason};

use super::{lone_halves_replaced, path::shown, syntax};
use crate::json::{Cursor, JsonFault, Raw, object};

pointsman_domain::named! {
    /// The JSON type of a member.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum MemberType {
        String = "a string",
        Boolean = "a boolean",
        Array = "an array",
    }
}

impl MemberType {
    fn fits(self, value: Raw<'_>) -> bool {
        match self {
            MemberType::String => value.is_string(),
            MemberType::Boolean => matches!(value.bytes(), b"true" | b"false"),
            MemberType::Array => value.is_array(),
        }
    }
}

/// A member of the object at `path` that may be left out, which null means too.
///
/// # Errors
/// The 400 for a value of another type.
pub(crate) fn optional_member<'a>(
    object: Raw<'a>,
    path: impl Display,
    name: &str,
    expected: MemberType,
) -> Result<Option<Raw<'a>>, Invalid> {
    let value = object.member(name.as_bytes());
    of_type(value, expected, || format!("{path}.{name}"))
}

/// A value that may be left out, which null means too. `path` is where it stands.
///
/// # Errors
/// The 400 for a value of another type.
pub(crate) fn of_type(
    value: Option<Raw<'_>>,
    expected: MemberType,
    path: impl FnOnce() -> String,
) -> Result<Option<Raw<'_>>, Invalid> {
    let value = value.filter(|value| !value.is_null());
    if value.is_some_and(|value| !expected.fits(value)) {
        return Err(mistyped(path(), expected.as_str()));
    }
    Ok(value)
}

/// A value is none of the allowed ones, and is named before them.
pub(crate) fn none_of(path: impl Display, value: Option<Raw<'_>>, allowed: &[&str]) -> Invalid {
    let text = value.and_then(|value| value.text().or(Some(value.written().into())));
    Invalid::none_of(&path.to_string(), &shown(&text.unwrap_or_default()), allowed)
}

/// Refuses a body in which an object names a member twice, at any depth. What is no JSON is left to its parser.
///
/// # Errors
/// The 400 that names the member.
pub fn refuse_repeated(body: &[u8]) -> Result<(), Invalid> {
    fn check(value: Raw<'_>, at: &str) -> Result<(), Invalid> {
        let mut names = std::collections::BTreeSet::new();
        for (key, value) in value.members() {
            let name = key.name();
            let dot = if at.is_empty() { "" } else { "." };
            let path = format!("{at}{dot}{}", shown(&String::from_utf8_lossy(&name)));
            if !names.insert(name) {
                let message = format!("'{path}' is given twice.");
                return Err(Invalid::field(InvalidReason::InvalidValue, path, message));
            }
            check(value, &path)?;
        }
        value.elements().enumerate().try_for_each(|(index, value)| check(value, &format!("{at}[{index}]")))
    }
    let text = std::str::from_utf8(body).unwrap_or_default();
    object(text).map_or(Ok(()), |object| check(object, ""))
}

/// Reads a body, and one that is refused again if it has halves of characters, with U+FFFD in their place: clients cut texts
/// within a character, and send them again with every request.
///
/// # Errors
/// What `read` refuses the body for.
pub fn with_whole_characters<T>(body: &mut Bytes, read: impl Fn(&Bytes) -> Result<T, Invalid>) -> Result<T, Invalid> {
    let refused = match read(body) {
        Ok(value) => return Ok(value),
        Err(refused) => refused,
    };
    let Cow::Owned(whole) = lone_halves_replaced(syntax::text(body)?) else { return Err(refused) };
    *body = whole.into();
    read(body)
}

/// The value of a member of a body.
pub(crate) fn given<'a>(members: &[(Raw<'a>, Raw<'a>)], name: &str) -> Option<Raw<'a>> {
    members.iter().find(|(key, _)| *key.name() == *name.as_bytes()).map(|(_, value)| *value)
}

/// The same, which is not among the members any more.
pub(crate) fn taken<'a>(members: &mut Vec<(Raw<'a>, Raw<'a>)>, name: &str) -> Option<Raw<'a>> {
    let place = members.iter().position(|(key, _)| *key.name() == *name.as_bytes())?;
    Some(members.remove(place).1)
}

/// A value of another type than `expected`.
pub(crate) fn mistyped(param: impl Display, expected: &str) -> Invalid {
    Invalid::field(InvalidReason::InvalidType, param.to_string(), format!("'{param}' must be {expected}."))
}

/// Refuses a value of another type than `expected`.
pub(crate) fn check_type(fits: bool, param: impl Display, expected: &str) -> Result<(), Invalid> {
    if fits { Ok(()) } else { Err(mistyped(param, expected)) }
}

/// A value that is not allowed, in the words of `message`.
pub(crate) fn refused(param: impl Display, message: impl Into<String>) -> Invalid {
    Invalid::field(InvalidReason::InvalidValue, param.to_string(), message)
}

/// The members of the body, a JSON object nested at most `max_depth` deep, that are not null.
///
/// # Errors
/// The 400 for anything else, and for a name that is given twice.
pub(crate) fn body_members(body: &[u8], max_depth: usize) -> Result<Vec<(Raw<'_>, Raw<'_>)>, Invalid> {
    let text = syntax::text(body)?;
    let (mut cursor, mut members) = (Cursor::within(text, max_depth), Vec::new());
    let read = cursor.each_member(|cursor, key| {
        members.push((key, cursor.value()?));
        Ok::<_, JsonFault>(())
    });
    let other = read.and_then(|other| cursor.end().map(|()| other)).map_err(|_| syntax::broken(text, max_depth))?;
    if cursor.has_lone_surrogate() {
        return Err(syntax::broken(text, max_depth));
    }
    if other.is_some() {
        return Err(Invalid::body(InvalidReason::InvalidType, "Request body must be a JSON object."));
    }
    let mut names = std::collections::BTreeSet::new();
    for (key, _) in &members {
        let name = key.name();
        if names.contains(&name) {
            let name = shown(&String::from_utf8_lossy(&name));
            let message = format!("'{name}' is given twice.");
            return Err(Invalid::field(InvalidReason::InvalidValue, name, message));
        }
        names.insert(name);
    }
    members.retain(|(_, value)| !value.is_null());
    Ok(members)
}
