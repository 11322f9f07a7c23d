//! Tracks the tool calls of one choice and repairs missing or repeated ids and indices.

use bytes::{BufMut as _, BytesMut};

use crate::dialect::{
    answer::{AnswerContext, AnswerFault},
    json::{Raw, push_u64},
    openai::{
        answer::generated_call_id,
        tool_call::{CallHead, CallPart, FunctionCall, is_portable_id, member_names},
    },
};

/// Most tool calls of one choice: a bound on memory.
const MAX_CALLS: usize = 1_024;
/// Bytes of ids, names and early arguments that are remembered for one choice; likewise.
const MAX_KEPT_BYTES: usize = 256 * 1024;
/// The place that a legacy `function_call` takes among the upstream's indices.
const LEGACY: u64 = u64::MAX;

/// The calls of one choice so far: which delta belongs to which call, and what was already sent.
#[derive(Debug, Default)]
pub(super) struct ToolCallTracker {
    list: Vec<TrackedCall>,
    kept_bytes: usize,
}

#[derive(Debug)]
struct TrackedCall {
    upstream_index: Option<u64>,
    /// The inside of the JSON string of the upstream's id, by which it tells calls apart; empty without one.
    id: Vec<u8>,
    /// The id for the client, if the upstream's is none for it.
    generated_id: Option<String>,
    /// The inside of the name's JSON string; empty until the call is introduced.
    name: Vec<u8>,
    /// The inside of the arguments' JSON string, as far as it came before the name.
    early: BytesMut,
    is_custom: bool,
}

/// Generation and choice of the calls, for generated ids.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallContext<'a> {
    pub(super) context: &'a AnswerContext,
    pub(super) choice: u64,
}

impl ToolCallTracker {
    /// Whether some call still waits for its name.
    pub(super) fn has_nameless(&self) -> bool {
        self.list.iter().any(|call| call.name.is_empty())
    }

    /// Whether the upstream makes tool calls, and does not just use `function_call`.
    pub(super) fn are_of_tools(&self) -> bool {
        self.list.iter().any(|call| call.upstream_index != Some(LEGACY))
    }

    /// Appends the elements of a delta's `tool_calls`, put in order. Returns the bytes the model produced.
    pub(super) fn push(
        &mut self,
        calls: Raw<'_>,
        caller: CallContext<'_>,
        out: &mut BytesMut,
    ) -> Result<u64, AnswerFault> {
        let mut text_bytes = 0;
        for element in calls.elements() {
            let part = CallPart::read(element).ok_or_else(|| AnswerFault::malformed("a call that is no object"))?;
            text_bytes += part.text_bytes();
            self.push_part(&part, caller, out)?;
        }
        Ok(text_bytes)
    }

    /// Adds what a delta's `tool_calls` say of the first call to `first`: the deprecated form has no more. Returns the bytes the
    /// model produced.
    pub(super) fn push_first(
        &mut self,
        calls: Raw<'_>,
        caller: CallContext<'_>,
        first: &mut FunctionCall,
    ) -> Result<u64, AnswerFault> {
        let mut text_bytes = 0;
        for element in calls.elements() {
            let part = CallPart::read(element).ok_or_else(|| AnswerFault::malformed("a call that is no object"))?;
            text_bytes += part.text_bytes();
            let place = match self.place_of(&part) {
                Some(place) => place,
                None => self.add(&part, caller)?,
            };
            let Some(call) = self.list.get_mut(place) else { continue };
            if let Some(name) = part.name.filter(|_| call.name.is_empty()) {
                self.kept_bytes += name.inner().len();
                call.name = name.inner().to_vec();
                if place == 0 {
                    first.name = Some(call.name.clone());
                    first.arguments.extend_from_slice(&std::mem::take(&mut call.early));
                }
            }
            if place == 0 && !call.name.is_empty() {
                part.push_arguments(&mut first.arguments);
            } else if place == 0 {
                self.kept_bytes += call.hold_arguments(&part);
            }
            self.check_kept()?;
        }
        Ok(text_bytes)
    }

    /// Appends a delta's `function_call` as the tool call it stands for. Returns the bytes the model produced.
    pub(super) fn push_legacy(
        &mut self,
        function: Raw<'_>,
        caller: CallContext<'_>,
        out: &mut BytesMut,
    ) -> Result<u64, AnswerFault> {
        let part = CallPart::read_legacy(function, LEGACY);
        self.push_part(&part, caller, out)?;
        Ok(part.text_bytes())
    }

