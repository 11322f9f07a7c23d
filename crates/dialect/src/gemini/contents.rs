//! `contents`: the turns of the conversation.

use bytes::{BufMut as _, BytesMut};

use super::{
    media::push_media,
    models::Capabilities,
    signatures::{Signature, SignatureSources, TurnSignatures},
};
use crate::{
    json::{Comma, Raw, push_member},
    neutral::{
        AlternatingTurn, Content, EscapedText, MediaSource, Part, Speaker, ToolKind, ToolNames, UnsupportedFields,
        is_made_call_id, name_of_cache_mark, push_call_input,
    },
};

/// Google's documented stand-in for the signature of a call that another provider made.
const STAND_IN: &[u8] = b"\"skip_thought_signature_validator\"";

/// Appends the list.
pub(super) fn push(
    turns: &[AlternatingTurn<'_>],
    names: &ToolNames,
    capabilities: Capabilities,
    signatures: SignatureSources<'_>,
    out: &mut BytesMut,
    unsupported: &mut UnsupportedFields,
) {
    out.put_u8(b'[');
    let mut contents =
        Contents { out, unsupported, names, capabilities, signatures, calls: Vec::new(), is_first_part: true };
    let mut is_empty = true;
    for turn in turns {
        is_empty &= !contents.turn(turn, is_empty);
    }
    if is_empty {
        contents.unsupported.emulate("messages");
        contents.out.put_slice(b"{\"role\":\"user\",\"parts\":[{\"text\":\"(empty)\"}]}");
    }
    out.put_u8(b']');
}

struct Contents<'o, 'a> {
    out: &'o mut BytesMut,
    unsupported: &'o mut UnsupportedFields,
    names: &'o ToolNames,
    capabilities: Capabilities,
    signatures: SignatureSources<'o>,
    /// The calls of the last turn of the model that have no result yet.
    calls: Vec<PendingToolCall<'a>>,
    is_first_part: bool,
}

/// A call, as its result refers to it.
struct PendingToolCall<'a> {
    id: EscapedText<'a>,
    /// As sent.
    name: EscapedText<'a>,
    is_id_sent: bool,
}

