//! Decoders of upstream answers, one per API.

use pointsman_domain::Dialect;

use super::{
    AnswerContext, AnswerFault, anthropic, converse,
    frame::StreamEvent,
    gemini,
    neutral::{AnswerSink, ToolNames},
    openai::{self, EventMeter, ToolCallOrder, text_completion},
    outgoing::Translation,
    responses,
};

impl EventMeter {
    /// The meter of an answer of chat, or of one of another dialect if there is a `translation`. `names`: of tools that a chat
    /// server was sent.
    pub(super) fn of(translation: Option<&Translation>, names: ToolNames, context: AnswerContext) -> EventMeter {
        let order = translation.map_or(ToolCallOrder::WholeNames, |translation| ToolCallOrder::of(translation.dialect));
        EventMeter::new(context, order, names)
    }
}

impl Translation {
    fn decoder(&self) -> UpstreamDecoder {
        let names = self.names.clone();
        match self.dialect {
            // Answers of chats need no translation of their own.
            Dialect::OpenAi => UpstreamDecoder::Completion(text_completion::Decoder::default()),
            Dialect::Anthropic => UpstreamDecoder::Anthropic(Box::new(anthropic::Decoder::new(names))),
            Dialect::Gemini => UpstreamDecoder::Gemini(gemini::Decoder::new(names, self.signatures.clone())),
            Dialect::Responses => UpstreamDecoder::Responses(responses::Decoder::new(names)),
            Dialect::Converse => UpstreamDecoder::Converse(converse::Decoder::new(names, &self.model)),
        }
    }
}

/// Reads one answer of an upstream.
#[derive(Debug)]
pub(super) enum UpstreamDecoder {
    /// Boxed, because it is much larger than the others.
    Anthropic(Box<anthropic::Decoder>),
    Gemini(gemini::Decoder),
    Responses(responses::Decoder),
    Converse(converse::Decoder),
    Completion(text_completion::Decoder),
    Chat(openai::Decoder),
}

impl UpstreamDecoder {
    /// The decoder of answers of chat, or of another dialect if there is a `translation`.
    pub(super) fn of(translation: Option<&Translation>) -> UpstreamDecoder {
        translation.map_or_else(|| UpstreamDecoder::Chat(openai::Decoder::default()), Translation::decoder)
    }

    /// Whether the end of a whole answer is the finish of a choice without one.
    pub(super) const fn forgets_finishes(&self) -> bool {
        matches!(self, UpstreamDecoder::Chat(_))
    }

    /// Reads one event of a stream.
    pub(super) fn event(&mut self, event: &StreamEvent<'_>, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        match self {
            UpstreamDecoder::Anthropic(decoder) => decoder.event(event, sink),
            UpstreamDecoder::Gemini(decoder) => decoder.event(event, sink),
            UpstreamDecoder::Responses(decoder) => decoder.event(event, sink),
            UpstreamDecoder::Converse(decoder) => decoder.event(event, sink),
            UpstreamDecoder::Completion(decoder) => decoder.event(event, sink),
            UpstreamDecoder::Chat(decoder) => decoder.event(event, sink),
        }
    }

    /// The end of the stream.
    pub(super) fn end(&mut self, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        match self {
            UpstreamDecoder::Anthropic(decoder) => decoder.end(sink),
            UpstreamDecoder::Gemini(decoder) => decoder.end(sink),
            UpstreamDecoder::Responses(decoder) => decoder.end(sink),
            UpstreamDecoder::Converse(decoder) => decoder.end(sink),
            // Whether every choice has ended is asked of the meter.
            UpstreamDecoder::Completion(_) => Ok(()),
            UpstreamDecoder::Chat(decoder) => decoder.break_off(sink),
        }
    }

    /// Hands on what is held of texts whose stream breaks off.
    ///
    /// # Errors
    /// Fails if the sink does.
    pub(super) fn break_off(&mut self, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        match self {
            UpstreamDecoder::Anthropic(decoder) => decoder.break_off(sink),
            UpstreamDecoder::Gemini(decoder) => decoder.break_off(sink),
            UpstreamDecoder::Responses(decoder) => decoder.break_off(sink),
            UpstreamDecoder::Converse(decoder) => decoder.break_off(sink),
            UpstreamDecoder::Completion(_) => Ok(()),
            UpstreamDecoder::Chat(decoder) => decoder.break_off(sink),
        }
    }

    /// Whether the stream has ended by its own word.
    pub(super) const fn is_done(&self) -> bool {
        match self {
            UpstreamDecoder::Anthropic(decoder) => decoder.is_done(),
            UpstreamDecoder::Gemini(decoder) => decoder.is_done(),
            UpstreamDecoder::Responses(decoder) => decoder.is_done(),
            UpstreamDecoder::Converse(decoder) => decoder.is_done(),
            UpstreamDecoder::Completion(decoder) => decoder.is_done(),
            UpstreamDecoder::Chat(decoder) => decoder.is_done(),
        }
    }

    /// Whether a block or an item of the answer is open: an event then shows that the provider works, also one that no client
    /// is shown, such as the `ping` of an Anthropic server that waits for the rest of an argument.
    pub(super) fn has_open_block(&self) -> bool {
        match self {
            UpstreamDecoder::Anthropic(decoder) => decoder.has_open_block(),
            UpstreamDecoder::Responses(decoder) => decoder.has_open_item(),
            UpstreamDecoder::Gemini(_)
            | UpstreamDecoder::Converse(_)
            | UpstreamDecoder::Completion(_)
            | UpstreamDecoder::Chat(_) => false,
        }
    }

    /// Whether the provider is at work of which it sends nothing until it is done, such as reasoning without a summary.
    pub(super) fn works_silently(&self) -> bool {
        matches!(self, UpstreamDecoder::Responses(decoder) if decoder.works_silently())
    }

    /// Reads an unstreamed answer.
    pub(super) fn whole(self, body: &str, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        match self {
            UpstreamDecoder::Anthropic(decoder) => decoder.whole(body, sink),
            UpstreamDecoder::Gemini(decoder) => decoder.whole(body, sink),
            UpstreamDecoder::Responses(decoder) => decoder.whole(body, sink),
            UpstreamDecoder::Converse(decoder) => decoder.whole(body, sink),
            UpstreamDecoder::Completion(decoder) => decoder.whole(body, sink),
            UpstreamDecoder::Chat(decoder) => decoder.whole(body, sink),
        }
    }
}
