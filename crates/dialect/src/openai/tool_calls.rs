//! Tracks the tool calls of one choice and repairs missing or repeated ids and indices, and arguments that are no object.

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::Dialect;

use crate::{
    answer::{AnswerContext, AnswerFault, AnswerResult},
    neutral::{EscapedText, SplitPairs, ToolArguments, ToolCallPiece, ToolKind},
    openai::{
        answer::generated_call_id,
        tool_call::{MoreOfCall, ToolCallHead, is_portable_id},
    },
};

/// Most tool calls of one choice: a bound on memory.
const MAX_CALLS: usize = 1_024;
/// Bytes of ids, names and early arguments that are remembered for one choice; likewise.
const MAX_KEPT_BYTES: usize = 256 * 1024;
/// Held arguments of one call that are worth being counted.
const MUCH_HELD: usize = 4 * 1024;
/// Bytes that may be remembered while calls wait for the rest of a name.
const MAX_WAITING_BYTES: usize = 64 * 1024;

/// The calls of one choice so far: which piece belongs to which call, and what was already passed on.
#[derive(Debug, Default)]
pub(super) struct ToolCallTracker {
    list: Vec<TrackedToolCall>,
    kept_bytes: usize,
    /// Arguments that are passed on; empty between two pieces.
    settled: BytesMut,
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
    /// Half a character at the end of a piece of the arguments.
    pairs: SplitPairs,
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
pub(crate) enum ToolCallOrder {
    /// Pieces of any call may come at any time. Clients of chat join the pieces of a name themselves.
    Any,
    /// The same, for a client that must know the whole name when a call begins: a call waits for its first arguments, and for
    /// the calls before it.
    WholeNames,
    /// A call ends where the next begins, and its name comes whole.
    OneByOne,
}

impl ToolCallOrder {
    /// The order in which an upstream of another dialect than chat sends its calls.
    pub(crate) fn from_dialect(dialect: Dialect) -> ToolCallOrder {
        match dialect {
            // Its items may overlap.
            Dialect::Responses => ToolCallOrder::Any,
            _ => ToolCallOrder::OneByOne,
        }
    }
}

/// Takes calls in order: each is introduced once, with everything that names it.
pub(super) trait ToolCallSink {
    /// A call begins. `cause`: what begins it.
    fn begin(&mut self, head: &ToolCallHead<'_>, cause: Cause) -> AnswerResult;

    /// A call goes on.
    fn more(&mut self, more: &MoreOfCall<'_>, cause: Cause) -> AnswerResult;
}

/// Why a call is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its piece came.
    Piece,
    /// Something else came, and it waited until then.
    Other,
}

impl ToolCallTracker {
    /// Whether some call still waits for its name.
    pub(super) fn has_nameless(&self) -> bool {
        self.list.iter().any(|call| call.name.is_empty())
    }

    /// Whether there is any call but that with this index of the upstream.
    pub(super) fn has_others_than(&self, index: u64) -> bool {
        self.list.iter().any(|call| call.upstream_index != Some(index))
    }

    /// Says what is still to be said of the calls at their end. `whole`: the answer was not cut off.
    pub(super) fn end(&mut self, whole: bool, sink: &mut impl ToolCallSink) -> AnswerResult {
        let ToolCallTracker { list, settled, .. } = self;
        list.iter_mut().enumerate().try_for_each(|(place, call)| call.end(place, whole, settled, sink))
    }

    /// Says U+FFFD for half a character that the arguments of a call break off with.
    pub(super) fn break_off(&mut self, sink: &mut impl ToolCallSink) -> AnswerResult {
        let ToolCallTracker { list, settled, .. } = self;
        for (place, call) in list.iter_mut().enumerate().filter(|(_, call)| call.is_introduced) {
            let Some(rest) = call.pairs.rest() else { continue };
            settled.clear();
            call.arguments.piece(rest.bytes(), settled);
            sink.more(&MoreOfCall { place, is_custom: call.is_custom, name: None, arguments: settled }, Cause::Other)?;
        }
        Ok(())
    }

    /// Takes a piece of a call.
    pub(super) fn push(
        &mut self,
        piece: &ToolCallPiece<'_>,
        call_context: ToolCallContext<'_>,
        sink: &mut impl ToolCallSink,
    ) -> AnswerResult {
        let place = match self.place_of(piece) {
            Some(place) => place,
            None => {
                self.before_next(call_context.order, sink)?;
                self.add(piece, call_context)?
            }
        };
        let is_first = call_context.order != ToolCallOrder::WholeNames
            || self.list.iter().take(place).all(|earlier| earlier.is_introduced);
        let Some(call) = self.list.get_mut(place) else { return Ok(()) };
        if call.is_introduced {
            call.go_on(place, piece, &mut self.settled, sink)?;
            return self.check_kept();
        }
        if let Some(name) = piece.name.as_ref().filter(|name| name.bytes() != call.name) {
            self.kept_bytes += name.bytes().len();
            call.name.extend_from_slice(name.bytes());
        }
        let may_go_on = call_context.order == ToolCallOrder::WholeNames && piece.arguments.is_empty();
        call.early.put_slice(piece.arguments.bytes());
        if call.name.is_empty() || may_go_on || !is_first {
            self.kept_bytes += piece.arguments.bytes().len();
        } else {
            call.introduce(place, Cause::Piece, sink)?;
        }
        if call_context.order == ToolCallOrder::WholeNames {
            self.introduce_waiting(sink)?;
        }
        self.check_kept()
    }

