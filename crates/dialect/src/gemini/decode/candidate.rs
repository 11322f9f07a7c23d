//! One candidate of an answer: its parts, in order.

use pointsman_domain::ReasoningFormat;

use super::{
    citations::{Citations, CitedSources},
    positions::Positions,
};
use crate::{
    answer::{AnswerFault, AnswerResult},
    gemini::signature_memory::RememberedSignatures,
    json::Raw,
    neutral::{
        AnswerEvent, AnswerSink, CLIENT_IDS, EscapedText, MAX_SIGNATURE, ReasoningKind, ReasoningState, ToolKind,
        ToolNames, custom_input, fitting_call_id, made_call_id,
    },
};

/// Most tool calls of a candidate.
const MAX_CALLS: usize = 128;

/// What the parts of an answer are read with.
#[derive(Clone, Copy)]
pub(super) struct PartContext<'c> {
    pub(super) names: &'c ToolNames,
    /// Id of the answer.
    pub(super) answer: Option<&'c EscapedText<'static>>,
    pub(super) memory: Option<&'c RememberedSignatures>,
}

/// A candidate so far.
#[derive(Debug, Default)]
pub(super) struct Candidate {
    pub(super) choice: u32,
    /// Ids of its calls, as the client knows them.
    calls: Vec<EscapedText<'static>>,
    /// Blocks of reasoning that have ended.
    reasoning_blocks: u32,
    is_in_reasoning: bool,
    /// Whether there was a text, a call or a medium.
    pub(super) has_content: bool,
    /// Whether there was anything at all, also what is not shown.
    pub(super) has_parts: bool,
    is_finished: bool,
    positions: Positions,
    citations: Citations,
}

impl Candidate {
    /// The candidate for a choice.
    pub(super) fn new(choice: u32) -> Candidate {
        Candidate { choice, ..Candidate::default() }
    }

    /// An only candidate that has ended.
    pub(super) fn finished() -> Candidate {
        Candidate { is_finished: true, ..Candidate::default() }
    }

    /// Whether a finish reason came.
    pub(super) fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Whether it calls tools.
    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Notes that a finish reason came.
    pub(super) fn finish(&mut self) {
        self.is_finished = true;
        self.end_reasoning();
    }

    /// Reads a part.
    ///
    /// # Errors
    /// When the part is invalid or a limit is exceeded, and those of the sink.
    pub(super) fn part(&mut self, part: Raw<'_>, context: PartContext<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        let [signature, thought, call, text, data] =
            part.pick([b"thoughtSignature", b"thought", b"functionCall", b"text", b"inlineData"]);
        let signature = signature.and_then(EscapedText::filled);
        if signature.as_ref().is_some_and(|signature| signature.bytes().len() > MAX_SIGNATURE) {
            return Err(AnswerFault::malformed("the signature of a thought is too long"));
        }
        let is_reasoning = thought.is_some_and(|thought| thought.bytes() == b"true");
        if let Some(call) = call.filter(|call| call.is_object()) {
            return self.call(call, signature, context, sink);
        }
        if let Some(text) = text.filter(|text| text.is_string()) {
            if let Some(text) = EscapedText::filled(text) {
                self.text(text, is_reasoning, sink)?;
            }
        } else {
            self.has_parts = true;
            // A draft within reasoning is not the image.
            if let Some(data) = data.filter(|data| data.is_object() && !is_reasoning) {
                self.end_reasoning();
                self.medium(data, sink)?;
            }
        }
        match signature {
            Some(signature) => self.sign(signature, None, sink),
            None => Ok(()),
        }
    }

    /// Hands on what the candidate cites.
    ///
    /// # Errors
    /// When it cites too much, and those of the sink.
    pub(super) fn citations(&mut self, sources: CitedSources<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        self.citations.read(sources, &self.positions, self.choice, sink)
    }

    fn text(&mut self, text: EscapedText<'_>, is_reasoning: bool, sink: &mut impl AnswerSink) -> AnswerResult {
        self.has_parts = true;
        if is_reasoning {
            self.is_in_reasoning = true;
            return sink.event(self.reasoning(ReasoningState::shown(
                ReasoningFormat::Gemini,
                ReasoningKind::Text,
                text,
            )));
        }
        self.end_reasoning();
        self.has_content = true;
        self.positions.push(&text);
        sink.event(AnswerEvent::Text { choice: self.choice, text })
    }

