//! A client's own body for an endpoint of the same API: only what must change is rewritten, every other byte stays.

use bytes::Bytes;
use pointsman_domain::AddedMembers;

use super::{
    gateway_fields::{is_for_gateway, is_for_gateway_in_metadata},
    json::{JsonFault, Raw, Splice, SpliceAction, checked_object, quoted, with_first_members},
};

/// What changes in the body of one request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BodyEdits<'c> {
    /// The endpoint's name of the model.
    pub(crate) model: &'c str,
    /// Lowers the limit on output tokens.
    pub(crate) most_output: Option<u32>,
    /// The model's own values for parameters that the client left open.
    pub(crate) defaults: &'c [(&'static str, f64)],
    /// Members that are not added.
    pub(crate) omits: AddedMembers,
    /// Members that the endpoint does not get.
    pub(crate) without: &'c [&'static str],
}

/// Names of one API.
pub(crate) struct MemberNames {
    /// The limit on output tokens.
    pub(crate) limit: &'static str,
    /// Parameters of sampling.
    pub(crate) sampling: &'static [&'static str],
}

/// The copy under construction.
pub(crate) struct OwnBody<'a> {
    splice: Splice<'a>,
    /// Members that stand before the others, each after a comma.
    added: String,
    /// Defaults that the client has not overridden.
    defaults: Vec<(&'static str, f64)>,
}

impl<'c> BodyEdits<'c> {
    #[cfg(test)]
    pub(crate) fn to(model: &'c str) -> BodyEdits<'c> {
        BodyEdits { model, ..BodyEdits::default() }
    }

    /// The limit on output, where the client gave `given`; `None` if that stays.
    pub(crate) fn lower_than(&self, given: Option<u64>) -> Option<u32> {
        self.most_output.filter(|most| given.is_none_or(|given| given > u64::from(*most)))
    }

    /// Begins the copy of a body that was read before: with the name of the model, the limit and the defaults of this call,
    /// and without the members for the gateway, at the top and in `metadata`. `visit` is asked for each other member of the
    /// top.
    ///
    /// # Errors
    /// When the body is not a JSON object.
    pub(crate) fn begin<'a>(
        &self,
        body: &'a str,
        names: &MemberNames,
        mut visit: impl FnMut(&[u8], Raw<'a>, &mut Splice<'a>) -> SpliceAction,
    ) -> Result<OwnBody<'a>, JsonFault> {
        let whole = checked_object(body)?;
        let model = quoted(self.model);
        let (mut has_model, mut has_limit) = (false, false);
        let mut defaults: Vec<_> =
            self.defaults.iter().filter(|(name, _)| names.sampling.contains(name)).copied().collect();
        let mut splice = Splice::new(body);
        splice.members(whole, |key, value, splice| {
            let key = key.name();
            defaults.retain(|(name, _)| name.as_bytes() != &*key);
            match &*key {
                b"model" => {
                    has_model = true;
                    splice.replace(value, &model);
                }
                name if name == names.limit.as_bytes() => {
                    has_limit = true;
                    if let Some(lower) = self.lower_than(value.count()) {
                        splice.replace(value, lower.to_string().as_bytes());
                    }
                }
                // Other members of it are for the upstream.
                b"metadata" => splice.members(value, |key, value, _| {
                    let name = key.name();
                    let is_ours = std::str::from_utf8(&name).is_ok_and(|name| is_for_gateway_in_metadata(name, value));
                    if is_ours { SpliceAction::Cut } else { SpliceAction::Kept }
                }),
                b"stream_options" => return visit(b"stream_options", value, splice),
                name if std::str::from_utf8(name).is_ok_and(is_for_gateway) => return SpliceAction::Cut,
                name if self.without.iter().any(|cut| cut.as_bytes() == name) => return SpliceAction::Cut,
                name => return visit(name, value, splice),
            }
            SpliceAction::Kept
        });
        let mut own = OwnBody { splice, added: String::new(), defaults };
        if !has_model {
            own.add("model", String::from_utf8_lossy(&model));
        }
        if let Some(most) = self.most_output.filter(|_| !has_limit) {
            own.add(names.limit, most);
        }
        Ok(own)
    }
}

impl OwnBody<'_> {
    /// Adds a member: `name` is plain, `value` is JSON.
    pub(crate) fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let comma = if self.added.is_empty() { "" } else { "," };
        self.added.push_str(&format!("{comma}\"{name}\":{value}"));
    }

    /// Adds no defaults.
    pub(crate) fn without_defaults(&mut self) {
        self.defaults.clear();
    }

    /// Adds the defaults for which `fit` has a value.
    pub(crate) fn fit_defaults(&mut self, fit: impl Fn(&str, f64) -> Option<f64>) {
        self.defaults = self.defaults.iter().filter_map(|(name, value)| Some((*name, fit(name, *value)?))).collect();
    }

    /// Whether a default of that name would be added.
    pub(crate) fn has_default(&self, name: &str) -> bool {
        self.defaults.iter().any(|(known, _)| *known == name)
    }

    /// The whole copy.
    pub(crate) fn finish(mut self) -> Bytes {
        for (name, value) in std::mem::take(&mut self.defaults) {
            self.add(name, value);
        }
        let body = self.splice.finish();
        if self.added.is_empty() { body } else { with_first_members(&body, self.added.as_bytes()) }
    }
}
