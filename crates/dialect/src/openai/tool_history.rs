//! Calls of tools and their results in a chat body, in the order that every provider takes.
//!
//! Clients put other messages between the results of one turn, answer calls late, or call tools in two messages in a row.
//! Providers want all results of a turn directly behind its calls. No model has seen a turn whose calls were open, so that a
//! prompt that was sent before stays a prefix of the next one. A chat server gets the body of a chat client as it is.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
};

use bytes::{BufMut as _, Bytes, BytesMut};

use super::tool_results::{FAILED, RESULT};
use crate::{
    json::{Raw, Splice, object, push_member},
    neutral::EscapedText,
};

/// Members of neighbouring answers that are joined.
const JOINED: [&[u8]; 7] =
    [b"role", b"content", b"tool_calls", FUNCTION_CALL, b"reasoning_details", b"reasoning", b"reasoning_content"];
/// The call of an answer in the deprecated form.
const FUNCTION_CALL: &[u8] = b"function_call";

/// A body in which results stand directly behind their calls.
pub(crate) struct ToolHistory {
    pub(crate) body: Bytes,
    /// Calls that have no result anywhere got a failed one.
    pub(crate) has_made_results: bool,
    /// Results of unknown calls became texts of the user.
    pub(crate) has_told_results: bool,
}

/// Puts results behind their calls. `for_chat`: the body goes to a chat server, which knows no failed results. `None` if they
/// stand there.
pub(crate) fn with_results_behind_calls(body: &[u8], for_chat: bool) -> Option<ToolHistory> {
    let text = std::str::from_utf8(body).ok()?;
    let list = object(text).ok()?.member(b"messages")?;
    let messages: Vec<Message<'_>> = list.elements().map(Message::read).collect();
    let mut writer = Writer { out: BytesMut::with_capacity(body.len() + 64), for_chat, made: false, told: false };
    writer.out.put_u8(b'[');
    let mut results = Results::of(&messages);
    let mut rest = messages.iter().enumerate().peekable();
    while let Some((first, message)) = rest.next() {
        if message.is_result() {
            if results.taken.get(first) != Some(&true) {
                writer.tell(message);
            }
            continue;
        }
        if message.calls.is_empty() {
            writer.push(message.raw.bytes());
            continue;
        }
        let mut answers = vec![message];
        let mut last = first;
        while let Some((place, next)) = rest.next_if(|(_, next)| next.is_answer) {
            answers.push(next);
            last = place;
        }
        writer.answers(&answers);
        for id in answers.iter().flat_map(|answer| &answer.calls) {
            match results.take(id, last).and_then(|place| messages.get(place)) {
                Some(result) => writer.push(result.raw.bytes()),
                None => writer.make_result(id),
            }
        }
    }
    writer.out.put_u8(b']');
    if writer.out == *list.bytes() {
        return None;
    }
    let mut splice = Splice::new(text);
    splice.replace(list, &writer.out);
    Some(ToolHistory { body: splice.finish(), has_made_results: writer.made, has_told_results: writer.told })
}

struct Message<'a> {
    raw: Raw<'a>,
    is_answer: bool,
    /// Ids of the calls of an answer, as written; empty where there is none. A call in the deprecated form has the name of the
    /// function.
    calls: Vec<&'a str>,
    /// The call that a result belongs to.
    result_of: Option<&'a str>,
}

impl<'a> Message<'a> {
    fn read(raw: Raw<'a>) -> Message<'a> {
        let [role, calls, function_call, id, name] =
            raw.pick([b"role", b"tool_calls", FUNCTION_CALL, b"tool_call_id", b"name"]);
        let role = role.map(Raw::inner_text).unwrap_or_default();
        let text = |value: Raw<'a>| value.is_string().then(|| value.inner_text());
        let is_answer = role == "assistant";
        let calls = calls.into_iter().filter(|_| is_answer).flat_map(Raw::elements);
        let ids = calls.map(|call| call.member(b"id").and_then(text).unwrap_or_default());
        let called = function_call.filter(|_| is_answer).and_then(name_of);
        let result_of = || id.and_then(text).or_else(|| name.and_then(text)).unwrap_or_default();
        Message {
            raw,
            is_answer,
            calls: ids.chain(called.map(Raw::inner_text)).collect(),
            result_of: matches!(role, "tool" | "function").then(result_of),
        }
    }

    fn is_result(&self) -> bool {
        self.result_of.is_some()
    }
}

/// Places of the results by the ids of their calls, and of the calls with these ids. Ids may come again in a later turn.
struct Results<'a> {
    results: HashMap<&'a str, VecDeque<usize>>,
    calls: HashMap<&'a str, VecDeque<usize>>,
    taken: Vec<bool>,
}

