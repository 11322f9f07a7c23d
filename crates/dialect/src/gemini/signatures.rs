//! Signatures of reasoning, on the way back to the model that gave them.

use pointsman_domain::ReasoningFormat;

use super::{models::Capabilities, signature_memory::RememberedSignatures};
use crate::neutral::{AlternatingTurn, Content, EscapedText, ReasoningState, UnsupportedFields};

/// What is said about reasoning that does not go back as it came.
const STATE: &str = "messages[].reasoning_details";

/// Which signatures a body has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signatures {
    /// The signatures that the client returned, and stand-ins for steps without any.
    #[default]
    Returned,
    /// Stand-ins only: the model refused one that was returned, since it was made under another key or model.
    StandIns,
}

/// Which signatures a body has, and the memory for those that clients drop.
#[derive(Debug, Clone, Copy, Default)]
pub struct SignatureSources<'m> {
    /// Which ones.
    pub which: Signatures,
    /// Where those of earlier answers are found, and those of the answer are kept.
    pub memory: Option<&'m RememberedSignatures>,
}

impl From<Signatures> for SignatureSources<'_> {
    fn from(which: Signatures) -> Self {
        SignatureSources { which, memory: None }
    }
}

/// What stands on a part as its signature.
#[derive(Debug, Clone)]
pub(super) enum Signature<'p, 'a> {
    Returned(&'p EscapedText<'a>),
    /// One that the client dropped.
    Remembered(EscapedText<'static>),
    /// Google's documented stand-in for the signature of a call that another provider made.
    StandIn,
}

/// The signatures of one turn.
#[derive(Debug, Default)]
pub(super) struct TurnSignatures<'p, 'a> {
    /// By the place of the part.
    of_parts: Vec<(usize, Signature<'p, 'a>)>,
    /// One that no part is left to carry.
    pub(super) last: Option<&'p EscapedText<'a>>,
    /// Whether this provider made the turn.
    pub(super) is_own: bool,
}

impl<'p, 'a> TurnSignatures<'p, 'a> {
    /// The signature of the part at `place`.
    pub(super) fn at(&self, place: usize) -> Option<Signature<'p, 'a>> {
        self.of_parts.iter().find(|(part, _)| *part == place).map(|(_, signature)| signature.clone())
    }

    /// Assigns the signatures of a turn: that of a call by its id, another one to the text that follows it. A step of calls
    /// without any gets a stand-in on its first call, where the model wants one.
    pub(super) fn new(
        turn: &'p AlternatingTurn<'a>,
        sources: SignatureSources<'_>,
        capabilities: Capabilities,
        unsupported: &mut UnsupportedFields,
    ) -> TurnSignatures<'p, 'a> {
        let mut signatures = TurnSignatures::default();
        let (mut for_text, mut ownerless) = (None, None);
        for (place, part) in turn.parts.iter().enumerate() {
            match &part.content {
                Content::Reasoning(state) => {
                    signatures.is_own |= state.format == ReasoningFormat::Gemini;
                    let Some(sealed) = returnable(state, sources.which, unsupported) else { continue };
                    let owner = state.id.as_ref().filter(|id| !id.is_empty());
                    let lost = match owner.map(|id| signatures.call_of(turn, id)) {
                        Some(Some(call)) => {
                            signatures.of_parts.push((call, Signature::Returned(sealed)));
                            None
                        }
                        Some(None) => ownerless.replace(sealed),
                        None => for_text.replace(sealed),
                    };
                    if lost.is_some() {
                        unsupported.emulate(STATE);
                    }
                }
                Content::Text(_) | Content::Refusal(_) => {
                    if let Some(sealed) = for_text.take() {
                        signatures.of_parts.push((place, Signature::Returned(sealed)));
                    }
                }
                _ => {}
            }
        }
        let mut calls = calls(turn);
        let is_signed = calls.clone().any(|(place, _)| signatures.at(place).is_some());
        if let Some((first, _)) = calls.next().filter(|_| !is_signed) {
            if let Some(sealed) = ownerless.take().or_else(|| for_text.take()) {
                signatures.of_parts.push((first, Signature::Returned(sealed)));
            } else if capabilities.signs_calls && signatures.remember(turn, sources) {
                signatures.is_own = true;
            } else if capabilities.signs_calls {
                unsupported.emulate(STATE);
                signatures.of_parts.push((first, Signature::StandIn));
            }
        }
        if ownerless.is_some() {
            unsupported.emulate(STATE);
        }
        signatures.last = for_text;
        signatures
    }

    /// Assigns the signatures that are remembered of the calls of a turn. False if there are none.
    fn remember(&mut self, turn: &AlternatingTurn<'_>, sources: SignatureSources<'_>) -> bool {
        let Some(memory) = sources.memory.filter(|_| sources.which == Signatures::Returned) else { return false };
        let before = self.of_parts.len();
        let found = calls(turn).filter_map(|(place, id)| Some((place, Signature::Remembered(memory.find(id)?))));
        self.of_parts.extend(found);
        self.of_parts.len() > before
    }

    /// The place of the first unsigned call of that id.
    fn call_of(&self, turn: &AlternatingTurn<'_>, id: &EscapedText<'_>) -> Option<usize> {
        calls(turn).find(|(place, call)| *call == id && self.at(*place).is_none()).map(|(place, _)| place)
    }
}

/// Places and ids of the calls of a turn.
fn calls<'p, 'a>(turn: &'p AlternatingTurn<'a>) -> impl Iterator<Item = (usize, &'p EscapedText<'a>)> + Clone {
    turn.parts.iter().enumerate().filter_map(|(place, part)| match &part.content {
        Content::ToolCall { id, .. } => Some((place, id)),
        _ => None,
    })
}

/// The signature of a state that may go back. The model needs no text of its reasoning, and nobody else's state.
fn returnable<'p, 'a>(
    state: &'p ReasoningState<'a>,
    policy: Signatures,
    unsupported: &mut UnsupportedFields,
) -> Option<&'p EscapedText<'a>> {
    let is_own = state.format == ReasoningFormat::Gemini;
    let sealed = state.sealed.as_ref().filter(|sealed| !sealed.is_empty());
    if !is_own || (sealed.is_some() && policy == Signatures::StandIns) {
        unsupported.emulate(STATE);
        return None;
    }
    sealed
}
