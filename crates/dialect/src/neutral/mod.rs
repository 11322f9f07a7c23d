//! The neutral form of a chat: what every dialect is translated from and to.
//!
//! A request is read once into a [`Conversation`], which borrows the body, and is written by the dialect of the endpoint. An
//! answer is a sequence of [`AnswerEvent`]s: the decoder of the upstream's dialect produces them, whole answers and streams
//! alike, and a writer consumes them. Texts stay escaped as they came ([`EscapedText`]), and numbers, schemas and arguments
//! are never reprinted.

mod annotation;
mod arguments;
pub(crate) mod base64;
mod block_messages;
mod cache_mark;
mod conversation;
mod custom_tools;
mod event;
mod history;
mod instruction_media;
mod media_source;
pub(crate) mod media_type;
pub(crate) mod path;
mod reasoning_reader;
mod request_body;
mod schema_refs;
mod sealed_reasoning;
mod state_envelope;
mod surrogates;
pub(crate) mod syntax;
mod text;
mod tool_arguments;
mod tool_call_ids;
mod tool_call_reader;
mod tool_history;
mod tool_names;
mod unsupported_fields;

pub(crate) use annotation::url_citation;
pub(crate) use arguments::{push_arguments_object, push_call_input};
pub(crate) use block_messages::{BlockMessages, Blocks};
pub(crate) use cache_mark::name_of_cache_mark;
pub(crate) use conversation::{
    AnswerFormat, ClientChat, Content, Conversation, Effort, MediaSource, Parameter, Part, Reasoning, ReasoningKind,
    ReasoningState, Role, Tool, ToolChoice, ToolKind, Turn,
};
pub(crate) use custom_tools::custom_input;
pub(crate) use event::{AnswerEvent, AnswerForm, AnswerProgress, AnswerSink, ChatFact, ReportedTokens, ToolCallPiece};
pub(crate) use history::{AlternatingTurn, Speaker, alternating_turns, turns_with_instructions};
pub(crate) use path::{Path, shown};
pub(crate) use reasoning_reader::ReasoningReader;
pub(crate) use request_body::{
    MemberType, body_members, check_type, given, mistyped, none_of, of_type, optional_member, refused, taken,
};
pub use request_body::{refuse_repeated, with_whole_characters};
pub(crate) use schema_refs::with_lone_references;
pub(crate) use sealed_reasoning::{ReasoningAssembler, SealedReasoning};
pub use state_envelope::StateKey;
pub(crate) use state_envelope::{Envelope, MAX_STATE};
pub(crate) use surrogates::{SplitPairs, lone_halves_replaced, with_whole_pairs};
pub(crate) use text::{EscapedText, is_high_surrogate};
pub(crate) use tool_arguments::{ObjectScan, ToolArguments, settled_arguments};
pub(crate) use tool_call_ids::ToolCallIds;
pub(crate) use tool_call_reader::ToolCallReader;
pub(crate) use tool_history::results_behind_calls;
pub(crate) use tool_names::{
    CHAT_NAMES, CLIENT_IDS, NameRules, ToolNames, call_id_of_place, fitting_call_id, has_tool_history, is_made_call_id,
    made_call_id,
};
pub use unsupported_fields::UnsupportedFields;
pub(crate) use unsupported_fields::renamed_within;

/// Longest signature of reasoning, or encrypted reasoning, bytes. Signatures of some models hold all of the reasoning.
pub(crate) const MAX_SIGNATURE: usize = 4 * 1_024 * 1_024;

/// Headers of one upstream request: names in lower case, and values.
pub type UpstreamHeaders = Vec<(std::borrow::Cow<'static, str>, String)>;

/// A request body in the dialect of an endpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct TranslatedRequest {
    /// What to send.
    pub(crate) body: bytes::Bytes,
    /// Names that answers must be turned back to.
    pub(crate) names: ToolNames,
    /// Headers that it needs.
    pub(crate) headers: UpstreamHeaders,
}
