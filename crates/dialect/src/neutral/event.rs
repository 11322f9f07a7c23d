//! Events of an answer, whichever dialect it came in.

use pointsman_domain::{FinishReason, ServedService, ServiceName, Usage};

use super::{
    conversation::{ReasoningState, ToolKind},
    text::EscapedText,
};
use crate::{answer::AnswerResult, json::Raw};

/// One event of an answer. `choice` is the index of the choice, 0 unless several answers were requested.
#[derive(Debug, Clone)]
pub(crate) enum AnswerEvent<'a> {
    /// The upstream named its answer.
    Started { id: EscapedText<'a> },
    /// Text for the client.
    Text { choice: u32, text: EscapedText<'a> },
    /// Text of a refusal.
    Refusal { choice: u32, text: EscapedText<'a> },
    /// A piece of reasoning. `index` counts the blocks of reasoning within the choice. A piece of the kinds
    /// [`ReasoningKind::Text`](super::ReasoningKind::Text) and [`ReasoningKind::Summary`](super::ReasoningKind::Summary) has a
    /// text, or only the signature of the text before it in the same block. An encrypted one has its data.
    Reasoning { choice: u32, index: u32, state: ReasoningState<'a> },
    /// The model calls a tool; `call` counts the calls of the choice from 0.
    ToolCallStarted { choice: u32, call: u32, id: EscapedText<'a>, name: EscapedText<'a>, kind: ToolKind },
    /// A piece of the text of a call's arguments.
    ToolCallArguments { choice: u32, call: u32, text: EscapedText<'a> },
    /// A generated image in base64.
    Image { choice: u32, media_type: EscapedText<'a>, data: EscapedText<'a> },
    /// A citation as an element of `annotations`, JSON.
    Annotation { choice: u32, json: std::borrow::Cow<'a, [u8]> },
    /// A citation of a document of the prompt, JSON as its provider wrote it: chat has no form for it.
    DocumentCitation { choice: u32, json: std::borrow::Cow<'a, [u8]> },
    /// Log probabilities as the `logprobs` object of chat.
    Logprobs { choice: u32, value: Raw<'a> },
    /// This text of those that end an answer ended the choice, by the upstream's word.
    StoppedAt { choice: u32, text: EscapedText<'a> },
    /// The choice is complete. `native` is the upstream's own word.
    Finished { choice: u32, finish: FinishReason, native: EscapedText<'a> },
    /// Tokens so far; a later event replaces an earlier one.
    Usage(ReportedTokens),
    /// The choice has begun, and there may be nothing to show of it.
    Begun { choice: u32 },
    /// The signature of the call with this id, in the place of reasoning that the client does not want.
    ToolCallSignature { id: EscapedText<'a>, signature: EscapedText<'a> },
    /// What only servers of chat say. For the meter of the answer; no encoder knows it.
    Chat(ChatFact<'a>),
}

/// A fact in the answer of a server of chat.
#[derive(Debug, Clone)]
pub(crate) enum ChatFact<'a> {
    /// The `usage` object.
    Usage(Raw<'a>),
    /// The service tier, where it stands beside the usage.
    Tier(ServiceName),
    /// Reasoning stands in the member `reasoning_content`.
    ReasoningContent,
    /// The reasoning as a mere text is so many bytes longer than the reasoning that is handed on in its place.
    LongerThought { bytes: usize },
    /// An image that is elsewhere.
    LinkedImage { choice: u32 },
    /// A piece of a call.
    ToolCallPiece { choice: u32, piece: ToolCallPiece<'a> },
}

/// A piece of a call, of which anything may be missing: it came before, comes later, or is made up.
#[derive(Debug, Clone)]
pub(crate) struct ToolCallPiece<'a> {
    /// The call's place among the calls, as the upstream counts them.
    pub(crate) index: Option<u64>,
    /// Its id, not empty.
    pub(crate) id: Option<EscapedText<'a>>,
    /// Its name or a piece of it, not empty.
    pub(crate) name: Option<EscapedText<'a>>,
    pub(crate) kind: ToolKind,
    /// A piece of the text of its arguments.
    pub(crate) arguments: EscapedText<'a>,
}

/// Tokens as the upstream counted them, in the arithmetic of chat: the prompt includes what was read from and written to
/// caches, the completion includes reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReportedTokens {
    /// All prompt tokens.
    pub(crate) prompt: u64,
    /// Of these, read from a cache.
    pub(crate) cached: Option<u64>,
    /// Of these, written to a cache.
    pub(crate) cache_write: Option<u64>,
    /// Of `cache_write`, for five minutes.
    pub(crate) cache_write_5m: Option<u64>,
    /// Of `cache_write`, for one hour.
    pub(crate) cache_write_1h: Option<u64>,
    /// Of the prompt, audio.
    pub(crate) audio_prompt: Option<u64>,
    /// All completion tokens.
    pub(crate) completion: u64,
    /// Of these, reasoning.
    pub(crate) reasoning: Option<u64>,
    /// Of the completion, audio.
    pub(crate) audio_completion: Option<u64>,
    /// Web searches that are billed.
    pub(crate) web_searches: Option<u64>,
    /// The service that they were made with, as far as the upstream tells it.
    pub(crate) service: ServedService,
}

impl From<&Usage> for ReportedTokens {
    fn from(usage: &Usage) -> ReportedTokens {
        let hour = usage.cache_write_1h_tokens;
        ReportedTokens {
            prompt: usage.prompt_tokens,
            cached: Some(usage.cached_tokens),
            cache_write: Some(usage.cache_write_tokens),
            cache_write_5m: Some(usage.cache_write_tokens.saturating_sub(hour)),
            cache_write_1h: Some(hour),
            audio_prompt: Some(usage.audio_tokens),
            completion: usage.completion_tokens,
            reasoning: Some(usage.reasoning_tokens),
            audio_completion: Some(usage.audio_output_tokens),
            web_searches: Some(usage.web_searches),
            service: usage.service,
        }
    }
}

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    /// Server-sent events.
    Streamed,
    /// One message object.
    Whole,
}

/// How far an answer is that is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerProgress {
    /// It has not begun.
    Idle,
    /// It has begun.
    Started,
    /// It has ended.
    Done,
}

/// Consumes the events of an answer.
pub(crate) trait AnswerSink {
    /// Takes the next event.
    ///
    /// # Errors
    /// When the event cannot follow the earlier ones, or a bound is exceeded.
    fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult;
}

/// No sink takes the events of an answer that is only counted.
impl<S: AnswerSink> AnswerSink for Option<&mut S> {
    fn event(&mut self, event: AnswerEvent<'_>) -> AnswerResult {
        self.as_mut().map_or(Ok(()), |sink| sink.event(event))
    }
}
