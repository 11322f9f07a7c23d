//! Reads answers of `Converse` and `ConverseStream` as neutral events.
//!
//! An event of a stream is an object with one member, named after the type of the event, as in the API's own description.
//! Blocks of text and of reasoning have no start. The stop reason comes before the usage, so that the end is held back.

use pointsman_domain::{FinishReason, ReasoningFormat};

use super::{error, finish::finish, models::reasoning_format, usage::tokens};
use crate::{
    answer::{AnswerFault, AnswerResult},
    frame::StreamEvent,
    json::{Cursor, Raw},
    neutral::{
        AnswerEvent, AnswerSink, EscapedText, ReasoningReader, ReportedTokens, ToolCallReader, ToolNames, url_citation,
    },
};

/// Reads one answer.
#[derive(Debug)]
pub(crate) struct Decoder {
    names: ToolNames,
    /// The format of the reasoning.
    reasoning_of: ReasoningFormat,
    has_started: bool,
    is_done: bool,
    /// The unfinished block and its index.
    open: Option<(u64, Block)>,
    calls: u32,
    reasoning_blocks: u32,
    /// Characters of text.
    characters: u64,
    /// Why the answer stopped, until the usage has come.
    stop: Option<EscapedText<'static>>,
}

#[derive(Debug)]
enum Block {
    /// `start`: where it begins in the text of the answer, in characters.
    Text {
        start: u64,
    },
    Reasoning(ReasoningReader),
    Call(ToolCallReader),
    /// Not shown.
    Hidden,
}

impl Decoder {
    /// A decoder for the answer of this model to a request with these names.
    pub(crate) fn new(names: ToolNames, upstream_model: &str) -> Decoder {
        Decoder {
            names,
            reasoning_of: reasoning_format(upstream_model),
            has_started: false,
            is_done: false,
            open: None,
            calls: 0,
            reasoning_blocks: 0,
            characters: 0,
            stop: None,
        }
    }

    /// Whether the answer is complete, so that nothing follows.
    pub(crate) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Reads one event of a stream. Unknown events are passed over.
    ///
    /// # Errors
    /// When the event is invalid, and those of the sink.
    pub(crate) fn event(&mut self, event: &StreamEvent<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        if self.is_done {
            return Ok(());
        }
        let text = std::str::from_utf8(&event.data).map_err(|_| AnswerFault::malformed("not valid UTF-8"))?;
        let value = Cursor::new(text).value()?;
        let Some((key, value)) = value.members().next() else { return Ok(()) };
        match &*key.name() {
            b"messageStart" => {
                self.has_started = true;
                Ok(())
            }
            b"metadata" => {
                let usage = tokens(value);
                if self.stop.is_some() { self.finish(usage, sink) } else { report(usage, sink) }
            }
            name if name.starts_with(b"contentBlock") || name == b"messageStop" => {
                if !self.has_started {
                    return Err(AnswerFault::malformed("the stream does not begin with messageStart"));
                }
                self.event_of_message(name, value, sink)
            }
            _ => Ok(()),
        }
    }

    /// The end of the stream.
    ///
    /// # Errors
    /// When the answer is incomplete, and those of the sink.
    pub(crate) fn end(&mut self, sink: &mut impl AnswerSink) -> AnswerResult {
        if self.is_done {
            return Ok(());
        }
        if self.stop.is_none() {
            return Err(AnswerFault::truncated("the stream ended before messageStop"));
        }
        self.finish(None, sink)
    }

    /// Reads an unstreamed answer.
    ///
    /// # Errors
    /// When the body is an error or invalid, and those of the sink.
    pub(crate) fn whole(mut self, body: &str, sink: &mut impl AnswerSink) -> AnswerResult {
        let answer = Raw::whole(body)?;
        let content = answer.member(b"output").and_then(|output| output.member(b"message")?.member(b"content"));
        let Some(content) = content.filter(|content| content.is_array()) else {
            return Err(error::fault_of_body(answer).unwrap_or(AnswerFault::malformed("the answer has no content")));
        };
        let usage = tokens(answer);
        // First, since a failed answer is billed, too.
        report(usage, sink)?;
        for (index, block) in content.elements().enumerate() {
            self.block_start(index as u64, block, sink)?;
            self.block_delta(index as u64, block, sink)?;
            self.block_stop(sink)?;
        }
        self.stop = answer.member(b"stopReason").and_then(EscapedText::read).map(EscapedText::into_owned);
        self.finish(None, sink)
    }

    fn event_of_message(&mut self, name: &[u8], event: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        let [index, start, delta, reason] = event.pick([b"contentBlockIndex", b"start", b"delta", b"stopReason"]);
        let index = index.and_then(Raw::count).unwrap_or(0);
        match name {
            b"contentBlockStart" => start.map_or(Ok(()), |start| self.block_start(index, start, sink)),
            b"contentBlockDelta" => delta.map_or(Ok(()), |delta| self.block_delta(index, delta, sink)),
            b"contentBlockStop" => self.block_stop(sink),
            b"messageStop" => {
                self.block_stop(sink)?;
                let reason = reason.and_then(EscapedText::read).unwrap_or(EscapedText::plain(""));
                self.stop = Some(reason.into_owned());
                self.refuse_malformed()
            }
            _ => Ok(()),
        }
    }

    /// Begins the block that `start` names; one without a start of its own begins with its first delta.
    fn block_start(&mut self, index: u64, start: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        self.block_stop(sink)?;
        let Some(call) = start.member(b"toolUse") else { return Ok(()) };
        let members = call.pick([b"toolUseId", b"name", b"input"]);
        let call = ToolCallReader::start(members, &self.names, &mut self.calls, sink)?;
        self.open = Some((index, Block::Call(call)));
        Ok(())
    }