    /// Ends the block of reasoning that is open, if one is.
    fn end_reasoning(&mut self) {
        if std::mem::take(&mut self.is_in_reasoning) {
            self.reasoning_blocks = self.reasoning_blocks.saturating_add(1);
        }
    }

    /// Hands on a signature as a block of its own. `id`: the call that it belongs to.
    fn sign(
        &mut self,
        signature: EscapedText<'_>,
        id: Option<EscapedText<'_>>,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult {
        self.end_reasoning();
        let state = ReasoningState::sealed(ReasoningFormat::Gemini, ReasoningKind::Encrypted, signature);
        let event = self.reasoning(ReasoningState { id, ..state });
        self.reasoning_blocks = self.reasoning_blocks.saturating_add(1);
        sink.event(event)
    }

    fn reasoning<'a>(&self, state: ReasoningState<'a>) -> AnswerEvent<'a> {
        AnswerEvent::Reasoning { choice: self.choice, index: self.reasoning_blocks, state }
    }

    /// Hands on an image. Chat has no form for other media here.
    fn medium(&mut self, data: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        let text = |name: &[u8]| data.member(name).and_then(EscapedText::read);
        self.has_content = true;
        match (text(b"mimeType"), text(b"data")) {
            (Some(media_type), Some(data)) if media_type.unescaped().starts_with("image/") => {
                sink.event(AnswerEvent::Image { choice: self.choice, media_type, data })
            }
            _ => Ok(()),
        }
    }

    fn call(
        &mut self,
        call: Raw<'_>,
        signature: Option<EscapedText<'_>>,
        PartContext { names, answer, memory }: PartContext<'_>,
        sink: &mut impl AnswerSink,
    ) -> Result<(), AnswerFault> {
        let [name, args, id] = call.pick([b"name", b"args", b"id"]);
        let Some(name) = name.and_then(EscapedText::filled) else {
            return Err(AnswerFault::malformed("a tool call without a name"));
        };
        if self.calls.len() >= MAX_CALLS {
            return Err(AnswerFault::malformed("too many tool calls"));
        }
        self.end_reasoning();
        (self.has_parts, self.has_content) = (true, true);
        let args = args.filter(|args| args.is_object()).map_or("{}", Raw::written);
        let id = self.id_of_call(id, [name.bytes(), args.as_bytes()], answer);
        if let Some(signature) = signature {
            if let Some(memory) = memory {
                memory.keep(&id, &signature);
            }
            self.sign(signature, Some(id.borrowed()), sink)?;
        }
        let (choice, number) = (self.choice, u32::try_from(self.calls.len()).unwrap_or(u32::MAX));
        let name = names.original(&name);
        let (kind, text) = if names.is_custom(&name) {
            (ToolKind::Custom, if args == "{}" { EscapedText::plain("") } else { custom_input(args) })
        } else {
            (ToolKind::Function, EscapedText::escaping(args))
        };
        sink.event(AnswerEvent::ToolCallStarted { choice, call: number, id: id.borrowed(), name, kind })?;
        self.calls.push(id);
        if text.is_empty() {
            return Ok(());
        }
        sink.event(AnswerEvent::ToolCallArguments { choice, call: number, text })
    }

    /// The id of a call: the upstream's, unless it has none or repeats one. A made one depends on nothing but the answer, so
    /// that it is the same however the answer comes.
    fn id_of_call(
        &self,
        own: Option<Raw<'_>>,
        called: [&[u8]; 2],
        answer: Option<&EscapedText<'_>>,
    ) -> EscapedText<'static> {
        let own = own.and_then(EscapedText::filled);
        if let Some(id) = own.map(|id| fitting_call_id(&id, CLIENT_IDS))
            && !self.calls.contains(&id)
        {
            return id.into_owned();
        }
        let place = [u64::from(self.choice).to_be_bytes(), (self.calls.len() as u64).to_be_bytes()].concat();
        let [name, args] = called;
        made_call_id(&[answer.map_or(b"", EscapedText::bytes), &place, name, args])
    }
}
