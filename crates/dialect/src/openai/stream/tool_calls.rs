//! Tracks the tool calls of one choice and repairs missing or repeated ids and indices, and arguments that are no object.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::Dialect;

use crate::{
    answer::{AnswerContext, AnswerFault},
    json::{Raw, push_u64},
    neutral::ToolArguments,
    openai::{
        answer::generated_call_id,
        tool_call::{FunctionCall, ToolCallHead, ToolCallPart, is_portable_id, member_names},
    },
    outgoing::Translation,
};

/// Most tool calls of one choice: a bound on memory.
const MAX_CALLS: usize = 1_024;
/// Bytes of ids, names and early arguments that are remembered for one choice; likewise.
const MAX_KEPT_BYTES: usize = 256 * 1024;
/// Held arguments of one call that are worth being counted.
const MUCH_HELD: usize = 4 * 1024;
/// Bytes that may be remembered while calls wait for the rest of a name.
const MAX_WAITING_BYTES: usize = 64 * 1024;
/// The place that a legacy `function_call` takes among the upstream's indices.
const LEGACY: u64 = u64::MAX;

/// The calls of one choice so far: which delta belongs to which call, and what was already sent.
#[derive(Debug, Default)]
pub(super) struct ToolCallTracker {
    list: Vec<TrackedToolCall>,
    kept_bytes: usize,
}

#[derive(Debug)]
struct TrackedToolCall {
    upstream_index: Option<u64>,
    /// The inside of the JSON string of the upstream's id, by which it tells calls apart; empty without one.
    id: Vec<u8>,
    /// The id for the client, if the upstream's is none for it.
    generated_id: Option<String>,
    /// The inside of the name's JSON string; empty until it came.
    name: Vec<u8>,
    /// The inside of the arguments' JSON string, as far as it came before the call was introduced.
    early: BytesMut,
    arguments: ToolArguments,
    is_introduced: bool,
    is_custom: bool,
}

/// Generation and choice of the calls, for generated ids, and the order in which they come.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToolCallContext<'a> {
    pub(super) context: &'a AnswerContext,
    pub(super) choice: u64,
    pub(super) order: ToolCallOrder,
}

/// What is known of the order in which the pieces of calls come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolCallOrder {
    /// Pieces of any call may come at any time. Clients of chat join the pieces of a name themselves.
    Any,
    /// The same, for a client that must know the whole name when a call begins: a call waits for its first arguments, and for
    /// the calls before it.
    WholeNames,
    /// A call ends where the next begins, and its name comes whole.
    OneByOne,
}

