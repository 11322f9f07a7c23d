//! One choice of a chunk: read in one pass, copied if it is regular, rewritten otherwise.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::FinishReason;

use super::split_halves::SplitHalves;
use crate::{
    answer::{AnswerContext, AnswerFault, AnswerResult},
    json::{Cursor, JsonFault, Raw, push_comma, push_member},
    openai::{
        error::is_filter_note,
        finish::{clean_name, normalise},
        message_member::{ContentParts, MessageMember, OutputLengths, push_reasoning_details},
        meter::Finish,
        tool_call::{FunctionCall, LEGACY, MoreOfCall, ToolCallHead, ToolCallPart},
        tool_calls::{Cause, ToolCallContext, ToolCallOrder, ToolCallSink, ToolCallTracker},
    },
};

/// The member of a choice with its content, in a chunk.
pub(super) const DELTA: &[u8] = b"delta";
/// Bytes of other members that may wait together with a finish.
pub(super) const MAX_HELD_BYTES: usize = 64 * 1024;
const NO_LOGPROBS: &[u8] = b",\"logprobs\":null";

/// One element of a chunk's `choices`, read but not yet rewritten.
#[derive(Debug, Default)]
pub(super) struct ChoicePart<'a> {
    /// The name of the member with its content.
    holder: &'static [u8],
    /// Which choice, if the upstream says so.
    pub(super) index: Option<u64>,
    /// What it adds.
    pub(super) delta: Delta<'a>,
    /// Why it ends; the string is not empty.
    pub(super) finish: Option<Raw<'a>>,
    native: Option<Raw<'a>>,
    logprobs: Option<Raw<'a>>,
    /// The whole element, if it has members of other names.
    others: Option<Raw<'a>>,
}

/// A delta, with what there is to know before it is copied.
#[derive(Debug, Default)]
pub(super) struct Delta<'a> {
    /// Texts in it.
    pub(super) measured: OutputLengths,
    /// Whether any of it is content.
    pub(super) has_content: bool,
    /// Whether any of that is for the client to see.
    pub(super) is_visible: bool,
    object: Option<Raw<'a>>,
    members: usize,
    /// Whether some member must be changed or left out.
    is_odd: bool,
    tool_calls: Option<Raw<'a>>,
    /// Whether there is a text, maybe an empty one, or what may stand in its place.
    has_text: bool,
    /// The last content, if it is a text that is not empty.
    text: Option<Raw<'a>>,
    /// Whether there is anything but that text, a role and empty members.
    has_more: bool,
    /// Reasoning that is a mere text.
    thought: Option<Raw<'a>>,
    /// Whether its reasoning has the form that other providers' have.
    has_details: bool,
}

impl<'a> ChoicePart<'a> {
    /// Reads the next element.
    pub(super) fn read(
        cursor: &mut Cursor<'a>,
        holder: &'static [u8],
        exclude_reasoning: bool,
    ) -> AnswerResult<ChoicePart<'a>> {
        let mut part = ChoicePart { holder, ..ChoicePart::default() };
        let mut has_others = false;
        cursor.pass_byte(b'{')?;
        let start = cursor.at() - 1;
        let mut first = true;
        while let Some(key) = cursor.key(&mut first)? {
            let name = key.name();
            if *name == *holder {
                part.delta = Delta::read(cursor, exclude_reasoning)?;
                continue;
            }
            let value = cursor.value()?;
            match &*name {
                b"index" => part.index = value.count(),
                b"finish_reason" => part.finish = value.filled_string(),
                b"native_finish_reason" => part.native = value.filled_string(),
                b"logprobs" => part.logprobs = Some(value).filter(|value| !value.is_null()),
                name => has_others |= !is_filter_note(name),
            }
        }
        part.others = has_others.then(|| cursor.since(start));
        Ok(part)
    }

    /// Its text, if there is nothing else to count in it.
    pub(super) fn only_text(&self) -> Option<Raw<'a>> {
        self.delta.text.filter(|_| self.finish.is_none() && !self.delta.has_more)
    }

    /// At most so many bytes of members come with the delta.
    fn member_bytes(&self) -> usize {
        [self.logprobs, self.others].into_iter().flatten().map(|raw| raw.bytes().len()).sum()
    }

    /// Appends the log probabilities and the members of other names, each with a comma in front.
    fn push_members(&self, out: &mut BytesMut) {
        match self.logprobs {
            Some(logprobs) => push_member(out, b"logprobs", logprobs.bytes()),
            None => out.put_slice(NO_LOGPROBS),
        }
        for (key, value) in self.others.into_iter().flat_map(Raw::members) {
            match &*key.name() {
                b"index" | b"delta" | b"finish_reason" | b"native_finish_reason" | b"logprobs" => {}
                name if name == self.holder || is_filter_note(name) => {}
                _ => push_member(out, key.inner(), value.bytes()),
            }
        }
    }
}

