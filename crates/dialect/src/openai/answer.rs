//! Plain chat answers: the upstream's body is checked and rewritten for the client in one pass.
//!
//! The gateway writes id, creation time, model, provider, fingerprint, finish reason and usage. Content and unknown
//! members are copied. Streams are in [`super::stream`], images in [`super::image_answer`].

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};
use pointsman_domain::Usage;

use super::{
    error,
    finish::{clean_name, normalise},
    message_member::{ContentParts, MessageMember, OutputLengths, push_reasoning_details},
    meter::{AnswerMeter, End, Finish},
    tool_call::{FunctionCall, ToolCallHead, ToolCallPart, is_portable_id},
    usage::{ProducedOutput, ReportedUsage, billed_usage, push_usage, service_name},
};
use crate::{
    answer::{Answer, AnswerContext, AnswerFault, AnswerResult},
    json::{Cursor, JsonFault, Raw, push_comma, push_member, push_string, without_mark},
    neutral::lone_halves_replaced,
    refusal,
};

/// Additional space for the gateway's members, so that the body is built in one allocation.
const EXTRA_BYTES: usize = 1_024;
/// Most choices of one answer, plain or streamed; more than any request may ask for.
pub(super) const MAX_CHOICES: usize = 128;

/// Checks a plain response and rewrites it for the client.
///
/// # Errors
/// When the body is not a valid response: not a JSON object, truncated, an error, without choices or without a message.
pub fn rewrite_answer(body: &Bytes, context: &AnswerContext) -> Result<Answer, AnswerFault> {
    let text = utf8(body)?;
    let mut rewriter = AnswerRewriter::new(context, body.len());
    if rewriter.body(text)? == Characters::Halves {
        let mended = lone_halves_replaced(text);
        let mut rewriter = AnswerRewriter::new(context, body.len());
        rewriter.body(&mended)?;
        return Ok(rewriter.into_answer());
    }
    Ok(rewriter.into_answer())
}

/// The usage that an upstream reports in a body that is not a valid response, if any.
pub fn usage_of_failed_answer(body: &Bytes, context: &AnswerContext) -> Option<Usage> {
    let text = utf8(body).ok()?;
    let mut cursor = Cursor::new(without_mark(text));
    cursor.pass_byte(b'{').ok()?;
    let (mut first, mut tier, mut reported) = (true, None, None);
    while let Ok(Some(key)) = cursor.key(&mut first) {
        match &*key.name() {
            b"usage" if cursor.peek() == Ok(b'{') => {
                reported = Some(ReportedUsage::read(&mut cursor).ok().filter(ReportedUsage::is_credible)?);
            }
            b"service_tier" => tier = cursor.value().ok().and_then(service_name),
            _ => {
                if cursor.value().is_err() {
                    break;
                }
            }
        }
    }
    let reported = reported?.with_tier(tier);
    Some(billed_usage(Some(&reported), ProducedOutput::default(), context))
}

impl From<JsonFault> for AnswerFault {
    fn from(fault: JsonFault) -> AnswerFault {
        match fault {
            JsonFault::Truncated => AnswerFault::truncated("the JSON ends before its end"),
            JsonFault::Invalid => AnswerFault::malformed("not valid JSON, or of the wrong type"),
            JsonFault::TooDeep => AnswerFault::malformed("nested too deeply"),
        }
    }
}

/// The text of an upstream's JSON. The vectorised check does not say where a fault is: that is looked up only then.
pub(crate) fn utf8(bytes: &[u8]) -> AnswerResult<&str> {
    let located = |_| {
        std::str::from_utf8(bytes).map_err(|error| match error.error_len() {
            None => AnswerFault::truncated("the text ends inside a character"),
            Some(_) => AnswerFault::malformed("not valid UTF-8"),
        })
    };
    simdutf8::basic::from_utf8(bytes).or_else(located)
}

