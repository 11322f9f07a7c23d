//! The frame of any request: one JSON object whose names are given once.

use crate::{
    dialect::{
        json::{Cursor, MAX_DEPTH, Raw},
        openai::request::{body_text, broken_json, shown},
    },
    domain::{Invalid, InvalidReason},
};

/// The body as a JSON object.
///
/// # Errors
/// The 400 for anything else.
pub(crate) fn json_object(body: &[u8]) -> Result<Raw<'_>, Invalid> {
    let text = body_text(body)?;
    let mut cursor = Cursor::new(text);
    let whole = cursor.value().and_then(|value| cursor.end().map(|()| value));
    let whole = whole.map_err(|_| broken_json(text, MAX_DEPTH))?;
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
