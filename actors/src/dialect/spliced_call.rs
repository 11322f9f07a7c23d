//! In what the copy of a client's own body for an endpoint differs from the original.

use bytes::Bytes;

use super::json::with_first_members;

/// What changes in the body of one call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SplicedCall<'c> {
    /// The endpoint's name of the model.
    pub(crate) model: &'c str,
    /// Lowers the limit on output tokens.
    pub(crate) most_output: Option<u32>,
    /// The model's own values for parameters that the client left open.
    pub(crate) defaults: &'c [(&'static str, f64)],
}

impl<'c> SplicedCall<'c> {
    #[cfg(test)]
    pub(crate) fn to(model: &'c str) -> SplicedCall<'c> {
        SplicedCall { model, ..SplicedCall::default() }
    }

    /// The limit on output, where the client gave `given`; `None` if that stays.
    pub(crate) fn lower_than(&self, given: Option<u64>) -> Option<u32> {
        self.most_output.filter(|most| given.is_none_or(|given| given > u64::from(*most)))
    }

    /// The defaults for parameters that an API has.
    pub(crate) fn defaults_among(&self, known: &[&str]) -> Vec<(&'static str, f64)> {
        self.defaults.iter().filter(|(name, _)| known.contains(name)).copied().collect()
    }
}

/// Members to be written before the others of a body.
#[derive(Debug, Default)]
pub(crate) struct AddedMembers(String);

impl AddedMembers {
    /// Adds a member: `name` is plain, `value` is JSON.
    pub(crate) fn push(&mut self, name: &str, value: impl std::fmt::Display) {
        let comma = if self.0.is_empty() { "" } else { "," };
        self.0.push_str(&format!("{comma}\"{name}\":{value}"));
    }

    /// The body with these members.
    pub(crate) fn before(&self, body: Bytes) -> Bytes {
        if self.0.is_empty() { body } else { with_first_members(&body, self.0.as_bytes()) }
    }
}
