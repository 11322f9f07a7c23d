//! `reasoning`: how much the model reasons, and whether the client sees a summary of it.

use bytes::BytesMut;
use pointsman_domain::{AddedMember, AddedMembers};

use super::models::Capabilities;
use crate::{
    json::{push_object, push_string_member},
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
    if capabilities.efforts.is_empty() {
        if reasoning.is_on() {
            unsupported.drop("reasoning");
        }
        return ReasoningPlan::default();
    }
    let wanted = reasoning.wanted_effort().or_else(|| {
        let is_idle = reasoning.is_on() && !capabilities.reasons_by_default;
        is_idle.then_some(Effort::Medium)
    });
    let effort = wanted.and_then(|wanted| wanted.nearest(capabilities.efforts));
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
        let mut members = BytesMut::new();
        if let Some(effort) = self.effort {
            push_string_member(&mut members, b"effort", effort.as_str());
        }
        if self.shows_summary {
            push_string_member(&mut members, b"summary", "auto");
        }
        push_object(out, b"reasoning", &members);
    }
}
