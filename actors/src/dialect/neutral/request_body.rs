//! The frame of any request: one JSON object whose names are given once.

use crate::{
    dialect::{
        json::{Cursor, Raw},
        openai::request::shown,
    },
    domain::{Invalid, InvalidReason},
};

/// The body as a JSON object.
///
/// # Errors
/// The 400 for anything else.
pub(crate) fn json_object(body: &[u8]) -> Result<Raw<'_>, Invalid> {
    let text = std::str::from_utf8(body)
        .map_err(|_| Invalid::body(InvalidReason::InvalidJson, "Request body is not valid UTF-8."))?;
    let mut cursor = Cursor::new(text);
    let whole = cursor.value().and_then(|value| cursor.end().map(|()| value));
    let whole = whole.map_err(|_| Invalid::body(InvalidReason::InvalidJson, "Request body is not valid JSON."))?;
    if !whole.is_object() {
        return Err(Invalid::body(InvalidReason::InvalidType, "Request body must be a JSON object."));
    }
    Ok(whole)
}

/// The members of the body that are not null.
///
/// # Errors
/// The 400 for a name that is given twice.
pub(crate) fn members_once(object: Raw<'_>) -> Result<Vec<(Raw<'_>, Raw<'_>)>, Invalid> {
    let mut members: Vec<(Raw<'_>, Raw<'_>)> = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for (key, value) in object.members() {
        let name = key.name();
        if names.contains(&name) {
            let name = shown(&String::from_utf8_lossy(&name));
            let message = format!("'{name}' is given twice.");
            return Err(Invalid::field(InvalidReason::InvalidValue, name, message));
        }
        names.insert(name);
        if !value.is_null() {
            members.push((key, value));
        }
    }
    Ok(members)
}
