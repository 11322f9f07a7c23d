//! The field at fault in messages for clients whose API has no member for it.

use std::borrow::Cow;

use super::Problem;

/// The message for clients whose API has no member for the field: it names the field. What is said about a prompt that is too
/// long stays as it is, because clients read it.
pub(super) fn message_with_place(problem: &Problem) -> Cow<'_, str> {
    let param = problem.param.as_deref().filter(|_| problem.error_type != "context_length_exceeded");
    match param {
        Some(param) if !names(&problem.message, param) => format!("{param}: {}", problem.message).into(),
        _ => Cow::Borrowed(&problem.message),
    }
}

/// Whether a message names a field as messages here do: at its beginning, or in quotes. That its name is a part of another
/// word says nothing.
fn names(message: &str, param: &str) -> bool {
    let at_beginning = message.strip_prefix(param).is_some_and(|rest| rest.starts_with([' ', ':', '.', '[']));
    at_beginning || message.contains(&format!("'{param}"))
}

#[cfg(test)]
mod tests {
    use pointsman_domain::{Invalid, InvalidReason};

    use super::*;
    use crate::base::error::ApiError;

    fn placed(param: &str, message: &str) -> String {
        let error = ApiError::invalid(Invalid::field(InvalidReason::InvalidValue, param, message));
        message_with_place(&error.0).into_owned()
    }

    #[test]
    fn a_message_says_its_field_once_and_not_only_as_a_part_of_another_word() {
        assert_eq!(placed("id", "The value is not valid."), "id: The value is not valid.");
        assert_eq!(placed("model", "models must be a list."), "model: models must be a list.");
        for said in ["top_p must be a number.", "The parameter 'top_p' must be a number.", "top_p[0]: no."] {
            assert_eq!(placed("top_p", said), said);
        }
    }
}
