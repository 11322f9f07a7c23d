//! `reasoning`: how much the model reasons, and whether the client sees a summary of it.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::{AddedMember, AddedMembers};

use super::models::{Capabilities, effort_of_budget};
use crate::{
    json::{push_comma, push_member, push_string},
    neutral::{Effort, Reasoning, UnsupportedFields},
};

/// What is asked of the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ReasoningPlan {
    effort: Option<Effort>,
    shows_summary: bool,
}

/// Decides about the reasoning that the client asked for.
pub(super) fn plan(
    reasoning: &Reasoning,
    capabilities: Capabilities,
    omits: AddedMembers,
    unsupported: &mut UnsupportedFields,
) -> ReasoningPlan {
    let wanted = if reasoning.is_off() {
        Some(Effort::None)
    } else {
        reasoning.effort.or(reasoning.max_tokens.map(effort_of_budget))
    };
    if capabilities.efforts.is_empty() {
        if reasoning.is_on() {
            unsupported.drop("reasoning");
        }
        return ReasoningPlan::default();
    }
    let wanted = wanted.or_else(|| {
        let is_idle = reasoning.is_on() && !capabilities.reasons_by_default;
        is_idle.then_some(Effort::Medium)
    });
    let effort = wanted.and_then(|wanted| capabilities.nearest_effort(wanted));
    // A budget of tokens has no form but an effort.
    if effort != wanted || (reasoning.max_tokens.is_some() && reasoning.effort.is_none() && !reasoning.is_off()) {
        unsupported.emulate("reasoning");
    }
    let omits_summary = omits.has(AddedMember::ReasoningSummary);
    ReasoningPlan { effort, shows_summary: reasoning.is_on() && !reasoning.exclude && !omits_summary }
}

impl ReasoningPlan {
    /// Whether the model takes sampling parameters with this reasoning.
    pub(super) fn admits_sampling(self, capabilities: Capabilities) -> bool {
        capabilities.admits_sampling(self.effort.map(|effort| effort != Effort::None))
    }

    /// Appends `,"reasoning":{…}`, unless nothing is asked.
    pub(super) fn push(self, out: &mut BytesMut) {
        let members = [("effort", self.effort.map(Effort::as_str)), ("summary", self.shows_summary.then_some("auto"))];
        let mut given = members.into_iter().filter_map(|(name, value)| Some((name, value?))).peekable();
        if given.peek().is_none() {
            return;
        }
        push_member(out, b"reasoning", b"{");
        for (name, value) in given {
            push_comma(out);
            push_string(out, name);
            out.put_u8(b':');
            push_string(out, value);
        }
        out.put_u8(b'}');
    }
}
