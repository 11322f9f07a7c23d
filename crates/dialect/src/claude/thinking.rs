//! `thinking` and `output_config.effort` from the requested reasoning.

use bytes::BytesMut;
use pointsman_domain::{EffortBudgets, ReasoningFormat};

use super::models::{Capabilities, ThinkingControl, ThinkingOff};
use crate::{
    json::push_member,
    neutral::{AlternatingTurn, Content, Effort, Reasoning, ReasoningState, Speaker, UnsupportedFields},
};

/// Smallest budget of reasoning, tokens.
const LEAST_BUDGET: u64 = 1_024;

/// What is sent about reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThinkingPlan {
    pub(crate) thinking: Thinking,
    /// `output_config.effort`
    pub(crate) effort: Option<Effort>,
}

/// The member `thinking`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// Not sent.
    Unsaid,
    Disabled,
    BetweenTools,
    Adaptive {
        shown: bool,
    },
    Budget(u64),
}

impl ThinkingPlan {
    const UNSAID: ThinkingPlan = ThinkingPlan { thinking: Thinking::Unsaid, effort: None };

    /// Whether the model reasons as far as the request says: then most sampling parameters are refused.
    pub(crate) fn is_on(self) -> bool {
        matches!(self.thinking, Thinking::Adaptive { .. } | Thinking::Budget(_) | Thinking::BetweenTools)
    }

    /// Appends the member `thinking`.
    pub(crate) fn push(self, out: &mut BytesMut) {
        match self.thinking {
            Thinking::Unsaid => {}
            Thinking::Disabled => push_member(out, b"thinking", b"{\"type\":\"disabled\"}"),
            Thinking::BetweenTools => push_member(out, b"thinking", b"{\"type\":\"between_tools\"}"),
            Thinking::Adaptive { shown: true } => {
                push_member(out, b"thinking", b"{\"type\":\"adaptive\",\"display\":\"summarized\"}");
            }
            Thinking::Adaptive { shown: false } => {
                push_member(out, b"thinking", b"{\"type\":\"adaptive\",\"display\":\"omitted\"}");
            }
            Thinking::Budget(tokens) => push!(out; br#","thinking":{"type":"enabled","budget_tokens":"#, tokens, b"}"),
        }
    }
}

/// Circumstances that decide about reasoning besides what the client asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances {
    pub(crate) max_tokens: u64,
    /// `tool_choice` forces a call.
    pub(crate) forces_tool: bool,
    /// See [`lacks_reasoning_of_open_turn`].
    pub(crate) lacks_reasoning: bool,
    /// What an effort becomes at a model that takes a budget.
    pub(crate) budgets: EffortBudgets,
}

/// What to send for the requested reasoning.
pub(crate) fn plan(
    reasoning: &Reasoning,
    capabilities: &Capabilities,
    circumstances: Circumstances,
    unsupported: &mut UnsupportedFields,
) -> ThinkingPlan {
    if reasoning.is_off() {
        return off(capabilities, unsupported);
    }
    let shown = !reasoning.exclude;
    if !reasoning.is_on() {
        // A model that always reasons shows it only on request.
        let always = capabilities.thinking_off != ThinkingOff::Disabled;
        let thinking = if always && shown { Thinking::Adaptive { shown } } else { Thinking::Unsaid };
        return ThinkingPlan { thinking, effort: None };
    }
    match capabilities.thinking {
        ThinkingControl::Adaptive => {
            let effort = adaptive_effort(reasoning, unsupported);
            ThinkingPlan { thinking: Thinking::Adaptive { shown }, effort }
        }
        ThinkingControl::Budget => budget(reasoning, circumstances, unsupported),
    }
}

fn off(capabilities: &Capabilities, unsupported: &mut UnsupportedFields) -> ThinkingPlan {
    if capabilities.thinking_off != ThinkingOff::Disabled {
        unsupported.emulate("reasoning");
    }
    match capabilities.thinking_off {
        ThinkingOff::Disabled => ThinkingPlan { thinking: Thinking::Disabled, effort: None },
        ThinkingOff::BetweenTools => ThinkingPlan { thinking: Thinking::BetweenTools, effort: None },
        ThinkingOff::LowEffort => ThinkingPlan { thinking: Thinking::Unsaid, effort: Some(Effort::Low) },
    }
}

fn adaptive_effort(reasoning: &Reasoning, unsupported: &mut UnsupportedFields) -> Option<Effort> {
    if reasoning.max_tokens.is_some() {
        unsupported.emulate("reasoning");
    }
    match reasoning.effort.or_else(|| reasoning.max_tokens.map(Effort::of_budget)) {
        Some(Effort::Minimal) => {
            unsupported.emulate("reasoning");
            Some(Effort::Low)
        }
        effort => effort,
    }
}

fn budget(reasoning: &Reasoning, circumstances: Circumstances, unsupported: &mut UnsupportedFields) -> ThinkingPlan {
    let Circumstances { max_tokens, forces_tool, lacks_reasoning, budgets } = circumstances;
    if forces_tool || max_tokens <= LEAST_BUDGET {
        unsupported.drop("reasoning");
        return ThinkingPlan::UNSAID;
    }
    if lacks_reasoning {
        unsupported.emulate("reasoning");
        return ThinkingPlan { thinking: Thinking::Disabled, effort: None };
    }
    let wanted = reasoning.max_tokens.unwrap_or_else(|| reasoning.effort.unwrap_or(Effort::Medium).budget(&budgets));
    let given = wanted.clamp(LEAST_BUDGET, max_tokens.saturating_sub(1).max(LEAST_BUDGET));
    if given != wanted || (reasoning.max_tokens.is_some() && reasoning.effort.is_some()) {
        unsupported.emulate("reasoning");
    }
    ThinkingPlan { thinking: Thinking::Budget(given), effort: None }
}

/// Whether the last answer called tools, their results are the last message, and the answer does not begin with reasoning
/// that can go back, since another provider wrote it. With a budget the API refuses that.
pub(crate) fn lacks_reasoning_of_open_turn(turns: &[AlternatingTurn<'_>]) -> bool {
    let spoken = match turns {
        [spoken @ .., last] if last.speaker == Speaker::System => spoken,
        turns => turns,
    };
    let [.., answer, results] = spoken else { return false };
    let has_results = results.parts.iter().any(|part| matches!(part.content, Content::ToolResult { .. }));
    let mut states = answer.parts.iter().map_while(|part| match &part.content {
        Content::Reasoning(state) => Some(state),
        _ => None,
    });
    answer.speaker == Speaker::Assistant && has_results && !states.any(is_returnable)
}

/// Whether reasoning of an earlier answer can go back to Claude: it wrote it, and it is signed or encrypted.
fn is_returnable(state: &ReasoningState<'_>) -> bool {
    state.format == ReasoningFormat::Anthropic && state.sealed.as_ref().is_some_and(|sealed| !sealed.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_and_efforts_turn_into_each_other_and_back() {
        for effort in [Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max] {
            assert_eq!(Effort::of_budget(effort.budget(&EffortBudgets::default())), effort);
        }
    }
}
