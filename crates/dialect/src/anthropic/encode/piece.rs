//! Pieces of content, and those that wait for the call before them.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::{
    answer::{AnswerFault, AnswerResult},
    neutral::{EscapedText, ReasoningState, ToolKind},
};

/// What a waiting piece takes besides its texts, bytes.
const PIECE_BYTES: usize = 160;

/// A piece of content.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    Text(EscapedText<'a>),
    /// With the index of its block.
    Reasoning(u32, ReasoningState<'a>),
    /// A citation of the text before it, JSON.
    Citation(Bytes),
    /// A call with the arguments that came so far.
    Call {
        call: u32,
        id: EscapedText<'a>,
        name: EscapedText<'a>,
        kind: ToolKind,
        arguments: EscapedText<'a>,
    },
}

impl Piece<'_> {
    fn bytes(&self) -> usize {
        let length = |text: &Option<EscapedText<'_>>| text.as_ref().map_or(0, |text| text.bytes().len());
        PIECE_BYTES
            + match self {
                Piece::Text(text) => text.bytes().len(),
                Piece::Reasoning(_, ReasoningState { text, sealed, id, .. }) => {
                    length(text) + length(sealed) + length(id)
                }
                Piece::Citation(json) => json.len(),
                Piece::Call { id, name, arguments, .. } => {
                    id.bytes().len() + name.bytes().len() + arguments.bytes().len()
                }
            }
    }

    fn into_owned(self) -> Piece<'static> {
        match self {
            Piece::Text(text) => Piece::Text(text.into_owned()),
            Piece::Reasoning(index, state) => Piece::Reasoning(index, state.into_owned()),
            Piece::Citation(json) => Piece::Citation(json),
            Piece::Call { call, id, name, kind, arguments } => Piece::Call {
                call,
                id: id.into_owned(),
                name: name.into_owned(),
                kind,
                arguments: arguments.into_owned(),
            },
        }
    }
}

/// Pieces in the order in which they came.
#[derive(Debug)]
pub(super) struct Waiting {
    pieces: VecDeque<Piece<'static>>,
    bytes: usize,
    limit: usize,
}

impl Waiting {
    pub(super) fn new(limit: usize) -> Waiting {
        Waiting { pieces: VecDeque::new(), bytes: 0, limit }
    }

    /// Appends a piece.
    ///
    /// # Errors
    /// When too much waits.
    pub(super) fn push(&mut self, piece: Piece<'_>) -> AnswerResult {
        match (self.pieces.back_mut(), piece) {
            (Some(Piece::Text(last)), Piece::Text(more)) => {
                join(last, &more);
                self.count(more.bytes().len())
            }
            (_, piece) => {
                self.count(piece.bytes())?;
                self.pieces.push_back(piece.into_owned());
                Ok(())
            }
        }
    }

    /// Appends to the arguments of a call.
    ///
    /// # Errors
    /// When too much waits, or the call does not wait: what follows behind its end must not be lost.
    pub(super) fn add_arguments(&mut self, of: u32, text: &EscapedText<'_>) -> AnswerResult {
        let arguments = self.pieces.iter_mut().find_map(|piece| match piece {
            Piece::Call { call, arguments, .. } if *call == of => Some(arguments),
            _ => None,
        });
        let Some(arguments) = arguments else {
            let is_lost = !text.bytes().is_empty();
            return if is_lost { Err(AnswerFault::malformed("arguments behind the end of a call")) } else { Ok(()) };
        };
        join(arguments, text);
        self.count(text.bytes().len())
    }

    /// Takes the first piece.
    pub(super) fn pop(&mut self) -> Option<Piece<'static>> {
        let piece = self.pieces.pop_front()?;
        self.bytes = self.bytes.saturating_sub(piece.bytes());
        Some(piece)
    }

    fn count(&mut self, more: usize) -> AnswerResult {
        self.bytes += more;
        if self.bytes > self.limit {
            return Err(AnswerFault::malformed("calls in turns that are longer than allowed"));
        }
        Ok(())
    }
}

fn join(text: &mut EscapedText<'static>, more: &EscapedText<'_>) {
    let before = std::mem::replace(text, EscapedText::plain(""));
    *text = before.joined(more);
}