    fn block_delta(&mut self, index: u64, delta: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        let Some((key, value)) = delta.members().next() else { return Ok(()) };
        if self.open.as_ref().is_none_or(|(open, _)| *open != index) {
            self.block_stop(sink)?;
            self.open = Some((index, self.block_of(&key.name())?));
        }
        let Some((_, block)) = &mut self.open else { return Ok(()) };
        match (&*key.name(), block) {
            (b"text", Block::Text { .. }) => match EscapedText::filled(value) {
                Some(text) => self.text(text, sink),
                None => Ok(()),
            },
            (b"citation", Block::Text { start, .. }) => cite(value, *start, self.characters, sink),
            (b"citationsContent", Block::Text { .. }) => self.cited_text(value, sink),
            (b"reasoningContent", Block::Reasoning(reasoning)) => reasoning_delta(value, reasoning, sink),
            (b"toolUse", Block::Call(call)) => match value.member(b"input").and_then(EscapedText::filled) {
                Some(piece) => call.piece(piece, sink),
                None => Ok(()),
            },
            (b"image", Block::Hidden) => image(value, sink),
            (_, Block::Hidden) => Ok(()),
            _ => Err(AnswerFault::malformed("a delta of another kind than its block")),
        }
    }

    /// The block that begins with a delta of this kind.
    fn block_of(&mut self, kind: &[u8]) -> AnswerResult<Block> {
        Ok(match kind {
            b"text" | b"citation" | b"citationsContent" => Block::Text { start: self.characters },
            b"reasoningContent" => {
                Block::Reasoning(ReasoningReader::start(self.reasoning_of, &mut self.reasoning_blocks))
            }
            b"toolUse" => return Err(AnswerFault::malformed("a piece of a call that has not begun")),
            _ => Block::Hidden,
        })
    }

    fn text(&mut self, text: EscapedText<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        self.characters = self.characters.saturating_add(text.characters());
        sink.event(AnswerEvent::Text { choice: 0, text })
    }

    /// Text with citations, as an unstreamed answer has it.
    fn cited_text(&mut self, value: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        let start = self.characters;
        for part in value.elements_of(b"content") {
            if let Some(text) = part.member(b"text").and_then(EscapedText::read) {
                self.text(text, sink)?;
            }
        }
        for citation in value.elements_of(b"citations") {
            cite(citation, start, self.characters, sink)?;
        }
        Ok(())
    }

    fn block_stop(&mut self, sink: &mut impl AnswerSink) -> AnswerResult {
        match self.open.take() {
            Some((_, Block::Reasoning(reasoning))) => reasoning.stop(sink),
            Some((_, Block::Call(call))) => call.stop(sink),
            _ => Ok(()),
        }
    }

    /// An answer that the model failed to make is no answer.
    fn refuse_malformed(&self) -> AnswerResult {
        let reason = self.stop.as_ref().map(EscapedText::unescaped).unwrap_or_default();
        match finish(&reason, self.calls > 0) {
            FinishReason::Error => {
                Err(AnswerFault::malformed("the model made an answer that is not valid").of_one_caller())
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self, usage: Option<ReportedTokens>, sink: &mut impl AnswerSink) -> AnswerResult {
        self.refuse_malformed()?;
        self.is_done = true;
        let native = self.stop.take().unwrap_or(EscapedText::plain(""));
        let finish = finish(&native.unescaped(), self.calls > 0);
        sink.event(AnswerEvent::Finished { choice: 0, finish, native })?;
        report(usage, sink)
    }
}

fn report(usage: Option<ReportedTokens>, sink: &mut impl AnswerSink) -> AnswerResult {
    usage.map_or(Ok(()), |tokens| sink.event(AnswerEvent::Usage(tokens)))
}

/// Takes a piece of a stream, or the whole reasoning of an unstreamed answer.
fn reasoning_delta(value: Raw<'_>, reasoning: &mut ReasoningReader, sink: &mut impl AnswerSink) -> AnswerResult {
    for (key, value) in value.member(b"reasoningText").unwrap_or(value).members() {
        match (&*key.name(), EscapedText::filled(value)) {
            (b"text", Some(text)) => reasoning.text(text, sink)?,
            (b"signature", Some(_)) => reasoning.sign(value)?,
            (b"redactedContent", Some(data)) => reasoning.encrypted(data, sink)?,
            _ => {}
        }
    }
    Ok(())
}

/// A citation of a page, or of a document as it came.
fn cite(citation: Raw<'_>, start: u64, end: u64, sink: &mut impl AnswerSink) -> AnswerResult {
    let Some(url) = citation.member(b"location").and_then(|location| location.member(b"web")?.member(b"url")) else {
        let json = citation.bytes().into();
        return sink.event(AnswerEvent::DocumentCitation { choice: 0, json });
    };
    let title = citation.member(b"title").filter(|title| title.is_string()).map_or(&b"\"\""[..], Raw::bytes);
    let json = url_citation(start, end, title, url.bytes());
    sink.event(AnswerEvent::Annotation { choice: 0, json: json.into() })
}

fn image(value: Raw<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
    let data = value.member(b"source").and_then(|source| source.member(b"bytes")).and_then(EscapedText::read);
    let format = value.member(b"format").and_then(Raw::text);
    let (Some(data), Some(format)) = (data, format) else { return Ok(()) };
    let media_type = EscapedText::escaping(&format!("image/{format}"));
    sink.event(AnswerEvent::Image { choice: 0, media_type, data })
}