impl ToolCallOrder {
    /// The order in which an upstream of another dialect sends its calls.
    pub(super) fn of(translation: &Translation) -> ToolCallOrder {
        match translation.dialect {
            // Its items may overlap.
            Dialect::Responses => ToolCallOrder::Any,
            _ => ToolCallOrder::OneByOne,
        }
    }
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
        call_context: ToolCallContext<'_>,
        out: &mut BytesMut,
    ) -> Result<u64, AnswerFault> {
        let mut text_bytes = 0;
        for element in calls.elements() {
            let part = ToolCallPart::read(element).ok_or_else(|| AnswerFault::malformed("a call that is no object"))?;
            text_bytes += part.text_bytes();
            self.push_part(&part, call_context, out)?;
        }
        Ok(text_bytes)
    }

    /// Adds what a delta's `tool_calls` say of the first call to `first`: the deprecated form has no more. Returns the bytes the
    /// model produced.
    pub(super) fn push_first(
        &mut self,
        calls: Raw<'_>,
        call_context: ToolCallContext<'_>,
        first: &mut FunctionCall,
    ) -> Result<u64, AnswerFault> {
        let mut text_bytes = 0;
        for element in calls.elements() {
            let part = ToolCallPart::read(element).ok_or_else(|| AnswerFault::malformed("a call that is no object"))?;
            text_bytes += part.text_bytes();
            self.push_first_part(&part, call_context, first)?;
        }
        Ok(text_bytes)
    }

    /// Adds what a delta's `function_call` says to `first`. Returns the bytes the model produced.
    pub(super) fn push_first_legacy(
        &mut self,
        function: Raw<'_>,
        call_context: ToolCallContext<'_>,
        first: &mut FunctionCall,
    ) -> Result<u64, AnswerFault> {
        let part = ToolCallPart::read_legacy(function, LEGACY);
        self.push_first_part(&part, call_context, first)?;
        Ok(part.text_bytes())
    }

    fn push_first_part(
        &mut self,
        part: &ToolCallPart<'_>,
        call_context: ToolCallContext<'_>,
        first: &mut FunctionCall,
    ) -> Result<(), AnswerFault> {
        let place = match self.place_of(part) {
            Some(place) => place,
            None => self.add(part, call_context)?,
        };
        let Some(call) = self.list.get_mut(place) else { return Ok(()) };
        if let Some(name) = part.name.filter(|name| name.inner() != call.name) {
            self.kept_bytes += name.inner().len();
            call.name.extend_from_slice(name.inner());
            if place == 0 {
                first.name = Some(name.inner().to_vec());
                call.arguments.piece(&std::mem::take(&mut call.early), &mut first.arguments);
            }
        }
        call.is_introduced = !call.name.is_empty();
        if place == 0 && call.is_introduced {
            call.arguments.piece(&part.arguments_text(), &mut first.arguments);
        } else if place == 0 {
            self.kept_bytes += call.hold_arguments(part);
        }
        self.check_kept()
    }

    /// Adds what is still to be said of the first call at its end. `whole`: the answer was not cut off.
    pub(super) fn end_first(&mut self, whole: bool, first: &mut FunctionCall) {
        if let Some(call) = self.list.first_mut() {
            call.arguments.end(whole, &mut first.arguments);
        }
    }

    /// Appends elements with what is still to be said of the calls at their end. `whole`: the answer was not cut off.
    pub(super) fn end(&mut self, whole: bool, out: &mut BytesMut) {
        for (place, call) in self.list.iter_mut().enumerate() {
            call.end(place, whole, out);
        }
    }

    /// Appends a delta's `function_call` as the tool call it stands for. Returns the bytes the model produced.
    pub(super) fn push_legacy(
        &mut self,
        function: Raw<'_>,
        call_context: ToolCallContext<'_>,
        out: &mut BytesMut,
    ) -> Result<u64, AnswerFault> {
        let part = ToolCallPart::read_legacy(function, LEGACY);
        self.push_part(&part, call_context, out)?;
        Ok(part.text_bytes())
    }

    /// Appends what there is to say of a piece of the arguments of the call with this index of the upstream: the inside of a JSON
    /// string. Returns the place of the call; `None` if the call is not introduced yet.
    pub(super) fn push_arguments(
        &mut self,
        index: u64,
        piece: &[u8],
        out: &mut BytesMut,
    ) -> Result<Option<usize>, AnswerFault> {
        let place = self.list.iter().rposition(|call| call.upstream_index == Some(index));
        let known = place.and_then(|place| Some((place, self.list.get_mut(place)?)));
        let Some((place, call)) = known.filter(|(_, call)| call.is_introduced) else { return Ok(None) };
        call.arguments.piece(piece, out);
        self.check_kept().map(|()| Some(place))
    }

    fn push_part(
        &mut self,
        part: &ToolCallPart<'_>,
        call_context: ToolCallContext<'_>,
        out: &mut BytesMut,
    ) -> Result<(), AnswerFault> {
        let place = match self.place_of(part) {
            Some(place) => place,
            None => {
                self.before_next(call_context.order, out);
                self.add(part, call_context)?
            }
        };
        let is_first = call_context.order != ToolCallOrder::WholeNames
            || self.list.iter().take(place).all(|earlier| earlier.is_introduced);
        let Some(call) = self.list.get_mut(place) else { return Ok(()) };
        if call.is_introduced {
            call.push_continuation(place, part, out);
            return self.check_kept();
        }
        if let Some(name) = part.name.filter(|name| name.inner() != call.name) {
            self.kept_bytes += name.inner().len();
            call.name.extend_from_slice(name.inner());
        }
        let may_go_on = call_context.order == ToolCallOrder::WholeNames && part.arguments_text().is_empty();
        if call.name.is_empty() || may_go_on || !is_first {
            self.kept_bytes += call.hold_arguments(part);
        } else {
            call.introduce(place, part, out);
        }
        if call_context.order == ToolCallOrder::WholeNames {
            self.introduce_waiting(out);
        }
        self.check_kept()
    }

    /// Appends what must be said of the calls so far before the next begins. Clients of other dialects take no more arguments
    /// of a call whose object is complete once another has begun.
    fn before_next(&mut self, order: ToolCallOrder, out: &mut BytesMut) {
        for (place, call) in self.list.iter_mut().enumerate() {
            if order == ToolCallOrder::OneByOne || call.arguments.has_begun_another() {
                call.end(place, true, out);
            }
        }
    }

    /// Introduces the calls whose names are whole, in their order, up to the first whose name may still grow. None waits any
    /// longer when too much is remembered.
    fn introduce_waiting(&mut self, out: &mut BytesMut) {
        let is_much = self.kept_bytes > MAX_WAITING_BYTES;
        for (place, call) in self.list.iter_mut().enumerate().filter(|(_, call)| !call.is_introduced) {
            if (call.name.is_empty() || call.early.is_empty()) && !is_much {
                return;
            }
            let early = call.early.len();
            call.introduce_named(place, out);
            self.kept_bytes -= early - call.early.len();
        }
    }

    fn check_kept(&self) -> Result<(), AnswerFault> {
        let held = self.list.iter().map(|call| call.arguments.held_bytes()).filter(|held| *held > MUCH_HELD);
        if self.kept_bytes + held.sum::<usize>() > MAX_KEPT_BYTES || self.list.len() > MAX_CALLS {
            return Err(AnswerFault::malformed("more or longer calls than make sense"));
        }
        Ok(())
    }

    /// The call that an element goes on with; `None` when it begins one.
    fn place_of(&self, part: &ToolCallPart<'_>) -> Option<usize> {
        let named = |call: &TrackedToolCall| part.id.is_some_and(|id| id.inner() == call.id);
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

    fn add(&mut self, part: &ToolCallPart<'_>, call_context: ToolCallContext<'_>) -> Result<usize, AnswerFault> {
        let place = self.list.len();
        let id = part.id.map(Raw::inner).unwrap_or_default().to_vec();
        let is_kept = is_portable_id(&id);
        let generated_id = (!is_kept).then(|| generated_call_id(call_context.context, call_context.choice, place));
        self.kept_bytes += id.len();
        self.list.push(TrackedToolCall {
            upstream_index: part.index,
            id,
            generated_id,
            name: Vec::new(),
            early: BytesMut::new(),
            arguments: if part.is_custom { ToolArguments::free_text() } else { ToolArguments::object() },
            is_introduced: false,
            is_custom: part.is_custom,
        });
        self.check_kept()?;
        Ok(place)
    }
}

