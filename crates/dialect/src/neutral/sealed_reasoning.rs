//! Reasoning of earlier answers on its way back to the family of models that wrote them.

use pointsman_domain::ReasoningFormat;

use super::{
    conversation::{ReasoningKind, ReasoningState},
    text::EscapedText,
    unsupported_fields::UnsupportedFields,
};

/// A block of reasoning that can go back exactly as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SealedReasoning<'a> {
    /// A text, which may be empty, and its signature.
    Signed { text: EscapedText<'a>, signature: EscapedText<'a> },
    /// Data that only the provider can read.
    Encrypted(EscapedText<'a>),
}

/// Puts such blocks together from the elements of `reasoning_details`: a client may give the pieces of streamed reasoning one by
/// one, the signature last. What is not signed is not sent, and named.
#[derive(Debug)]
pub(crate) struct ReasoningAssembler<'p, 'a> {
    format: Option<ReasoningFormat>,
    /// Pieces of a text whose signature has not come yet.
    pieces: Vec<&'p EscapedText<'a>>,
}

impl<'p, 'a> ReasoningAssembler<'p, 'a> {
    /// For a model that takes back reasoning of this format, or none at all.
    pub(crate) fn new(format: Option<ReasoningFormat>) -> ReasoningAssembler<'p, 'a> {
        ReasoningAssembler { format, pieces: Vec::new() }
    }

    /// Takes the next element; gives the reasoning that it completes.
    pub(crate) fn take(
        &mut self,
        state: &'p ReasoningState<'a>,
        unsupported: &mut UnsupportedFields,
    ) -> Option<SealedReasoning<'a>> {
        let is_own = self.format == Some(state.format);
        let shown = state.text.as_ref().filter(|text| !text.is_empty());
        let Some(sealed) = state.sealed.as_ref().filter(|sealed| is_own && !sealed.is_empty()) else {
            match shown {
                Some(piece) if is_own && state.kind == ReasoningKind::Text => self.pieces.push(piece),
                _ => unsupported.emulate("messages[].reasoning_details"),
            }
            return None;
        };
        if state.kind != ReasoningKind::Text || shown.is_some() {
            self.end(unsupported);
        }
        match state.kind {
            ReasoningKind::Summary => {
                unsupported.emulate("messages[].reasoning_details");
                None
            }
            ReasoningKind::Encrypted => Some(SealedReasoning::Encrypted(sealed.clone())),
            ReasoningKind::Text => {
                let pieces = self.pieces.drain(..).chain(shown).cloned();
                let text = pieces.reduce(|text, piece| text.joined(&piece)).unwrap_or(EscapedText::plain(""));
                Some(SealedReasoning::Signed { text, signature: sealed.clone() })
            }
        }
    }

    /// Gives up pieces that turned out to have no signature.
    pub(crate) fn end(&mut self, unsupported: &mut UnsupportedFields) {
        if !self.pieces.is_empty() {
            self.pieces.clear();
            unsupported.emulate("messages[].reasoning_details");
        }
    }
}