/// The object that an answer is, unless it is an error.
pub(super) fn whole_answer(body: &[u8]) -> AnswerResult<Raw<'_>> {
    let answer = Raw::whole(without_mark(utf8(body)?))?;
    if !answer.is_object() {
        return Err(AnswerFault::malformed("an answer that is no object"));
    }
    error::fault_of_whole(answer).map_or(Ok(answer), Err)
}

/// JSON in one line, as events have it: between its tokens a line end is as good as a space.
///
/// # Errors
/// When it is not valid.
pub(crate) fn one_line(json: &[u8]) -> AnswerResult<Vec<u8>> {
    Raw::whole(utf8(json)?)?;
    Ok(json.iter().map(|&byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }).collect())
}

/// Appends the opening brace and the members that identify a generation: the beginning of every body and chunk.
pub(super) fn push_head(out: &mut BytesMut, object: &str, context: &AnswerContext) {
    push!(out; br#"{"id":""#, context.generation.as_str().as_bytes(), br#"","object":""#, object.as_bytes(),
        br#"","created":"#, u64::try_from(context.created).unwrap_or(0), br#","model":"#, context.model,
        br#","provider":"#, context.provider_name);
}

/// Appends `,"finish_reason":…,"native_finish_reason":…`.
pub(super) fn push_finish(out: &mut BytesMut, finish: &str, native: Option<&str>) {
    push!(out; br#","finish_reason":""#, finish.as_bytes(), br#"","native_finish_reason":"#);
    match native {
        Some(native) => push_string(out, native),
        None => out.put_slice(b"null"),
    }
}

/// A generated id for a tool call without a portable one, unique within its generation.
pub(super) fn generated_call_id(context: &AnswerContext, choice: u64, call: usize) -> String {
    let suffix = context.generation.as_str().rsplit('-').next().unwrap_or_default();
    format!("call_{suffix}_{choice}_{call}")
}

/// Whether a body has halves of characters, which stand for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Characters {
    Whole,
    Halves,
}

struct AnswerRewriter<'a> {
    meter: AnswerMeter,
    out: BytesMut,
    fingerprint: Option<Cow<'a, str>>,
    choices: usize,
    /// Of the first choice.
    finish: Option<Finish>,
}