impl<'a> Contents<'_, 'a> {
    /// Appends a turn. False if there is nothing in it that this API has a part for.
    fn turn(&mut self, turn: &AlternatingTurn<'a>, is_first: bool) -> bool {
        let before = self.out.len();
        if !is_first {
            self.out.put_u8(b',');
        }
        self.is_first_part = true;
        match turn.speaker {
            Speaker::User | Speaker::System => {
                self.out.put_slice(b"{\"role\":\"user\",\"parts\":[");
                self.user(turn);
            }
            Speaker::Assistant => {
                self.out.put_slice(b"{\"role\":\"model\",\"parts\":[");
                self.model(turn);
            }
        }
        if self.is_first_part {
            self.out.truncate(before);
            return false;
        }
        self.out.put_slice(b"]}");
        true
    }

    fn user(&mut self, turn: &AlternatingTurn<'a>) {
        let is_result = |part: &&Part<'a>| matches!(part.content, Content::ToolResult { .. });
        let results: Vec<&Part<'a>> = turn.parts.iter().take_while(is_result).collect();
        let count = results.len();
        self.results(&results);
        turn.parts.iter().skip(count).for_each(|part| self.part(part, None));
    }

    fn model(&mut self, turn: &AlternatingTurn<'a>) {
        let signatures = TurnSignatures::new(turn, self.signatures, self.capabilities, self.unsupported);
        self.calls.clear();
        for (place, part) in turn.parts.iter().enumerate() {
            let signature = signatures.at(place);
            match &part.content {
                Content::Reasoning(_) => {}
                Content::ToolCall { id, name, arguments, kind } => {
                    self.mark(part.cache_control);
                    let is_id_sent = signatures.is_own && !is_made_call_id(id);
                    let call = PendingToolCall { id: id.clone(), name: self.names.sent(name), is_id_sent };
                    self.call(&call, arguments, *kind, signature);
                    self.calls.push(call);
                }
                _ => self.part(part, signature),
            }
        }
        if let Some(sealed) = signatures.last {
            self.text(&EscapedText::plain(""), Some(Signature::Returned(sealed)));
        }
    }

    /// There are no breakpoints in this API: it caches by itself.
    fn mark(&mut self, mark: Option<Raw<'_>>) {
        let Some(mark) = mark else { return };
        self.unsupported.drop(&format!("messages[].content[].{}", name_of_cache_mark(mark)));
    }

    /// Appends a text or a medium.
    fn part(&mut self, part: &Part<'a>, signature: Option<Signature<'_, 'a>>) {
        self.mark(part.cache_control);
        match &part.content {
            Content::Text(text) | Content::Refusal(text) => self.text(text, signature),
            content => self.media(content),
        }
    }

    fn media(&mut self, content: &Content<'a>) {
        let before = self.out.len();
        if !self.is_first_part {
            self.out.put_u8(b',');
        }
        if push_media(content, self.capabilities, self.out, self.unsupported) {
            self.is_first_part = false;
        } else {
            self.out.truncate(before);
        }
    }

    fn begin_part(&mut self) {
        if !std::mem::take(&mut self.is_first_part) {
            self.out.put_u8(b',');
        }
    }

    fn text(&mut self, text: &EscapedText<'_>, signature: Option<Signature<'_, 'a>>) {
        self.begin_part();
        push!(self.out; br#"{"text":"#, text);
        self.end_part(signature);
    }

    fn end_part(&mut self, signature: Option<Signature<'_, 'a>>) {
        match signature {
            Some(Signature::Returned(sealed)) => sealed.push_member(self.out, b"thoughtSignature"),
            Some(Signature::Remembered(sealed)) => sealed.push_member(self.out, b"thoughtSignature"),
            Some(Signature::StandIn) => push_member(self.out, b"thoughtSignature", STAND_IN),
            None => {}
        }
        self.out.put_u8(b'}');
    }

    fn call(
        &mut self,
        call: &PendingToolCall<'a>,
        arguments: &EscapedText<'a>,
        kind: ToolKind,
        signature: Option<Signature<'_, 'a>>,
    ) {
        self.begin_part();
        self.out.put_slice(b"{\"functionCall\":{");
        self.identity(call);
        push_member(self.out, b"args", b"");
        push_call_input(kind, arguments, self.out, self.unsupported);
        self.out.put_u8(b'}');
        self.end_part(signature);
    }

    /// Appends name and id of a call. Only an id that this provider gave goes back.
    fn identity(&mut self, call: &PendingToolCall<'a>) {
        if call.is_id_sent {
            push!(self.out; br#""id":"#, call.id, b",");
        }
        push!(self.out; br#""name":"#, call.name);
    }

    /// Appends results in the order of their calls, since calls of one function are told apart by nothing else; then what
    /// the results hold besides text.
    fn results(&mut self, parts: &[&Part<'a>]) {
        let mut open: Vec<Option<PendingToolCall<'a>>> =
            std::mem::take(&mut self.calls).into_iter().map(Some).collect();
        let mut results = Vec::new();
        for part in parts {
            let Content::ToolResult { id, parts, failed } = &part.content else { continue };
            self.mark(part.cache_control);
            let place = open.iter().position(|call| call.as_ref().is_some_and(|call| call.id == *id));
            // There is no result without a call: it would have become text.
            let call = place.and_then(|place| open.get_mut(place)?.take());
            results.extend(call.map(|call| (place, call, parts, *failed)));
        }
        results.sort_by_key(|(place, ..)| *place);
        let mut others = Vec::new();
        for (_, call, parts, failed) in results {
            others.extend(self.result(&call, parts, failed));
        }
        others.into_iter().for_each(|part| self.part(part, None));
    }

    /// Appends a result; returns those of its parts that must stand beside it.
    fn result<'p>(&mut self, call: &PendingToolCall<'a>, parts: &'p [Part<'a>], failed: bool) -> Vec<&'p Part<'a>> {
        let is_inside = |part: &Part<'_>| {
            let source = match &part.content {
                Content::Image { source, .. } | Content::File { source, .. } => source,
                _ => return false,
            };
            self.capabilities.media_in_results && matches!(source, MediaSource::Base64 { .. })
        };
        let (inside, others): (Vec<&Part<'_>>, Vec<&Part<'_>>) =
            parts.iter().filter(|part| text_of(part).is_none()).partition(|part| is_inside(part));
        self.begin_part();
        self.out.put_slice(b"{\"functionResponse\":{");
        self.identity(call);
        push_member(self.out, b"response", if failed { b"{\"error\":" } else { b"{\"output\":" });
        let texts: Vec<&EscapedText<'_>> = parts.iter().filter_map(text_of).filter(|text| !text.is_blank()).collect();
        match texts.as_slice() {
            [] => self.out.put_slice(b"\"\""),
            [text] => text.push_quoted(self.out),
            texts => {
                self.out.put_u8(b'[');
                for text in texts {
                    push!(self.out; Comma, text);
                }
                self.out.put_u8(b']');
            }
        }
        self.out.put_u8(b'}');
        parts.iter().filter(|part| text_of(part).is_some()).for_each(|part| self.mark(part.cache_control));
        if !inside.is_empty() {
            push_member(self.out, b"parts", b"[");
            self.is_first_part = true;
            inside.into_iter().for_each(|part| self.part(part, None));
            self.is_first_part = false;
            self.out.put_u8(b']');
        }
        self.out.put_slice(b"}}");
        others
    }
}

fn text_of<'p, 'a>(part: &'p Part<'a>) -> Option<&'p EscapedText<'a>> {
    match &part.content {
        Content::Text(text) | Content::Refusal(text) => Some(text),
        _ => None,
    }
}
