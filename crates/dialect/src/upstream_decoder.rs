//! Decoders of upstream answers, one per API.

use pointsman_domain::Dialect;

use super::{
    AnswerContext,
    answer::AnswerResult,
    anthropic, converse,
    frame::StreamEvent,
    gemini,
    neutral::{AnswerSink, ToolNames},
    openai::{self, EventMeter, ToolCallOrder},
    outgoing::Translation,
    responses,
};

impl EventMeter {
    /// The meter of an answer of chat, or of one of another dialect if there is a `translation`. `names`: of tools that a chat
    /// server was sent.
    pub(super) fn from_translation(
        translation: Option<&Translation>,
        names: ToolNames,
        context: AnswerContext,
    ) -> EventMeter {
        let order = translation
            .map_or(ToolCallOrder::WholeNames, |translation| ToolCallOrder::from_dialect(translation.dialect));
        EventMeter::new(context, order, names)
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
    /// Of chat, and of completions of texts.
    Chat(openai::Decoder),
}

/// The same for every decoder.
macro_rules! each {
    ($decoder:expr, $name:ident => $value:expr) => {
        match $decoder {
            UpstreamDecoder::Anthropic($name) => $value,
            UpstreamDecoder::Gemini($name) => $value,
            UpstreamDecoder::Responses($name) => $value,
            UpstreamDecoder::Converse($name) => $value,
            UpstreamDecoder::Chat($name) => $value,
        }
    };
}

impl UpstreamDecoder {
    /// The decoder of answers of chat, or of another dialect if there is a `translation`.
    pub(super) fn new(translation: Option<&Translation>) -> UpstreamDecoder {
        let Some(translation) = translation else { return UpstreamDecoder::Chat(openai::Decoder::default()) };
        let names = translation.names.clone();
        match translation.dialect {
            Dialect::OpenAi => UpstreamDecoder::Chat(openai::Decoder::default()),
            Dialect::Anthropic => UpstreamDecoder::Anthropic(Box::new(anthropic::Decoder::new(names))),
            Dialect::Gemini => UpstreamDecoder::Gemini(gemini::Decoder::new(names, translation.signatures.clone())),
            Dialect::Responses => UpstreamDecoder::Responses(responses::Decoder::new(names)),
            Dialect::Converse => UpstreamDecoder::Converse(converse::Decoder::new(names, &translation.model)),
        }
    }

    /// Whether the end of a whole answer is the finish of a choice without one.
    pub(super) const fn forgets_finishes(&self) -> bool {
        matches!(self, UpstreamDecoder::Chat(_))
    }

    /// Reads one event of a stream.
    pub(super) fn event(&mut self, event: &StreamEvent<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        each!(self, decoder => decoder.event(event, sink))
    }

    /// The end of the stream.
    pub(super) fn end(&mut self, sink: &mut impl AnswerSink) -> AnswerResult {
        match self {
            UpstreamDecoder::Anthropic(decoder) => decoder.end(sink),
            UpstreamDecoder::Gemini(decoder) => decoder.end(),
            UpstreamDecoder::Responses(decoder) => decoder.end(),
            UpstreamDecoder::Converse(decoder) => decoder.end(sink),
            // Whether every choice has ended is asked of the meter.
            UpstreamDecoder::Chat(_) => Ok(()),
        }
    }

    /// Whether the stream has ended by its own word.
    pub(super) const fn is_done(&self) -> bool {
        each!(self, decoder => decoder.is_done())
    }

    /// Whether a block or an item of the answer is open: an event then shows that the provider works, also one that no client
    /// is shown, such as the `ping` of an Anthropic server that waits for the rest of an argument.
    pub(super) fn has_open_block(&self) -> bool {
        match self {
            UpstreamDecoder::Anthropic(decoder) => decoder.has_open_block(),
            UpstreamDecoder::Responses(decoder) => decoder.has_open_item(),
            UpstreamDecoder::Gemini(_) | UpstreamDecoder::Converse(_) | UpstreamDecoder::Chat(_) => false,
        }
    }

    /// Whether the provider is at work of which it sends nothing until it is done, such as reasoning without a summary.
    pub(super) fn works_silently(&self) -> bool {
        matches!(self, UpstreamDecoder::Responses(decoder) if decoder.works_silently())
    }

    /// Reads an unstreamed answer.
    pub(super) fn whole(self, body: &str, sink: &mut impl AnswerSink) -> AnswerResult {
        each!(self, decoder => decoder.whole(body, sink))
    }
}
