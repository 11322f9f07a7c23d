//! `contents`: the turns of the conversation.

use bytes::{BufMut as _, BytesMut};

use super::models::Capabilities;
use crate::dialect::{
    json::{push_member, push_string},
    neutral::{
        AlternatingTurn, Content, EscapedText, FieldFates, MediaSource, Part, ReasoningFormat, Speaker, ToolKind,
        ToolNames, push_arguments_object,
    },
};

/// Google's documented stand-in for the signature of a call that another provider made.
const NO_SIGNATURE: &[u8] = b"\"skip_thought_signature_validator\"";

/// Appends the list.
pub(super) fn push(
    turns: &[AlternatingTurn<'_>],
    names: &ToolNames,
    capabilities: Capabilities,
    out: &mut BytesMut,
    fates: &mut FieldFates,
) {
    out.put_u8(b'[');
    let mut contents = Contents { out, fates, names, capabilities, calls: Vec::new(), is_first_part: true };
    let mut is_empty = true;
    for turn in turns {
        is_empty &= !contents.turn(turn, is_empty);
    }
    if is_empty {
        contents.fates.emulate("messages");
        contents.out.put_slice(b"{\"role\":\"user\",\"parts\":[{\"text\":\"(empty)\"}]}");
    }
    out.put_u8(b']');
}

struct Contents<'o, 'a> {
    out: &'o mut BytesMut,
    fates: &'o mut FieldFates,
    names: &'o ToolNames,
    capabilities: Capabilities,
    /// Ids of the calls so far with the names of their functions, as sent.
    calls: Vec<(EscapedText<'a>, EscapedText<'a>)>,
    is_first_part: bool,
}

/// The signatures of a turn: those of calls by their ids, and that of the text.
struct Signatures<'p, 'a> {
    of_calls: Vec<(&'p EscapedText<'a>, &'p EscapedText<'a>)>,
    of_text: Option<&'p EscapedText<'a>>,
}

impl<'a> Contents<'_, 'a> {
    /// Appends a turn. False if there is nothing in it that this API has a part for.
    fn turn(&mut self, turn: &AlternatingTurn<'a>, is_first: bool) -> bool {
        let before = self.out.len();
        if !is_first {
            self.out.put_u8(b',');
        }
        self.out.put_slice(match turn.speaker {
            Speaker::User => b"{\"role\":\"user\",\"parts\":[",
            Speaker::Assistant => b"{\"role\":\"model\",\"parts\":[",
        });
        self.is_first_part = true;
        let signatures = self.signatures(turn);
        let is_text = |part: &Part<'_>| matches!(part.content, Content::Text(_) | Content::Refusal(_));
        let last_text = turn.parts.iter().rposition(is_text);
        let mut has_call = false;
        for (place, part) in turn.parts.iter().enumerate() {
            if part.cache_control.is_some() {
                self.fates.drop("messages[].content[].cache_control");
            }
            match &part.content {
                Content::Reasoning(_) => {}
                Content::Text(text) | Content::Refusal(text) => {
                    let signature = signatures.of_text.filter(|_| last_text == Some(place));
                    self.text(text, signature);
                }
                Content::ToolCall { id, name, arguments, kind } => {
                    let signature = signatures.of_calls.iter().find(|(owner, _)| *owner == id);
                    let is_unsigned = signature.is_none() && !has_call && self.capabilities.signs_calls;
                    self.call((id, name), (arguments, *kind), signature.map(|(_, sealed)| *sealed), is_unsigned);
                    has_call = true;
                }
                Content::ToolResult { id, parts, failed } => self.result(id, parts, *failed),
                content => self.media(content),
            }
        }
        // A signature without a text to stand on.
        if let (Some(sealed), None) = (signatures.of_text, last_text) {
            self.text(&EscapedText::plain(""), Some(sealed));
        }
        if self.is_first_part {
            self.out.truncate(before);
            return false;
        }
        self.out.put_slice(b"]}");
        true
    }

    fn signatures<'p>(&mut self, turn: &'p AlternatingTurn<'a>) -> Signatures<'p, 'a> {
        let mut signatures = Signatures { of_calls: Vec::new(), of_text: None };
        for part in &turn.parts {
            let Content::Reasoning(state) = &part.content else { continue };
            match (&state.sealed, &state.id) {
                (Some(sealed), Some(id)) if state.format == ReasoningFormat::Gemini => {
                    signatures.of_calls.push((id, sealed));
                }
                (Some(sealed), None) if state.format == ReasoningFormat::Gemini => signatures.of_text = Some(sealed),
                // The model needs no text of its thoughts.
                (None, _) if state.format == ReasoningFormat::Gemini => {}
                _ => self.fates.drop("messages[].reasoning_details"),
            }
        }
        signatures
    }

    fn begin_part(&mut self) {
        if !std::mem::take(&mut self.is_first_part) {
            self.out.put_u8(b',');
        }
    }

    fn text(&mut self, text: &EscapedText<'a>, signature: Option<&EscapedText<'a>>) {
        self.begin_part();
        self.out.put_slice(b"{\"text\":");
        text.push_quoted(self.out);
        if let Some(signature) = signature {
            push_member(self.out, b"thoughtSignature", b"");
            signature.push_quoted(self.out);
        }
        self.out.put_u8(b'}');
    }

    fn call(
        &mut self,
        (id, name): (&EscapedText<'a>, &EscapedText<'a>),
        (arguments, kind): (&EscapedText<'a>, ToolKind),
        signature: Option<&EscapedText<'a>>,
        is_unsigned: bool,
    ) {
        self.begin_part();
        let name = self.names.sent(name);
        self.out.put_slice(b"{\"functionCall\":{\"name\":");
        name.push_quoted(self.out);
        self.calls.push((id.clone(), name));
        push_member(self.out, b"args", b"");
        match kind {
            ToolKind::Function => {
                if !push_arguments_object(arguments, self.out) {
                    self.fates.emulate("messages[].tool_calls[].function.arguments");
                }
            }
            ToolKind::Custom => {
                self.fates.emulate("messages[].tool_calls[].custom");
                self.out.put_slice(b"{\"input\":");
                arguments.push_quoted(self.out);
                self.out.put_u8(b'}');
            }
        }
        self.out.put_u8(b'}');
        if let Some(signature) = signature {
            push_member(self.out, b"thoughtSignature", b"");
            signature.push_quoted(self.out);
        } else if is_unsigned {
            self.fates.emulate("messages[].reasoning_details");
            push_member(self.out, b"thoughtSignature", NO_SIGNATURE);
        }
        self.out.put_u8(b'}');
    }

    /// A result names the function of its call, not the call: results stand in the order of the calls.
    fn result(&mut self, id: &EscapedText<'a>, parts: &[Part<'a>], failed: bool) {
        self.begin_part();
        self.out.put_slice(b"{\"functionResponse\":{\"name\":");
        match self.calls.iter().rev().find(|(call, _)| call == id) {
            Some((_, name)) => name.push_quoted(self.out),
            None => self.out.put_slice(b"\"unknown\""),
        }
        let texts = parts.iter().filter_map(|part| match &part.content {
            Content::Text(text) | Content::Refusal(text) => Some(text.unescaped()),
            _ => None,
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        push_member(self.out, b"response", if failed { b"{\"error\":" } else { b"{\"output\":" });
        push_string(self.out, &text);
        self.out.put_slice(b"}}}");
        for part in parts {
            if !matches!(part.content, Content::Text(_) | Content::Refusal(_)) {
                self.media(&part.content);
            }
        }
    }

    fn media(&mut self, content: &Content<'a>) {
        let (source, guess) = match content {
            Content::Image { source, detail } => {
                if detail.as_ref().is_some_and(|detail| *detail != EscapedText::plain("auto")) {
                    self.fates.drop("messages[].content[].image_url.detail");
                }
                (source, "image/jpeg")
            }
            Content::File { source, .. } => (source, "application/pdf"),
            Content::Video { source } => (source, "video/mp4"),
            Content::Audio { format, data } => {
                self.begin_part();
                self.out.put_slice(b"{\"inlineData\":{\"mimeType\":\"audio/");
                self.out.put_slice(format.bytes());
                self.out.put_slice(b"\",\"data\":");
                data.push_quoted(self.out);
                return self.out.put_slice(b"}}");
            }
            _ => return self.fates.drop("messages[].content[]"),
        };
        match source {
            MediaSource::Base64 { media_type, data } => {
                self.begin_part();
                self.out.put_slice(b"{\"inlineData\":{\"mimeType\":");
                media_type.push_quoted(self.out);
                push_member(self.out, b"data", b"");
                data.push_quoted(self.out);
                self.out.put_slice(b"}}");
            }
            MediaSource::Url(address) | MediaSource::FileId(address) => {
                self.begin_part();
                self.out.put_slice(b"{\"fileData\":{\"mimeType\":");
                push_string(self.out, media_type(&address.unescaped()).unwrap_or(guess));
                push_member(self.out, b"fileUri", b"");
                address.push_quoted(self.out);
                self.out.put_slice(b"}}");
            }
            MediaSource::Text(text) => self.text(text, None),
        }
    }
}

/// The media type of an address, by the ending of its path.
fn media_type(address: &str) -> Option<&'static str> {
    const ENDINGS: [(&str, &str); 10] = [
        (".png", "image/png"),
        (".jpg", "image/jpeg"),
        (".jpeg", "image/jpeg"),
        (".webp", "image/webp"),
        (".gif", "image/gif"),
        (".pdf", "application/pdf"),
        (".txt", "text/plain"),
        (".mp4", "video/mp4"),
        (".webm", "video/webm"),
        (".mov", "video/quicktime"),
    ];
    let path = address.split(['?', '#']).next()?.to_ascii_lowercase();
    ENDINGS.iter().find(|(ending, _)| path.ends_with(ending)).map(|(_, media_type)| *media_type)
}