impl<'a> AnswerRewriter<'a> {
    fn new(context: &AnswerContext, body_bytes: usize) -> AnswerRewriter<'a> {
        let (meter, out) = (AnswerMeter::new(context.clone()), BytesMut::with_capacity(body_bytes + EXTRA_BYTES));
        AnswerRewriter { meter, out, fingerprint: None, choices: 0, finish: None }
    }

    fn body(&mut self, text: &'a str) -> AnswerResult<Characters> {
        let mut cursor = Cursor::new(without_mark(text));
        cursor.pass_byte(b'{')?;
        push_head(&mut self.out, "chat.completion", &self.meter.context);
        let mut first = true;
        while let Some(key) = cursor.key(&mut first)? {
            match &*key.name() {
                // What stands behind `null` may say why there are none.
                b"choices" if cursor.peek()? != b'n' => self.choices(&mut cursor)?,
                b"usage" if cursor.peek()? == b'{' => self.meter.reported = Some(ReportedUsage::read(&mut cursor)?),
                name => {
                    let value = cursor.value()?;
                    self.member(name, key, value)?;
                }
            }
        }
        cursor.end()?;
        if self.choices == 0 {
            return Err(AnswerFault::malformed("no choices"));
        }
        Ok(if cursor.has_lone_surrogate() { Characters::Halves } else { Characters::Whole })
    }

    fn member(&mut self, name: &[u8], key: Raw<'a>, value: Raw<'a>) -> AnswerResult {
        match name {
            b"id" => self.meter.upstream_id = clean_name(value).map(Cow::into_owned),
            b"system_fingerprint" => self.fingerprint = clean_name(value),
            b"error" if error::is_error(value) => return Err(refusal::fault_of_whole(value)),
            b"base_resp" if error::is_refusal(value) => return Err(refusal::fault(value)),
            b"object" | b"created" | b"model" | b"provider" | b"usage" | b"error" | b"choices" => {}
            name if error::is_filter_note(name) => {}
            name => {
                if name == b"service_tier" {
                    self.meter.tier = service_name(value);
                }
                push_member(&mut self.out, key.inner(), value.bytes());
            }
        }
        Ok(())
    }

    fn choices(&mut self, cursor: &mut Cursor<'a>) -> AnswerResult {
        if self.choices > 0 {
            return Err(AnswerFault::malformed("two lists of choices"));
        }
        if cursor.peek()? != b'[' {
            return Err(AnswerFault::malformed("the choices are no list"));
        }
        cursor.pass_byte(b'[')?;
        push_member(&mut self.out, b"choices", b"[");
        let mut first = true;
        while cursor.element(&mut first)? {
            if self.choices >= MAX_CHOICES {
                return Err(AnswerFault::malformed("too many choices"));
            }
            self.choice(cursor)?;
        }
        self.out.put_u8(b']');
        Ok(())
    }

    /// Rewrites one choice. Its index is its position in the list, because some upstreams send the same index for all.
    fn choice(&mut self, cursor: &mut Cursor<'a>) -> AnswerResult {
        if self.choices > 0 {
            self.out.put_u8(b',');
        }
        push!(self.out; br#"{"index":"#, self.choices as u64);
        let mut summary = ChoiceMembers::default();
        cursor.pass_byte(b'{')?;
        let mut first = true;
        while let Some(key) = cursor.key(&mut first)? {
            let name = key.name();
            if *name == *b"message" {
                summary.note_message(self.message(cursor)?)?;
                continue;
            }
            let value = cursor.value()?;
            match &*name {
                b"index" => {}
                b"finish_reason" => summary.finish = value.filled_string(),
                b"native_finish_reason" => summary.native = value.filled_string(),
                b"logprobs" => summary.logprobs = Some(value),
                name if error::is_filter_note(name) => {}
                _ => push_member(&mut self.out, key.inner(), value.bytes()),
            }
        }
        self.end_choice(&summary)
    }

    fn end_choice(&mut self, summary: &ChoiceMembers<'a>) -> AnswerResult {
        let Some(has_calls) = summary.has_calls else {
            return Err(AnswerFault::malformed("a choice without a message"));
        };
        let native = summary.native.or(summary.finish).and_then(clean_name);
        let word = summary.finish.and_then(Raw::text).unwrap_or_default();
        let reason = normalise(&word).after_calls(has_calls);
        push_finish(&mut self.out, self.meter.context.finish_word(reason), native.as_deref());
        push!(self.out; br#","logprobs":"#, summary.logprobs.map_or(&b"null"[..], Raw::bytes), b"}");
        if self.choices == 0 {
            self.finish = Some(Finish { reason, native: native.map(Cow::into_owned) });
        }
        self.choices += 1;
        Ok(())
    }

    /// Rewrites a message; says whether it calls for tools.
    fn message(&mut self, cursor: &mut Cursor<'a>) -> AnswerResult<bool> {
        if cursor.peek()? != b'{' {
            return Err(AnswerFault::malformed("a message that is no object"));
        }
        cursor.pass_byte(b'{')?;
        self.out.put_slice(b",\"message\":{\"role\":\"assistant\"");
        let mut summary = MessageSummary::default();
        let mut first = true;
        while let Some(key) = cursor.key(&mut first)? {
            let value = cursor.value()?;
            self.message_member(key, value, &mut summary)?;
        }
        self.meter.produced.add(summary.measured);
        if let Some(call) = summary.function_call.filter(|_| !summary.has_calls) {
            self.function_call(call)?;
            summary.has_calls = true;
        }
        let thought = summary.thought.map(Raw::bytes).or(summary.parts_reasoning.as_deref());
        let thought = thought.filter(|_| !summary.has_details && !self.meter.context.exclude_reasoning);
        if !summary.has_reasoning
            && let Some(reasoning) = thought.or(summary.empty_reasoning.map(Raw::bytes))
        {
            push_member(&mut self.out, b"reasoning", reasoning);
        }
        if let Some(thought) = thought {
            push_member(&mut self.out, b"reasoning_details", b"[");
            push_reasoning_details(thought, &mut self.out);
            self.out.put_u8(b']');
        }
        // Clients send null back, which is no message unless something else is.
        let speaks = summary.has_calls || summary.has_refusal || summary.has_audio;
        if !summary.has_content {
            push_member(&mut self.out, b"content", if speaks { &b"null"[..] } else { b"\"\"" });
        }
        if !summary.reports_refusal {
            push_member(&mut self.out, b"refusal", b"null");
        }
        self.out.put_u8(b'}');
        Ok(summary.has_calls)
    }

    fn message_member(&mut self, key: Raw<'a>, value: Raw<'a>, summary: &mut MessageSummary<'a>) -> AnswerResult {
        let member = MessageMember::named(&key.name());
        member.check(value)?;
        summary.measured.add(member, &key.name(), value);
        match member {
            MessageMember::Role => return Ok(()),
            _ if value.is_null() && member.is_never_null() => return Ok(()),
            MessageMember::Reasoning if self.meter.context.exclude_reasoning => return Ok(()),
            MessageMember::ToolCalls => return self.tool_calls(value, summary),
            MessageMember::FunctionCall => {
                summary.function_call = Some(value).filter(|call| call.is_object());
                return Ok(());
            }
            MessageMember::Content if value.is_null() => return Ok(()),
            MessageMember::Content => {
                summary.has_content = true;
                if let Some(parts) = ContentParts::read(value) {
                    summary.parts_reasoning = parts.reasoning;
                    push_member(&mut self.out, key.inner(), &parts.text);
                    return Ok(());
                }
            }
            MessageMember::Reasoning => {
                match (&*key.name(), value.is_filled()) {
                    (b"reasoning", false) => {
                        summary.empty_reasoning = Some(value);
                        return Ok(());
                    }
                    (b"reasoning_details", false) => return Ok(()),
                    (b"reasoning", true) => summary.has_reasoning = true,
                    (b"reasoning_details", true) => summary.has_details = true,
                    _ => {}
                }
                summary.thought = summary.thought.or(value.filled_string());
            }
            MessageMember::Refusal => (summary.reports_refusal, summary.has_refusal) = (true, value.is_filled()),
            MessageMember::Audio => summary.has_audio = value.is_filled(),
            _ => {}
        }
        push_member(&mut self.out, key.inner(), value.bytes());
        Ok(())
    }

    fn tool_calls(&mut self, calls: Raw<'a>, summary: &mut MessageSummary<'a>) -> AnswerResult {
        if !calls.is_array() || !calls.is_filled() {
            return Ok(());
        }
        summary.has_calls = true;
        if self.meter.context.legacy_functions {
            return self.first_as_function_call(calls);
        }
        push_member(&mut self.out, b"tool_calls", b"[");
        for (place, call) in calls.elements().enumerate() {
            push_comma(&mut self.out);
            self.tool_call(call, place)?;
        }
        self.out.put_u8(b']');
        Ok(())
    }

    /// Writes the first call in the deprecated form, which has no more.
    fn first_as_function_call(&mut self, calls: Raw<'a>) -> AnswerResult {
        let mut first = FunctionCall::default();
        for call in calls.elements() {
            let part = ToolCallPart::read(call).ok_or_else(|| AnswerFault::malformed("a call that is no object"))?;
            self.meter.produced.text_bytes += part.text_bytes();
            let name = part.name.ok_or_else(|| AnswerFault::malformed("a tool call without a name"))?;
            if first.name.is_none() {
                first.name = Some(name.inner().to_vec());
                first.arguments = part.settled().unwrap_or_else(|| BytesMut::from(part.arguments_text().bytes()));
            }
        }
        if let Some(value) = first.value() {
            push_member(&mut self.out, b"function_call", &value);
        }
        Ok(())
    }

    /// Copies a valid tool call and completes an incomplete one.
    fn tool_call(&mut self, call: Raw<'a>, place: usize) -> AnswerResult {
        let Some(part) = ToolCallPart::read(call) else {
            return Err(AnswerFault::malformed("a call that is no object"));
        };
        self.meter.produced.text_bytes += part.text_bytes();
        let settled = part.settled();
        if part.is_whole() && settled.is_none() {
            self.out.put_slice(call.bytes());
            return Ok(());
        }
        self.new_call(&part, place, settled)
    }

    /// Writes the deprecated form of a call as the client knows it.
    fn function_call(&mut self, call: Raw<'a>) -> AnswerResult {
        let part = ToolCallPart::read_legacy(call);
        self.meter.produced.text_bytes += part.text_bytes();
        let settled = part.settled();
        if !self.meter.context.legacy_functions {
            push_member(&mut self.out, b"tool_calls", b"[");
            self.new_call(&part, 0, settled)?;
            self.out.put_u8(b']');
            return Ok(());
        }
        let Some(name) = part.name else { return Err(AnswerFault::malformed("a function call without a name")) };
        let arguments = settled.unwrap_or_else(|| BytesMut::from(part.arguments_text().bytes()));
        let call = FunctionCall { name: Some(name.inner().to_vec()), arguments };
        call.value().iter().for_each(|value| push_member(&mut self.out, b"function_call", value));
        Ok(())
    }

    fn new_call(&mut self, part: &ToolCallPart<'a>, place: usize, settled: Option<BytesMut>) -> AnswerResult {
        let made_up = generated_call_id(&self.meter.context, self.choices as u64, place);
        let Some(name) = part.name else { return Err(AnswerFault::malformed("a tool call without a name")) };
        let text = part.arguments_text();
        let introduction = ToolCallHead {
            index: None,
            id: part.id.map(Raw::inner).filter(|id| is_portable_id(id)).unwrap_or(made_up.as_bytes()),
            name: name.inner(),
            arguments: settled.as_deref().unwrap_or(text.bytes()),
            is_custom: part.is_custom,
        };
        introduction.push(part, &mut self.out);
        Ok(())
    }

    fn into_answer(mut self) -> Answer {
        self.meter.end = Some(End::Done);
        let outcome = self.meter.outcome(self.finish.as_ref());
        let fingerprint = self.fingerprint.as_deref().unwrap_or(&self.meter.context.fingerprint);
        push!(self.out; br#","system_fingerprint":"#, fingerprint, br#","usage":"#);
        push_usage(&mut self.out, &outcome.usage, outcome.cost.as_ref(), self.meter.reported.as_ref());
        self.out.put_u8(b'}');
        Answer { body: self.out.freeze(), outcome }
    }
}

/// Members of a choice that are written after all others.
#[derive(Default)]
struct ChoiceMembers<'a> {
    /// Whether the message calls for tools; `None` before there was a message.
    has_calls: Option<bool>,
    finish: Option<Raw<'a>>,
    native: Option<Raw<'a>>,
    logprobs: Option<Raw<'a>>,
}

impl ChoiceMembers<'_> {
    fn note_message(&mut self, has_calls: bool) -> AnswerResult {
        match self.has_calls.replace(has_calls) {
            None => Ok(()),
            Some(_) => Err(AnswerFault::malformed("a choice with two messages")),
        }
    }
}

/// Summary of the members of a message read so far.
#[derive(Default)]
struct MessageSummary<'a> {
    measured: OutputLengths,
    /// Whether it has a content other than null.
    has_content: bool,
    /// Whether the member `refusal` is there at all.
    reports_refusal: bool,
    has_refusal: bool,
    has_audio: bool,
    /// Whether `reasoning` is there and says something.
    has_reasoning: bool,
    /// Whether its reasoning has the form that other providers' have.
    has_details: bool,
    has_calls: bool,
    function_call: Option<Raw<'a>>,
    /// Reasoning that is a mere text.
    thought: Option<Raw<'a>>,
    /// Thinking that came as parts of the content.
    parts_reasoning: Option<BytesMut>,
    /// `reasoning` that is null or empty: other reasoning takes its place.
    empty_reasoning: Option<Raw<'a>>,
}