    fn push_part(
        &mut self,
        part: &CallPart<'_>,
        caller: CallContext<'_>,
        out: &mut BytesMut,
    ) -> Result<(), AnswerFault> {
        let place = match self.place_of(part) {
            Some(place) => place,
            None => self.add(part, caller)?,
        };
        let Some(call) = self.list.get_mut(place) else { return Ok(()) };
        match part.name {
            _ if !call.name.is_empty() => call.push_continuation(place, part, out),
            Some(name) => {
                self.kept_bytes += name.inner().len();
                call.introduce(place, name, part, out);
            }
            None => self.kept_bytes += call.hold_arguments(part),
        }
        self.check_kept()
    }

    fn check_kept(&self) -> Result<(), AnswerFault> {
        if self.kept_bytes > MAX_KEPT_BYTES || self.list.len() > MAX_CALLS {
            return Err(AnswerFault::malformed("more or longer calls than make sense"));
        }
        Ok(())
    }

    /// The call that an element goes on with; `None` when it begins one.
    fn place_of(&self, part: &CallPart<'_>) -> Option<usize> {
        let named = |call: &TrackedCall| part.id.is_some_and(|id| id.inner() == call.id);
        match (part.index, part.id) {
            (Some(index), id) => {
                let place = self.list.iter().rposition(|call| call.upstream_index == Some(index))?;
                // Some upstreams give every call the index 0: another id with a name of its own is another call.
                let another = id.is_some() && part.name.is_some() && !self.list.get(place).is_some_and(named);
                (!another).then_some(place)
            }
            (None, Some(_)) => self.list.iter().rposition(named),
            (None, None) if part.name.is_some() => None,
            (None, None) => self.list.len().checked_sub(1),
        }
    }

    fn add(&mut self, part: &CallPart<'_>, caller: CallContext<'_>) -> Result<usize, AnswerFault> {
        let place = self.list.len();
        let id = part.id.map(Raw::inner).unwrap_or_default().to_vec();
        let is_kept = is_portable_id(&id);
        let generated_id = (!is_kept).then(|| generated_call_id(caller.context, caller.choice, place));
        self.kept_bytes += id.len();
        self.list.push(TrackedCall {
            upstream_index: part.index,
            id,
            generated_id,
            name: Vec::new(),
            early: BytesMut::new(),
            is_custom: part.is_custom,
        });
        self.check_kept()?;
        Ok(place)
    }
}

impl TrackedCall {
    fn introduce(&mut self, place: usize, name: Raw<'_>, part: &CallPart<'_>, out: &mut BytesMut) {
        self.name = name.inner().to_vec();
        let early = std::mem::take(&mut self.early);
        push_comma(out);
        let is_custom = self.is_custom;
        let id = self.generated_id.as_deref().map_or(&*self.id, str::as_bytes);
        let introduction = CallHead { index: Some(place), id, name: &self.name, early_arguments: &early, is_custom };
        introduction.push(part, out);
    }

    /// Keeps the arguments until the name is known: the first delta of a call must have it. Returns their bytes.
    fn hold_arguments(&mut self, part: &CallPart<'_>) -> usize {
        let before = self.early.len();
        part.push_arguments(&mut self.early);
        self.early.len() - before
    }

    /// Appends a later delta. A name that is merely repeated is not.
    fn push_continuation(&self, place: usize, part: &CallPart<'_>, out: &mut BytesMut) {
        let more_of_name = part.name.filter(|name| name.inner() != self.name);
        if more_of_name.is_none() && !part.has_content_beyond_head() {
            return;
        }
        push_comma(out);
        out.put_slice(b"{\"index\":");
        push_u64(out, place as u64);
        let (kind, arguments) = member_names(self.is_custom);
        out.put_slice(b",\"");
        out.put_slice(kind);
        out.put_slice(b"\":{");
        if let Some(name) = more_of_name {
            out.put_slice(b"\"name\":");
            out.put_slice(name.bytes());
            out.put_u8(b',');
        }
        out.put_u8(b'"');
        out.put_slice(arguments);
        out.put_slice(b"\":\"");
        part.push_arguments(out);
        out.put_u8(b'"');
        part.push_function_others(out);
        out.put_u8(b'}');
        part.push_others(out);
        out.put_u8(b'}');
    }
}

/// A comma between elements, none behind the bracket.
fn push_comma(out: &mut BytesMut) {
    if out.last() != Some(&b'[') {
        out.put_u8(b',');
    }
}
