//! What the gateway keeps of a conversation: counts, input modalities and positions, never its text.

use pointsman_domain::{CapabilitySet, Invalid, Modality};

use super::{
    byte_span::{BodyText, Edit},
    conversation_opening::OpeningHasher,
    open_turn::OpenTurn,
    prompt_size::PromptSize,
    task_features::MessageTexts,
};
use crate::neutral::Path;

/// The path of the whole conversation.
pub(super) const MESSAGES: Path<'static> = Path::Field("messages");

/// What stands in a chat that not every endpoint of chat takes as it is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ChatExtras {
    /// Any message returns reasoning.
    pub(crate) reasoning: bool,
    /// Any does in `reasoning_details`.
    pub(crate) reasoning_details: bool,
    /// Data of a medium are not in base64 as providers want it.
    pub(crate) odd_base64: bool,
}

/// What is known of the conversation once it has gone by.
pub(super) struct ConversationSummary<'a> {
    /// The body it stands in.
    pub(super) source: BodyText<'a>,
    /// Most messages it may have.
    pub(super) max_messages: usize,
    /// What was counted.
    pub(super) tally: PromptSize,
    /// Whether the last message so far is an answer of the model that calls nothing.
    pub(super) ends_with_answer: bool,
    /// Whether any media are given by their address, or as a file uploaded before.
    pub(super) has_remote_media: bool,
    /// Whether an image is of another type than PNG, JPEG, GIF and WebP.
    pub(super) has_other_images: bool,
    /// What its media need of an endpoint besides.
    pub(super) media: CapabilitySet,
    /// Whether any tool was called.
    pub(super) has_calls: bool,
    /// What not every endpoint of chat takes.
    pub(super) extras: ChatExtras,
    /// The turn that it leaves open.
    pub(super) open_turn: OpenTurn<'a>,
    /// Texts of the message that is read.
    pub(super) texts: MessageTexts<'a>,
    /// Texts of the last message of the user.
    pub(super) last_user: MessageTexts<'a>,
    /// What names it.
    pub(super) opening: OpeningHasher,
    /// Where each kind of input was first met: message, part.
    pub(super) inputs: Vec<(Modality, usize, usize)>,
    /// Places that an upstream may want written differently, in the order of the text.
    pub(super) edits: Vec<Edit>,
    /// The mistake of sending what only an endpoint that speaks chat may understand to another one, for the first such thing.
    pub(super) not_understood: Option<Invalid>,
}

impl<'a> ConversationSummary<'a> {
    /// An empty conversation.
    pub(super) fn new(source: BodyText<'a>, max_messages: usize) -> ConversationSummary<'a> {
        ConversationSummary {
            source,
            max_messages,
            tally: PromptSize::default(),
            ends_with_answer: false,
            has_remote_media: false,
            has_other_images: false,
            media: CapabilitySet::NONE,
            has_calls: false,
            extras: ChatExtras::default(),
            open_turn: OpenTurn::default(),
            texts: MessageTexts::default(),
            last_user: MessageTexts::default(),
            opening: OpeningHasher::of_body(source.0.len()),
            inputs: Vec::new(),
            edits: Vec::new(),
            not_understood: None,
        }
    }

    /// Notes that a part of the prompt is of a kind.
    pub(super) fn note_input(&mut self, modality: Modality, message: usize, part: usize) {
        if self.inputs.iter().all(|(known, ..)| *known != modality) {
            self.inputs.push((modality, message, part));
        }
    }
}
