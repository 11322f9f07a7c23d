//! Calls of tools and their results, in the order that every provider takes.
//!
//! Clients put other messages between the results of one turn, answer calls late, or call tools in two messages in a row.
//! Providers want all results of a turn directly behind its calls. No model has seen a turn whose calls were open, so that a
//! prompt that was sent before stays a prefix of the next one.

use std::collections::{HashMap, VecDeque};

use super::{
    conversation::{Content, Conversation, Part, Role, Turn},
    instruction_media,
    text::EscapedText,
    unsupported_fields::UnsupportedFields,
};

impl Conversation<'_> {
    /// Puts results of calls behind their calls. Instructions before the first other message become [`Conversation::system`].
    pub(crate) fn settle_turns(&mut self) {
        let mut turns = results_behind_calls(std::mem::take(&mut self.turns), true, &mut self.unsupported);
        for turn in turns.iter_mut().filter(|turn| turn.role == Role::Developer) {
            turn.role = Role::System;
        }
        self.turns = instruction_media::moved_to_user(turns, &mut self.unsupported);
        let leading = self.turns.iter().take_while(|turn| turn.role == Role::System).count();
        self.system = self.turns.drain(..leading).flat_map(|turn| turn.parts).collect();
    }
}

/// Puts results behind their calls, in the order of these. A call without a result gets one, which has failed if `marks_made_as_failed`;
/// a result of an unknown call becomes a text of the user. Both are named in `unsupported`.
pub(crate) fn results_behind_calls<'a>(
    turns: Vec<Turn<'a>>,
    marks_made_as_failed: bool,
    unsupported: &mut UnsupportedFields,
) -> Vec<Turn<'a>> {
    if are_in_place(&turns) {
        return turns;
    }
    let mut results = Results::collect(&turns);
    let mut left: Vec<Option<Turn<'a>>> = turns.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(left.len());
    for first in 0..left.len() {
        let Some(turn) = taken(&mut left, first) else { continue };
        if let Some((id, parts)) = result_of(&turn) {
            unsupported.emulate("messages[].tool_call_id");
            ordered.push(as_user_turn(id, parts));
            continue;
        }
        if call_ids(&turn).next().is_none() {
            ordered.push(turn);
            continue;
        }
        let (mut answers, mut last) = (vec![turn], first);
        while let Some(next) = left.get_mut(last + 1).and_then(|next| next.take_if(|next| next.role == Role::Assistant))
        {
            answers.push(next);
            last += 1;
        }
        let answer = joined(answers);
        let ids: Vec<EscapedText<'a>> = call_ids(&answer).cloned().collect();
        ordered.push(answer);
        for id in ids {
            let result = results.take(&id, last).and_then(|place| taken(&mut left, place));
            ordered.push(result.unwrap_or_else(|| {
                unsupported.emulate("messages[].tool_calls[].id");
                made_result(id, marks_made_as_failed)
            }));
        }
    }
    ordered
}

/// Whether all results stand directly behind the calls of their turn, in the order of these.
fn are_in_place(turns: &[Turn<'_>]) -> bool {
    let mut awaited: VecDeque<&EscapedText<'_>> = VecDeque::new();
    for turn in turns {
        match result_of(turn) {
            Some((id, _)) if awaited.front() == Some(&id) => drop(awaited.pop_front()),
            None if awaited.is_empty() => awaited.extend(call_ids(turn)),
            _ => return false,
        }
    }
    awaited.is_empty()
}

fn taken<'a>(turns: &mut [Option<Turn<'a>>], place: usize) -> Option<Turn<'a>> {
    turns.get_mut(place)?.take()
}

/// Ids of the calls of an answer.
fn call_ids<'t, 'a>(turn: &'t Turn<'a>) -> impl Iterator<Item = &'t EscapedText<'a>> {
    turn.parts.iter().filter_map(|part| match &part.content {
        Content::ToolCall { id, .. } => Some(id),
        _ => None,
    })
}

/// The id of the call that a result belongs to, and what it says.
fn result_of<'t, 'a>(turn: &'t Turn<'a>) -> Option<(&'t EscapedText<'a>, &'t [Part<'a>])> {
    match &turn.parts.first()?.content {
        Content::ToolResult { id, parts, .. } => Some((id, parts)),
        _ => None,
    }
}

/// Places of the results by the ids of their calls, and of the calls with these ids. Ids may come again in a later turn.
#[derive(Default)]
struct Results<'a> {
    results: HashMap<EscapedText<'a>, VecDeque<usize>>,
    calls: HashMap<EscapedText<'a>, VecDeque<usize>>,
}

impl<'a> Results<'a> {
    fn collect(turns: &[Turn<'a>]) -> Results<'a> {
        let mut all = Results::default();
        for (place, turn) in turns.iter().enumerate() {
            if let Some((id, _)) = result_of(turn) {
                all.results.entry(id.clone()).or_default().push_back(place);
            }
            for id in call_ids(turn) {
                all.calls.entry(id.clone()).or_default().push_back(place);
            }
        }
        all
    }

    /// The first result of a call that stands behind the turn at `place` and before the next one with a call of this id.
    fn take(&mut self, id: &EscapedText<'a>, place: usize) -> Option<usize> {
        let calls = self.calls.get_mut(id)?;
        while calls.front().is_some_and(|call| *call <= place) {
            calls.pop_front();
        }
        let results = self.results.get_mut(id)?;
        while results.front().is_some_and(|result| *result < place) {
            results.pop_front();
        }
        let end = calls.front().copied().unwrap_or(usize::MAX);
        results.pop_front_if(|result| *result < end)
    }
}

fn made_result<'a>(id: EscapedText<'a>, failed: bool) -> Turn<'a> {
    let parts = vec![Part::new(Content::Text(EscapedText::plain("[no result]")))];
    let result = Part::new(Content::ToolResult { id, parts, failed });
    Turn::new(Role::Tool, vec![result])
}

/// A result of an unknown call, as a text of the user.
fn as_user_turn<'a>(id: &EscapedText<'a>, said: &[Part<'a>]) -> Turn<'a> {
    let head = EscapedText::escaping(&format!("[tool result {}]", id.unescaped()));
    let said = said.iter().filter(|part| !is_empty(part)).cloned();
    let parts = std::iter::once(Part::new(Content::Text(head))).chain(said).collect();
    Turn::new(Role::User, parts)
}

/// Answers in a row, as one.
fn joined(mut answers: Vec<Turn<'_>>) -> Turn<'_> {
    if answers.len() == 1
        && let Some(only) = answers.pop()
    {
        return only;
    }
    let is_named = answers.iter().any(|answer| answer.is_named);
    let mut parts: Vec<Part<'_>> = answers.into_iter().flat_map(|answer| answer.parts).collect();
    parts.retain(|part| !is_empty(part));
    parts.sort_by_key(|part| match part.content {
        Content::Reasoning(_) => 0,
        Content::ToolCall { .. } => 2,
        _ => 1,
    });
    Turn { role: Role::Assistant, parts, is_named }
}

fn is_empty(part: &Part<'_>) -> bool {
    matches!(&part.content, Content::Text(text) if text.is_empty())
}