impl<'a> Results<'a> {
    fn of(messages: &[Message<'a>]) -> Results<'a> {
        let mut all = Results { results: HashMap::new(), calls: HashMap::new(), taken: vec![false; messages.len()] };
        for (place, message) in messages.iter().enumerate() {
            if let Some(id) = message.result_of {
                all.results.entry(id).or_default().push_back(place);
            }
            for id in &message.calls {
                all.calls.entry(id).or_default().push_back(place);
            }
        }
        all
    }

    /// The first result of a call that stands behind the message at `place` and before the next one with a call of this id.
    fn take(&mut self, id: &str, place: usize) -> Option<usize> {
        let calls = self.calls.get_mut(id)?;
        while calls.front().is_some_and(|call| *call <= place) {
            calls.pop_front();
        }
        let results = self.results.get_mut(id)?;
        while results.front().is_some_and(|result| *result < place) {
            results.pop_front();
        }
        // An empty id is no name: such results belong to the calls in their order.
        let end = calls.front().copied().unwrap_or(usize::MAX);
        let result = results.pop_front_if(|result| *result < end)?;
        if let Some(taken) = self.taken.get_mut(result) {
            *taken = true;
        }
        Some(result)
    }
}

struct Writer {
    out: BytesMut,
    for_chat: bool,
    made: bool,
    told: bool,
}

impl Writer {
    fn push(&mut self, message: &[u8]) {
        self.begin();
        self.out.put_slice(message);
    }

    fn begin(&mut self) {
        if self.out.len() > 1 {
            self.out.put_u8(b',');
        }
    }

    /// A result of a call that has none.
    fn make_result(&mut self, id: &str) {
        self.made = true;
        self.begin();
        self.out.put_slice(RESULT);
        self.out.put_u8(b'"');
        self.out.put_slice(id.as_bytes());
        self.out.put_slice(b"\",\"content\":\"[no result]\"");
        if !self.for_chat {
            self.out.put_u8(b',');
            self.out.put_slice(FAILED);
        }
        self.out.put_u8(b'}');
    }

    /// A result of an unknown call, as a text of the user.
    fn tell(&mut self, message: &Message<'_>) {
        self.told = true;
        self.begin();
        self.out.put_slice(b"{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"[tool result ");
        self.out.put_slice(message.result_of.unwrap_or_default().as_bytes());
        self.out.put_slice(b"]\"}");
        push_parts(message.raw.member(b"content"), &mut self.out);
        self.out.put_slice(b"]}");
    }

    /// Answers in a row, as one message.
    fn answers(&mut self, answers: &[&Message<'_>]) {
        if let [answer] = answers {
            return self.push(answer.raw.bytes());
        }
        self.begin();
        let out = &mut self.out;
        let all = |name: &'static [u8]| answers.iter().filter_map(move |answer| answer.raw.member(name));
        out.put_slice(b"{\"role\":\"assistant\",\"content\":");
        let mut contents = all(b"content").filter(|content| content.is_filled());
        match (contents.next(), contents.next()) {
            (None, _) => out.put_slice(b"null"),
            (Some(only), None) => out.put_slice(only.bytes()),
            _ => {
                let start = out.len();
                all(b"content").for_each(|content| push_parts(Some(content), out));
                if let Some(comma) = out.get_mut(start) {
                    *comma = b'[';
                }
                out.put_u8(b']');
            }
        }
        let calls: Vec<Cow<'_, [u8]>> = answers.iter().flat_map(|answer| calls_of(answer.raw)).collect();
        let details = all(b"reasoning_details").filter(|list| list.is_array() && list.is_filled());
        let details: Vec<Cow<'_, [u8]>> = details.map(|list| Cow::Borrowed(list.inner())).collect();
        for (name, lists) in [(&b"tool_calls"[..], calls), (b"reasoning_details", details)] {
            if !lists.is_empty() {
                push_member(out, name, b"[");
                out.put_slice(&lists.join(&b","[..]));
                out.put_u8(b']');
            }
        }
        for name in [&b"reasoning"[..], b"reasoning_content"] {
            let texts: Vec<&[u8]> = all(name).filter_map(Raw::filled_string).map(Raw::inner).collect();
            if !texts.is_empty() {
                push_member(out, name, b"\"");
                out.put_slice(&texts.concat());
                out.put_u8(b'"');
            }
        }
        let mut others: Vec<&[u8]> = Vec::new();
        for (key, value) in answers.iter().flat_map(|answer| answer.raw.members()) {
            if !JOINED.contains(&&*key.name()) && !others.contains(&key.inner()) {
                others.push(key.inner());
                push_member(out, key.inner(), value.bytes());
            }
        }
        out.put_u8(b'}');
    }
}

/// The elements of the calls of an answer, in the form of today.
fn calls_of(answer: Raw<'_>) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let [calls, function_call] = answer.pick([b"tool_calls", FUNCTION_CALL]);
    let calls = calls.filter(|list| list.is_array() && list.is_filled()).map(|list| Cow::Borrowed(list.inner()));
    let named = function_call.and_then(|call| Some((call, name_of(call)?)));
    let of_today = named.map(|(call, name)| {
        let parts: [&[u8]; 5] =
            [b"{\"id\":", name.bytes(), b",\"type\":\"function\",\"function\":", call.bytes(), b"}"];
        Cow::Owned(parts.concat())
    });
    calls.into_iter().chain(of_today)
}

/// The name in a call in the deprecated form, if it is one.
fn name_of(function_call: Raw<'_>) -> Option<Raw<'_>> {
    function_call.member(b"name").and_then(Raw::filled_string)
}

/// Appends the parts of a content, each after a comma.
fn push_parts(content: Option<Raw<'_>>, out: &mut BytesMut) {
    match content.and_then(EscapedText::of) {
        Some(text) if text.is_empty() => {}
        Some(text) => {
            out.put_slice(b",{\"type\":\"text\",\"text\":");
            text.push_quoted(out);
            out.put_u8(b'}');
        }
        None => {
            for part in content.into_iter().flat_map(Raw::elements) {
                out.put_u8(b',');
                out.put_slice(part.bytes());
            }
        }
    }
}
