//! One call of a tool in an answer, from its start over the pieces of its arguments to its end.

use bytes::{BufMut as _, BytesMut};

use super::{
    conversation::ToolKind,
    custom_tools::custom_input,
    event::{AnswerEvent, AnswerSink},
    text::EscapedText,
    tool_arguments::settled_arguments,
    tool_names::{CLIENT_IDS, ToolNames, fitting_call_id},
};
use crate::{
    answer::{AnswerFault, AnswerResult},
    json::Raw,
};

/// Most tool calls of an answer.
const MAX_CALLS: u32 = 128;
/// Longest input of a custom tool, bytes: it is collected, because it comes wrapped in an object.
const MAX_CUSTOM_INPUT: usize = 1_024 * 1_024;

/// A call that has begun.
#[derive(Debug)]
pub(crate) struct ToolCallReader {
    index: u32,
    /// The input that the call started with, used if no piece follows.
    input: Option<Vec<u8>>,
    has_pieces: bool,
    /// The pieces so far, if the call is of a custom tool.
    custom: Option<BytesMut>,
}

impl ToolCallReader {
    /// Begins a call; `calls` counts those of the answer. `id`, `name` and `input` as the upstream gave them.
    pub(crate) fn start(
        [id, name, input]: [Option<Raw<'_>>; 3],
        names: &ToolNames,
        calls: &mut u32,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult<ToolCallReader> {
        let Some(name) = name.and_then(EscapedText::filled) else {
            return Err(AnswerFault::malformed("a call without a name"));
        };
        if *calls >= MAX_CALLS {
            return Err(AnswerFault::malformed("too many calls"));
        }
        let index = *calls;
        *calls += 1;
        let id = match id.and_then(EscapedText::filled) {
            Some(id) => fitting_call_id(&id, CLIENT_IDS),
            // The meter gives the call an id that no other answer has.
            None => EscapedText::plain(""),
        };
        let name = names.original(&name);
        let is_custom = names.is_custom(&name);
        let kind = if is_custom { ToolKind::Custom } else { ToolKind::Function };
        sink.event(AnswerEvent::ToolCallStarted { choice: 0, call: index, id, name, kind })?;
        let input = input.filter(|input| input.is_object() && input.is_filled());
        Ok(ToolCallReader {
            index,
            input: input.map(|input| input.bytes().to_vec()),
            has_pieces: false,
            custom: is_custom.then(BytesMut::new),
        })
    }

    /// Takes a piece of the text of the arguments.
    pub(crate) fn piece(&mut self, text: EscapedText<'_>, sink: &mut impl AnswerSink) -> AnswerResult {
        self.has_pieces = true;
        let Some(custom) = &mut self.custom else {
            return sink.event(AnswerEvent::ToolCallArguments { choice: 0, call: self.index, text });
        };
        if custom.len() + text.bytes().len() > MAX_CUSTOM_INPUT {
            return Err(AnswerFault::malformed("the input of a custom tool is too long"));
        }
        custom.put_slice(text.bytes());
        Ok(())
    }

    /// Ends the call.
    pub(crate) fn stop(self, sink: &mut impl AnswerSink) -> AnswerResult {
        let started_with = self.input.as_deref().and_then(|input| std::str::from_utf8(input).ok()).unwrap_or("{}");
        let text = match self.custom {
            None if self.has_pieces => return Ok(()),
            None => EscapedText::escaping(started_with),
            Some(pieces) if self.has_pieces => {
                let pieces = settled_arguments(&pieces).unwrap_or(pieces);
                custom_input(&EscapedText::plain(std::str::from_utf8(&pieces).unwrap_or_default()).unescaped())
            }
            Some(_) => custom_input(started_with),
        };
        if text.is_empty() {
            return Ok(());
        }
        sink.event(AnswerEvent::ToolCallArguments { choice: 0, call: self.index, text })
    }
}
