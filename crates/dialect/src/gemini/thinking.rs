//! `thinkingConfig`: a level or a budget, never both.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::EffortBudgets;

use super::models::{Capabilities, ThinkingControl};
use crate::{
    json::{push_member, push_object, push_string_member, push_u64},
    neutral::{Effort, Reasoning, UnsupportedFields},
};

/// Appends the member, if there is anything to say.
pub(super) fn push(
    reasoning: &Reasoning,
    capabilities: Capabilities,
    budgets: &EffortBudgets,
    config: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    if !reasoning.is_on() && !reasoning.is_off() {
        return;
    }
    let mut members = BytesMut::new();
    let is_exact = match capabilities.thinking {
        ThinkingControl::Never => {
            if reasoning.is_on() {
                unsupported.drop("reasoning");
            }
            return;
        }
        ThinkingControl::Budget { can_be_off, least, most } => {
            let wanted = reasoning.max_tokens.or_else(|| Some(reasoning.effort?.budget(budgets)));
            let (budget, is_exact) = budget(reasoning, wanted, can_be_off, (least, most));
            push_member(&mut members, b"thinkingBudget", b"");
            match budget {
                Some(tokens) => push_u64(&mut members, tokens),
                None => members.put_slice(b"-1"),
            }
            is_exact
        }
        ThinkingControl::Level(levels) => {
            let (level, is_exact) = level(reasoning, levels);
            if let Some(level) = level {
                push_string_member(&mut members, b"thinkingLevel", &level.as_str().to_ascii_uppercase());
            }
            is_exact
        }
    };
    if !is_exact {
        unsupported.emulate("reasoning");
    }
    if reasoning.is_on() && !reasoning.exclude {
        push_member(&mut members, b"includeThoughts", b"true");
    }
    push_object(config, b"thinkingConfig", &members);
}

/// The budget, and whether it is what was asked for. `None`: as much as the model finds right.
fn budget(
    reasoning: &Reasoning,
    wanted: Option<u64>,
    can_be_off: bool,
    (least, most): (u64, u64),
) -> (Option<u64>, bool) {
    if reasoning.is_off() {
        return (Some(if can_be_off { 0 } else { least }), can_be_off);
    }
    let Some(wanted) = wanted else { return (None, true) };
    let given = wanted.clamp(least, most);
    (Some(given), given == wanted)
}

/// The level, and whether it is what was asked for. `None`: as much as the model finds right.
fn level(reasoning: &Reasoning, levels: &[Effort]) -> (Option<Effort>, bool) {
    let Some(wanted) = reasoning.wanted_effort() else { return (None, true) };
    let given = wanted.nearest(levels);
    let is_said = reasoning.is_off() || reasoning.effort.is_some();
    (given, is_said && given == Some(wanted))
}
