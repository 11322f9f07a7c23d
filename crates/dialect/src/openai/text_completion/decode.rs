//! Reads completions of texts as events: what they cost, and how they end.

use crate::{
    answer::AnswerFault,
    frame::StreamEvent,
    json::{Raw, object},
    neutral::{AnswerEvent, AnswerSink, ChatFact, EscapedText},
    openai::{answer::utf8, error, finish::normalise},
    refusal,
};

/// Reads one answer.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    is_done: bool,
}

impl Decoder {
    /// Reads one event of a stream.
    ///
    /// # Errors
    /// When it is not valid or reports an error, and those of the sink.
    pub(crate) fn event(&mut self, event: &StreamEvent<'_>, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        let data = event.data.trim_ascii();
        if event.is_error {
            return Err(refusal::fault_of_data(data));
        }
        if data == b"[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        read(utf8(data)?, sink, false)
    }

    /// Whether the stream has ended by its own word.
    pub(crate) const fn is_done(&self) -> bool {
        self.is_done
    }

    /// Reads an unstreamed answer.
    ///
    /// # Errors
    /// As [`Decoder::event`].
    pub(crate) fn whole(self, body: &str, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        read(body, sink, true)
    }
}

/// Reads a whole answer or a chunk of one. A choice of a whole answer without a reason of its end has reached its end.
fn read(text: &str, sink: &mut impl AnswerSink, is_whole: bool) -> Result<(), AnswerFault> {
    let value = object(text.trim_start_matches('\u{feff}'))?;
    if let Some(error) = value.member(b"error").filter(|error| error::is_error(*error)) {
        return Err(refusal::fault(error));
    }
    if let Some(id) = value.member(b"id").and_then(Raw::filled_string).and_then(EscapedText::of) {
        sink.event(AnswerEvent::Started { id })?;
    }
    if let Some(usage) = value.member(b"usage").filter(|usage| usage.is_object()) {
        sink.event(AnswerEvent::Chat(ChatFact::Usage(usage)))?;
    }
    for choice in value.member(b"choices").into_iter().flat_map(Raw::elements) {
        let index = choice.member(b"index").and_then(Raw::count).and_then(|index| u32::try_from(index).ok());
        let index = index.unwrap_or(0);
        match choice.member(b"text") {
            Some(text) if text.is_string() => {
                if let Some(text) = text.filled_string().and_then(EscapedText::of) {
                    sink.event(AnswerEvent::Text { choice: index, text })?;
                }
            }
            None => {}
            Some(text) if text.is_null() => {}
            Some(_) => return Err(AnswerFault::malformed("a text that is no string")),
        }
        let finish = choice.member(b"finish_reason").filter(|reason| !reason.is_null());
        let (finish, native) = match finish.and_then(Raw::text) {
            Some(reason) => (normalise(&reason), finish.and_then(EscapedText::of)),
            None if is_whole => (normalise("stop"), None),
            None => continue,
        };
        let native = native.unwrap_or(EscapedText::plain(""));
        sink.event(AnswerEvent::Finished { choice: index, finish, native })?;
    }
    Ok(())
}