impl<'a> Delta<'a> {
    fn read(cursor: &mut Cursor<'a>, exclude_reasoning: bool) -> AnswerResult<Delta<'a>> {
        let mut delta = Delta::default();
        if cursor.peek()? != b'{' {
            let value = cursor.value()?;
            return if value.is_null() { Ok(delta) } else { Err(JsonFault::Invalid.into()) };
        }
        let start = cursor.at();
        cursor.pass_byte(b'{')?;
        let mut first = true;
        while let Some(key) = cursor.key(&mut first)? {
            let value = cursor.value()?;
            let member = MessageMember::named(&key.name());
            member.check(value)?;
            delta.measured.add(member, &key.name(), value);
            delta.members += 1;
            let is_hidden = exclude_reasoning && member.is_reasoning(value);
            delta.has_content |= member.is_content(value);
            delta.is_visible |= member.is_content(value) && !is_hidden;
            if member == MessageMember::ToolCalls && value.is_array() && value.is_filled() {
                delta.tool_calls = Some(value);
            }
            delta.has_more |= match member {
                MessageMember::Role => false,
                MessageMember::Content => delta.text.is_some() || value.is_array(),
                _ => value.is_filled(),
            };
            delta.is_odd |= match member {
                MessageMember::Role | MessageMember::ToolCalls | MessageMember::FunctionCall => true,
                MessageMember::Reasoning => {
                    delta.has_details |= value.is_array() && value.is_filled() && is_details(key);
                    delta.thought = delta.thought.or(value.filled_string());
                    is_hidden
                }
                MessageMember::Content => {
                    delta.has_text |= !value.is_null();
                    delta.text = value.filled_string();
                    value.is_array()
                }
                MessageMember::Refusal | MessageMember::Audio => {
                    delta.has_text |= value.is_filled();
                    false
                }
                _ => member.is_never_null() && value.is_null(),
            };
        }
        delta.is_odd |= delta.thought.is_some() && !delta.has_details;
        delta.object = Some(cursor.since(start));
        Ok(delta)
    }
}

/// What is known about one choice of a stream.
#[derive(Debug)]
pub(super) struct ChoiceState {
    /// Its index, the same in every chunk.
    pub(super) index: u64,
    /// Its end, held back until nothing more of it can come.
    pub(super) held: Option<HeldFinish>,
    /// Its calls.
    pub(super) calls: ToolCallTracker,
    /// Whether it called a tool or a function.
    pub(super) has_called: bool,
    /// Whether a chunk with its role is out.
    pub(super) has_role: bool,
    /// Whether a chunk with a text is out, maybe an empty one, or with what may stand in its place.
    pub(super) has_text: bool,
    /// Halves of characters at the end of its texts.
    pub(super) halves: SplitHalves,
}

/// A finish that waits for the end of the stream, so that it comes after every delta, and once.
#[derive(Debug)]
pub(super) struct HeldFinish {
    pub(super) finish: Finish,
    /// Members of the choice that came with it, each with a comma in front.
    pub(super) choice_members: BytesMut,
    /// Members of the chunk that came with it, likewise.
    pub(super) chunk_members: BytesMut,
}

/// Options for rewriting a delta.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeltaRules<'a> {
    pub(super) call_context: ToolCallContext<'a>,
    pub(super) exclude_reasoning: bool,
    pub(super) legacy_functions: bool,
}