    /// Says what must be said of the calls so far before the next begins. Clients of other dialects take no more arguments of a
    /// call whose object is complete once another has begun.
    fn before_next(&mut self, order: ToolCallOrder, sink: &mut impl ToolCallSink) -> AnswerResult {
        for (place, call) in self.list.iter_mut().enumerate() {
            if order == ToolCallOrder::OneByOne || call.arguments.has_begun_another() {
                call.end(place, true, &mut self.settled, sink)?;
            }
        }
        Ok(())
    }

    /// Introduces the calls whose names are whole, in their order, up to the first whose name may still grow. None waits any
    /// longer when too much is remembered.
    fn introduce_waiting(&mut self, sink: &mut impl ToolCallSink) -> AnswerResult {
        let is_much = self.kept_bytes > MAX_WAITING_BYTES;
        for (place, call) in self.list.iter_mut().enumerate().filter(|(_, call)| !call.is_introduced) {
            if (call.name.is_empty() || call.early.is_empty()) && !is_much {
                return Ok(());
            }
            let early = call.early.len();
            call.introduce_named(place, sink)?;
            self.kept_bytes -= early - call.early.len();
        }
        Ok(())
    }

    fn check_kept(&self) -> AnswerResult {
        let held = self.list.iter().map(|call| call.arguments.held_bytes()).filter(|held| *held > MUCH_HELD);
        if self.kept_bytes + held.sum::<usize>() > MAX_KEPT_BYTES || self.list.len() > MAX_CALLS {
            return Err(AnswerFault::malformed("more or longer calls than make sense"));
        }
        Ok(())
    }

    /// The call that a piece goes on with; `None` when it begins one.
    fn place_of(&self, piece: &ToolCallPiece<'_>) -> Option<usize> {
        let named = |call: &TrackedToolCall| piece.id.as_ref().is_some_and(|id| id.bytes() == call.id);
        match (piece.index, &piece.id) {
            (Some(index), id) => {
                let place = self.list.iter().rposition(|call| call.upstream_index == Some(index))?;
                // Some upstreams give every call the index 0: another id with a name of its own is another call.
                let another = id.is_some() && piece.name.is_some() && !self.list.get(place).is_some_and(named);
                (!another).then_some(place)
            }
            (None, Some(_)) => self.list.iter().rposition(named),
            (None, None) if piece.name.is_some() => None,
            (None, None) => self.list.len().checked_sub(1),
        }
    }

    fn add(&mut self, piece: &ToolCallPiece<'_>, call_context: ToolCallContext<'_>) -> AnswerResult<usize> {
        let place = self.list.len();
        let id = piece.id.as_ref().map(|id| id.bytes().to_vec()).unwrap_or_default();
        let is_kept = is_portable_id(&id);
        let generated_id = (!is_kept).then(|| generated_call_id(call_context.context, call_context.choice, place));
        self.kept_bytes += id.len();
        let is_custom = piece.kind == ToolKind::Custom;
        self.list.push(TrackedToolCall {
            upstream_index: piece.index,
            id,
            generated_id,
            name: Vec::new(),
            early: BytesMut::new(),
            arguments: if is_custom { ToolArguments::free_text() } else { ToolArguments::object() },
            pairs: SplitPairs::default(),
            is_introduced: false,
            is_custom,
        });
        self.check_kept()?;
        Ok(place)
    }
}

impl TrackedToolCall {
    /// Introduces the call, with the arguments so far.
    fn introduce(&mut self, place: usize, cause: Cause, sink: &mut impl ToolCallSink) -> AnswerResult {
        self.is_introduced = true;
        let early = std::mem::take(&mut self.early);
        let mut arguments = BytesMut::new();
        if let Some(early) = self.pairs.escaped(text(&early)) {
            self.arguments.piece(early.bytes(), &mut arguments);
        }
        let id = self.generated_id.as_deref().map_or(&*self.id, str::as_bytes);
        let (arguments, is_custom) = (&*arguments, self.is_custom);
        sink.begin(&ToolCallHead { index: Some(place), id, name: &self.name, arguments, is_custom }, cause)
    }

    /// Introduces the call if it has a name and was not introduced.
    fn introduce_named(&mut self, place: usize, sink: &mut impl ToolCallSink) -> AnswerResult {
        if self.is_introduced || self.name.is_empty() { Ok(()) } else { self.introduce(place, Cause::Other, sink) }
    }

    /// Takes a later piece. A name that is merely repeated is not passed on.
    fn go_on(
        &mut self,
        place: usize,
        piece: &ToolCallPiece<'_>,
        settled: &mut BytesMut,
        sink: &mut impl ToolCallSink,
    ) -> AnswerResult {
        settled.clear();
        if let Some(piece) = self.pairs.escaped(piece.arguments.borrowed()) {
            self.arguments.piece(piece.bytes(), settled);
        }
        let name = piece.name.as_ref().filter(|name| name.bytes() != self.name).map(|name| name.as_str());
        sink.more(&MoreOfCall { place, is_custom: self.is_custom, name, arguments: settled }, Cause::Piece)
    }

    /// Says what is still to be said at the end. `whole`: the call was not cut off.
    fn end(&mut self, place: usize, whole: bool, settled: &mut BytesMut, sink: &mut impl ToolCallSink) -> AnswerResult {
        self.introduce_named(place, sink)?;
        settled.clear();
        if let Some(rest) = self.pairs.rest() {
            self.arguments.piece(rest.bytes(), settled);
        }
        self.arguments.end(whole && self.is_introduced, settled);
        if settled.is_empty() {
            return Ok(());
        }
        sink.more(&MoreOfCall { place, is_custom: self.is_custom, name: None, arguments: settled }, Cause::Other)
    }
}

fn text(escaped: &[u8]) -> EscapedText<'_> {
    EscapedText::plain(std::str::from_utf8(escaped).unwrap_or_default())
}
