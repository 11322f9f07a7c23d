//! Which block a piece of content belongs to.

use pointsman_domain::ReasoningFormat;

use super::{MessagesEncoder, Open, call::OpenToolCall, piece::Piece};
use crate::{
    anthropic::foreign_state::{packed_state, with_omitted},
    neutral::{EscapedText, MAX_STATE, ReasoningKind, ReasoningState},
};

impl MessagesEncoder {
    /// Writes what waits, complete or not, and closes the last block.
    pub(super) fn settle(&mut self) {
        while let Some(piece) = self.waiting.pop() {
            self.write(piece);
        }
        self.close();
    }

    pub(super) fn write(&mut self, piece: Piece<'_>) {
        self.begin();
        match piece {
            Piece::Text(text) => self.write_text(text),
            Piece::Reasoning(index, state) => self.write_reasoning(index, state),
            Piece::Citation(citation) => {
                if let Some(Open::Text { is_cited, .. }) = &mut self.open {
                    *is_cited = true;
                    self.blocks.cite(&citation);
                }
            }
            Piece::Call { call, id, name, kind, arguments } => {
                self.close();
                self.blocks.begin_call(&id, &name);
                let mut open = OpenToolCall::new(call, kind, self.opening.form);
                if let Some(piece) = open.piece(arguments) {
                    self.blocks.fragment(&piece);
                }
                self.open = Some(Open::Call(open));
            }
        }
    }

    /// Text after a citation begins a block of its own, because a citation is about the text of its block.
    fn write_text(&mut self, text: EscapedText<'_>) {
        if !matches!(&self.open, Some(Open::Text { is_cited: false, .. })) {
            self.close();
            self.blocks.begin_text();
            self.open = Some(Open::Text { is_cited: false });
        }
        self.blocks.text(&text);
    }

    fn write_reasoning(&mut self, index: u32, state: ReasoningState<'_>) {
        let ReasoningState { format, kind, text, sealed, id } = state;
        let sealed = sealed.filter(|sealed| !sealed.is_empty());
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.open_reasoning(index, format);
            self.show_reasoning(&text);
        }
        let Some(sealed) = sealed else { return };
        let is_own = format == ReasoningFormat::Anthropic;
        let is_of_open = matches!(&self.open, Some(Open::Reasoning { format: of, index: at, .. })
            if *of == format && (*at == index || !is_own));
        let omitted = match &self.open {
            Some(Open::Reasoning { omitted: Some(omitted), .. }) if is_of_open => omitted.borrowed(),
            _ => EscapedText::plain(""),
        };
        let signature = match is_own {
            true => sealed,
            false => self.seal(format, with_omitted(packed_state(&sealed, id.as_ref()), &omitted)),
        };
        match kind {
            ReasoningKind::Encrypted if is_own || !is_of_open => {
                self.close();
                self.blocks.redacted(&signature);
            }
            _ => {
                if !is_of_open {
                    self.open_reasoning(index, format);
                }
                self.close_signed(Some(&signature));
            }
        }
    }

    /// Opens a block of reasoning, unless it is the one that is open.
    fn open_reasoning(&mut self, index: u32, format: ReasoningFormat) {
        let is_open =
            matches!(&self.open, Some(Open::Reasoning { index: at, format: of, .. }) if (*at, *of) == (index, format));
        if !is_open {
            self.close();
            self.blocks.begin_thinking();
            self.open = Some(Open::Reasoning { index, format, omitted: Some(EscapedText::plain("")) });
        }
    }

    /// Writes a piece of the open reasoning. For a client that wants no text it is kept instead, to be sealed, if the provider
    /// is one that wants its text back.
    fn show_reasoning(&mut self, text: &EscapedText<'_>) {
        if !self.opening.omits_thinking {
            return self.blocks.reasoning(text);
        }
        if let Some(Open::Reasoning { format: ReasoningFormat::Unknown, omitted, .. }) = &mut self.open {
            let fits = |kept: &EscapedText<'_>| kept.bytes().len() + text.bytes().len() <= MAX_STATE;
            *omitted = omitted.take().filter(fits).map(|kept| kept.joined(text));
        }
    }

    fn seal(&self, format: ReasoningFormat, state: String) -> EscapedText<'static> {
        EscapedText::escaping(&self.opening.state_key.seal(format, &state))
    }

    fn close(&mut self) {
        self.close_signed(None);
    }

    /// Closes the open block. Reasoning without a signature gets an envelope, in which there is at most its text.
    fn close_signed(&mut self, signature: Option<&EscapedText<'_>>) {
        match self.open.take() {
            None => {}
            Some(Open::Text { .. }) => self.blocks.end_text(),
            Some(Open::Reasoning { format, omitted, .. }) => match signature {
                Some(signature) => self.blocks.end_thinking(signature),
                None => {
                    let omitted = omitted.unwrap_or(EscapedText::plain(""));
                    self.blocks.end_thinking(&self.seal(format, with_omitted(String::new(), &omitted)));
                }
            },
            Some(Open::Call(call)) => self.blocks.end_call(call),
        }
    }
}