impl TrackedToolCall {
    fn introduce(&mut self, place: usize, part: &ToolCallPart<'_>, out: &mut BytesMut) {
        self.is_introduced = true;
        let mut arguments = BytesMut::new();
        self.arguments.piece(&std::mem::take(&mut self.early), &mut arguments);
        self.arguments.piece(&part.arguments_text(), &mut arguments);
        push_comma(out);
        let id = self.generated_id.as_deref().map_or(&*self.id, str::as_bytes);
        let (arguments, is_custom) = (&*arguments, self.is_custom);
        ToolCallHead { index: Some(place), id, name: &self.name, arguments, is_custom }.push(part, out);
    }

    /// Introduces the call if it has a name and was not introduced.
    fn introduce_named(&mut self, place: usize, out: &mut BytesMut) {
        if !self.is_introduced && !self.name.is_empty() {
            self.introduce(place, &ToolCallPart::default(), out);
        }
    }

    /// Keeps the arguments until the name is known: the first delta of a call must have it. Returns their bytes.
    fn hold_arguments(&mut self, part: &ToolCallPart<'_>) -> usize {
        let text = part.arguments_text();
        self.early.put_slice(&text);
        text.len()
    }

    /// Appends a later delta. A name that is merely repeated is not.
    fn push_continuation(&mut self, place: usize, part: &ToolCallPart<'_>, out: &mut BytesMut) {
        let more_of_name = part.name.filter(|name| name.inner() != self.name);
        let start = out.len();
        self.begin_more(place, more_of_name, out);
        let arguments = out.len();
        self.arguments.piece(&part.arguments_text(), out);
        if out.len() == arguments && more_of_name.is_none() && !part.has_others() {
            return out.truncate(start);
        }
        out.put_u8(b'"');
        part.push_function_others(out);
        out.put_u8(b'}');
        part.push_others(out);
        out.put_u8(b'}');
    }

    /// Appends what is still to be said at the end. `whole`: the call was not cut off.
    fn end(&mut self, place: usize, whole: bool, out: &mut BytesMut) {
        self.introduce_named(place, out);
        let start = out.len();
        self.begin_more(place, None, out);
        let arguments = out.len();
        self.arguments.end(whole && self.is_introduced, out);
        if out.len() == arguments {
            return out.truncate(start);
        }
        out.put_slice(b"\"}}");
    }

    /// Appends the beginning of a later element, up to the inside of its arguments.
    fn begin_more(&self, place: usize, more_of_name: Option<Raw<'_>>, out: &mut BytesMut) {
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
    }
}

/// A comma between elements, none behind the bracket.
fn push_comma(out: &mut BytesMut) {
    if out.last() != Some(&b'[') {
        out.put_u8(b',');
    }
}
