//! What readers of JSON bodies share.

use serde_json::Value;

use super::rejection::Rejection;

/// A member of an object; null if it has none of that name.
pub(super) fn member<'v>(value: &'v Value, name: &str) -> &'v Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// Sets a member of an object.
pub(super) fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

/// The rejection of a body, in the words of the API.
pub(super) fn invalid(message: &str) -> Rejection {
    Rejection::Invalid { param: None, message: message.to_owned() }
}