impl<'a> DeltaRules<'a> {
    /// The options for a choice.
    pub(super) fn new(context: &'a AnswerContext, choice: u64) -> DeltaRules<'a> {
        let AnswerContext { exclude_reasoning, legacy_functions, .. } = *context;
        DeltaRules {
            call_context: ToolCallContext { context, choice, order: ToolCallOrder::Any },
            exclude_reasoning,
            legacy_functions,
        }
    }
}

/// Result of rewriting one element.
#[derive(Debug, Clone, Copy)]
pub(super) struct RewrittenChoice {
    /// Whether the client gets anything of it now.
    pub(super) is_written: bool,
    /// Whether its finish was put aside.
    pub(super) is_held: bool,
    /// Bytes of calls the model produced.
    pub(super) call_bytes: u64,
}

impl ChoiceState {
    pub(super) fn new(index: u64) -> ChoiceState {
        ChoiceState {
            index,
            held: None,
            calls: ToolCallTracker::default(),
            has_called: false,
            has_role: false,
            has_text: false,
            halves: SplitHalves::default(),
        }
    }

    /// Appends one element of `choices`, or nothing when there is nothing to tell yet.
    pub(super) fn push(
        &mut self,
        part: &ChoicePart<'_>,
        rules: DeltaRules<'_>,
        out: &mut BytesMut,
    ) -> AnswerResult<RewrittenChoice> {
        let start = out.len();
        push!(out; br#"{"index":"#, self.index, br#","delta":"#);
        let delta_start = out.len();
        let call_bytes = self.push_delta(&part.delta, rules, out)?;
        self.has_text |= part.delta.has_text;
        let is_empty = out.len() == delta_start + b"{}".len();
        let is_held = part.finish.is_some() && self.held.is_none();
        // An empty delta tells only what came with it. With a finish that can wait for the finish, unless it is
        // too much to remember.
        let member_bytes = part.member_bytes();
        let can_wait = is_held && member_bytes <= MAX_HELD_BYTES;
        let is_written = !is_empty || (member_bytes > 0 && !can_wait);
        if is_written {
            out.put_slice(b",\"finish_reason\":null,\"native_finish_reason\":null");
            part.push_members(out);
            out.put_u8(b'}');
        } else {
            out.truncate(start);
        }
        if is_held {
            self.hold(part, !is_written);
        }
        Ok(RewrittenChoice { is_written, is_held, call_bytes })
    }

    /// Appends the delta of its finish: empty, unless nothing was said that clients can send back.
    pub(super) fn push_last_delta(&self, out: &mut BytesMut) {
        out.put_slice(if self.has_text || self.has_called { b"{}" } else { b"{\"content\":\"\"}" });
    }

    /// Appends an element of `choices` with what is still to be said before the finish; nothing if that is nothing.
    pub(super) fn push_rest(&mut self, rules: DeltaRules<'_>, out: &mut BytesMut) -> AnswerResult {
        let whole = matches!(&self.held, Some(held) if matches!(held.finish.reason, FinishReason::Stop | FinishReason::ToolCalls));
        let before = out.len();
        push!(out; br#"{"index":"#, self.index, br#","delta":{"#);
        let mut members = DeltaWriter { start: out.len(), call_bytes: 0, out };
        if rules.legacy_functions {
            let mut call = FunctionCall::default();
            self.calls.end(whole, &mut call)?;
            call.value().into_iter().for_each(|value| members.push(b"function_call", &value));
        } else {
            let part = ToolCallPart::default();
            members.push_list(b"tool_calls", |out| self.calls.end(whole, &mut Elements { part, out }))?;
        }
        if members.out.len() == members.start {
            members.out.truncate(before);
            return Ok(());
        }
        push!(out; br#"},"finish_reason":null,"native_finish_reason":null"#, NO_LOGPROBS, b"}");
        Ok(())
    }

    fn hold(&mut self, part: &ChoicePart<'_>, with_members: bool) {
        let mut choice_members = BytesMut::new();
        if with_members {
            part.push_members(&mut choice_members);
        } else {
            choice_members.put_slice(NO_LOGPROBS);
        }
        let word = part.finish.and_then(Raw::text).unwrap_or_default();
        self.held = Some(HeldFinish {
            finish: Finish {
                reason: normalise(&word).after_calls(self.has_called),
                native: part.native.or(part.finish).and_then(clean_name).map(Cow::into_owned),
            },
            choice_members,
            chunk_members: BytesMut::new(),
        });
    }

    /// Appends a delta as an object, and returns the bytes of its calls.
    fn push_delta(&mut self, delta: &Delta<'_>, rules: DeltaRules<'_>, out: &mut BytesMut) -> AnswerResult<u64> {
        if self.has_role && !delta.is_odd {
            out.put_slice(delta.object.filter(|_| delta.members > 0).map_or(b"{}", Raw::bytes));
            return Ok(0);
        }
        out.put_u8(b'{');
        let mut members = DeltaWriter { start: out.len(), call_bytes: 0, out };
        if !std::mem::replace(&mut self.has_role, true) {
            members.push(b"role", b"\"assistant\"");
        }
        match (delta.tool_calls, delta.object) {
            (Some(calls), _) if delta.members == 1 => self.push_calls(calls, rules, &mut members)?,
            (_, Some(object)) => self.push_members(object, delta, rules, &mut members)?,
            (_, None) => {}
        }
        let call_bytes = members.call_bytes;
        out.put_u8(b'}');
        Ok(call_bytes)
    }

    fn push_calls(&mut self, calls: Raw<'_>, rules: DeltaRules<'_>, members: &mut DeltaWriter<'_>) -> AnswerResult {
        self.has_called |= calls.is_filled();
        let parts = calls.elements().map(ToolCallPart::read);
        self.push_parts(parts, rules, members)
    }

    /// Appends what the parts of calls say; `None` is no part.
    fn push_parts<'p>(
        &mut self,
        parts: impl Iterator<Item = Option<ToolCallPart<'p>>>,
        rules: DeltaRules<'_>,
        members: &mut DeltaWriter<'_>,
    ) -> AnswerResult {
        let (calls, context, mut bytes) = (&mut self.calls, rules.call_context, 0);
        let mut parts = parts.map(|part| {
            let part = part.ok_or_else(|| AnswerFault::malformed("a call that is no object"))?;
            bytes += part.text_bytes();
            Ok(part)
        });
        if rules.legacy_functions {
            let mut first = FunctionCall::default();
            parts.try_for_each(|part| calls.push(&part?.piece(), context, &mut first))?;
            drop(parts);
            members.call_bytes += bytes;
            first.value().into_iter().for_each(|value| members.push(b"function_call", &value));
            return Ok(());
        }
        let pushed = members.push_list(b"tool_calls", |out| {
            parts.try_for_each(|part: Result<ToolCallPart<'_>, AnswerFault>| {
                let part = part?;
                calls.push(&part.piece(), context, &mut Elements { part, out })
            })
        });
        drop(parts);
        members.call_bytes += bytes;
        pushed
    }

    fn push_members(
        &mut self,
        object: Raw<'_>,
        delta: &Delta<'_>,
        rules: DeltaRules<'_>,
        members: &mut DeltaWriter<'_>,
    ) -> AnswerResult {
        let has_tool_calls = delta.tool_calls.is_some();
        let parts = object.member(b"content").and_then(ContentParts::read);
        let parts_reasoning = parts.as_ref().and_then(|parts| parts.reasoning.as_deref());
        let thought = delta
            .thought
            .map(Raw::bytes)
            .or(parts_reasoning)
            .filter(|_| !rules.exclude_reasoning && !delta.has_details);
        let mut lacks_reasoning = thought.is_some();
        for (key, value) in object.members() {
            match MessageMember::named(&key.name()) {
                MessageMember::Role => {}
                MessageMember::Content if value.is_array() => {
                    parts.iter().for_each(|parts| members.push(key.inner(), &parts.text));
                }
                MessageMember::Reasoning if rules.exclude_reasoning => {}
                MessageMember::Reasoning => {
                    let is_reasoning = *key.name() == *b"reasoning";
                    lacks_reasoning &= !(is_reasoning && value.is_filled());
                    // What is written below.
                    if thought.is_none() || value.is_filled() || !(is_reasoning || is_details(key)) {
                        members.push(key.inner(), value.bytes());
                    }
                }
                MessageMember::ToolCalls if value.is_array() => self.push_calls(value, rules, members)?,
                MessageMember::ToolCalls => {}
                MessageMember::FunctionCall if value.is_object() => {
                    self.has_called = true;
                    // Some servers send both forms of a call.
                    if !has_tool_calls && !self.calls.has_others_than(LEGACY) {
                        self.push_parts(std::iter::once(Some(ToolCallPart::read_legacy(value))), rules, members)?;
                    }
                }
                member if value.is_null() && member.is_never_null() => {}
                _ => members.push(key.inner(), value.bytes()),
            }
        }
        if let Some(thought) = thought {
            if lacks_reasoning {
                members.push(b"reasoning", thought);
            }
            members.push_list(b"reasoning_details", |out| push_reasoning_details(thought, out));
        }
        Ok(())
    }
}

fn is_details(key: Raw<'_>) -> bool {
    *key.name() == *b"reasoning_details"
}

/// Writes the members of a delta that is not simply copied.
struct DeltaWriter<'a> {
    /// Where the first member begins.
    start: usize,
    call_bytes: u64,
    out: &'a mut BytesMut,
}

impl DeltaWriter<'_> {
    fn push(&mut self, name: &[u8], value: &[u8]) {
        if self.out.len() > self.start {
            self.out.put_u8(b',');
        }
        push!(self.out; br#"""#, name, br#"":"#, value);
    }

    /// Writes a list, unless it has no elements.
    fn push_list<T>(&mut self, name: &[u8], push_elements: impl FnOnce(&mut BytesMut) -> T) -> T {
        let before = self.out.len();
        self.push(name, b"[");
        let elements = self.out.len();
        let pushed = push_elements(self.out);
        if self.out.len() == elements {
            self.out.truncate(before);
        } else {
            self.out.put_u8(b']');
        }
        pushed
    }
}

/// Writes calls as elements of `tool_calls`, each with the members of other names of its part.
struct Elements<'o, 'p> {
    part: ToolCallPart<'p>,
    out: &'o mut BytesMut,
}

impl ToolCallSink for Elements<'_, '_> {
    fn begin(&mut self, head: &ToolCallHead<'_>, cause: Cause) -> AnswerResult {
        let part = if cause == Cause::Piece { self.part } else { ToolCallPart::default() };
        push_comma(self.out);
        head.push(&part, self.out);
        Ok(())
    }

    fn more(&mut self, more: &MoreOfCall<'_>, cause: Cause) -> AnswerResult {
        let part = if cause == Cause::Piece { self.part } else { ToolCallPart::default() };
        if more.arguments.is_empty() && more.name.is_none() && !part.has_others() {
            return Ok(());
        }
        push_comma(self.out);
        more.push(&part, self.out);
        Ok(())
    }
}

/// The deprecated form of a call has no more than the first.
impl ToolCallSink for FunctionCall {
    fn begin(&mut self, head: &ToolCallHead<'_>, _: Cause) -> AnswerResult {
        if head.index == Some(0) {
            self.name = Some(head.name.to_vec());
            self.arguments.put_slice(head.arguments);
        }
        Ok(())
    }

    fn more(&mut self, more: &MoreOfCall<'_>, _: Cause) -> AnswerResult {
        if more.place == 0 {
            self.name = more.name.map(|name| name.as_bytes().to_vec()).or(self.name.take());
            self.arguments.put_slice(more.arguments);
        }
        Ok(())
    }
}
