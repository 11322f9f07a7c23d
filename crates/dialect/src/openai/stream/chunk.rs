//! Rewrites one chunk of a stream in one pass: members of the gateway are replaced, all others are copied.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};
use pointsman_domain::FailureKind;

use super::{
    choice::{ChoicePart, ChoiceState, DELTA, DeltaRules, MAX_HELD_BYTES},
    chunk_prefix::ChunkPrefix,
    text_template::TextTemplate,
};
use crate::{
    answer::{AnswerContext, AnswerFault, AnswerResult},
    frame::StreamEvent,
    json::{Cursor, Raw, push_member},
    openai::{
        answer::{MAX_CHOICES, one_line, utf8},
        chunk_parts::chunk_head,
        error,
        finish::clean_name,
        meter::AnswerMeter,
        stream_options::{Progress, StreamOptions},
        usage::{ReportedUsage, service_name},
    },
    refusal,
};

/// What a respelled chunk takes beyond the bytes it came in, mostly.
const EXTRA_BYTES: usize = 256;

/// Everything known about one stream, apart from its framing.
#[derive(Debug)]
pub(crate) struct ChatRewriter {
    pub(super) meter: AnswerMeter,
    pub(super) options: StreamOptions,
    /// The beginning of every event: `data: ` and the members that name the generation.
    pub(super) head: BytesMut,
    pub(super) choices: Vec<ChoiceState>,
    /// The member of a choice with its content.
    pub(super) holder: &'static [u8],
    has_new_report: bool,
    fingerprint: Option<String>,
    memo: ChunkPrefix,
    template: TextTemplate,
}

impl ChatRewriter {
    pub(crate) fn new(context: AnswerContext, options: StreamOptions) -> ChatRewriter {
        ChatRewriter {
            head: chunk_head(&context, &context.fingerprint),
            meter: AnswerMeter::new(context),
            options,
            choices: Vec::new(),
            holder: DELTA,
            has_new_report: false,
            fingerprint: None,
            memo: ChunkPrefix::default(),
            template: TextTemplate::default(),
        }
    }

    /// Takes one event of the upstream and appends what it becomes, if anything, as one event of ours.
    pub(crate) fn event(
        &mut self,
        event: &StreamEvent<'_>,
        progress: &mut Progress,
        out: &mut BytesMut,
    ) -> AnswerResult {
        let data = event.data.trim_ascii();
        if self.is_done() || (data.is_empty() && !event.is_error) {
            return Ok(());
        }
        progress.event = true;
        if event.is_error {
            return Err(refusal::fault_of_data(data));
        }
        if data == b"[DONE]" {
            progress.content = true;
            return self.close(out);
        }
        let (start, mut content) = (out.len(), ChunkContent::default());
        let is_written = match &event.data {
            Cow::Borrowed(_) => self.chunk(data, &mut content, out),
            Cow::Owned(_) => one_line(data).and_then(|data| self.chunk(&data, &mut content, out)),
        };
        if !matches!(is_written, Ok(true)) {
            out.truncate(start);
        }
        is_written.map_err(whole_event)?;
        // Only now: content beside an error is none, and must not stand in the way of a fallback.
        progress.content |= content.has_content;
        self.meter.has_content |= content.is_visible;
        Ok(())
    }

    /// Appends a chunk; says whether there is anything in it to send.
    fn chunk(&mut self, data: &[u8], content: &mut ChunkContent, out: &mut BytesMut) -> AnswerResult<bool> {
        if let Some(text) = self.template.text_of(data) {
            self.template.write(text, out);
            self.meter.produced.text_bytes += text.text_bytes() as u64;
            *content = ChunkContent { has_content: true, is_visible: true };
            return Ok(true);
        }
        out.reserve(self.head.len() + data.len() + EXTRA_BYTES);
        let start = out.len();
        let (mut cursor, mut is_beginning) = match self.memo.rest(data) {
            Some(rest) => (Cursor::new(utf8(rest)?), false),
            None => (self.begin(data)?, true),
        };
        out.put_slice(if is_beginning { &self.head } else { self.memo.ours() });
        let (mut is_written, mut held, mut has_choices, mut text) = (false, None, false, None);
        let mut first = true;
        while let Some(key) = cursor.key(&mut first)? {
            let name = key.name();
            if *name != *b"choices" {
                is_beginning &= self.member(&name, key, &mut cursor, out)?;
                continue;
            }
            if std::mem::replace(&mut has_choices, true) {
                return Err(AnswerFault::malformed("two lists of choices"));
            }
            if std::mem::take(&mut is_beginning) {
                let shared = data.get(..cursor.offset_of(key)).unwrap_or_default();
                self.memo.learn(shared, out.get(start..).unwrap_or_default());
            }
            let choices = self.choices(&mut cursor, content, out)?;
            (is_written, held, text) = (choices.is_written, choices.held, choices.text);
        }
        cursor.end()?;
        if std::mem::take(&mut self.has_new_report) {
            (self.meter.covered, text) = (self.meter.produced, None);
        }
        if let Some(held) = held.filter(|_| !is_written) {
            let members = out.get(start + self.head.len()..).unwrap_or_default();
            self.keep_chunk_members(held, members);
        }
        out.put_slice(b"}\n\n");
        self.template.learn(text, data, out.get(start..).unwrap_or_default());
        Ok(is_written)
    }

    /// Reads a chunk that does not begin like the last ones: what it says about itself, before anything is written.
    fn begin<'a>(&mut self, data: &'a [u8]) -> AnswerResult<Cursor<'a>> {
        let mut cursor = Cursor::new(utf8(data)?);
        cursor.pass_byte(b'{')?;
        let behind_brace = cursor.clone();
        let mut first = true;
        while let Some(key) = cursor.key(&mut first)? {
            let value = cursor.value()?;
            match &*key.name() {
                b"id" if self.meter.upstream_id.is_none() => {
                    self.meter.upstream_id = clean_name(value).map(Cow::into_owned)
                }
                b"system_fingerprint" => self.note_fingerprint(value),
                _ => {}
            }
        }
        Ok(behind_brace)
    }

    fn note_fingerprint(&mut self, value: Raw<'_>) {
        let Some(fingerprint) = clean_name(value) else { return };
        if self.fingerprint.as_deref() != Some(&*fingerprint) {
            self.head = chunk_head(&self.meter.context, &fingerprint);
            self.fingerprint = Some(fingerprint.into_owned());
            self.memo.forget();
        }
    }

    /// Takes a member of the chunk other than its choices; says whether chunks may share it.
    fn member(&mut self, name: &[u8], key: Raw<'_>, cursor: &mut Cursor<'_>, out: &mut BytesMut) -> AnswerResult<bool> {
        if name == b"usage" && cursor.peek()? == b'{' {
            self.meter.reported = Some(ReportedUsage::read(cursor)?);
            self.has_new_report = true;
            return Ok(false);
        }
        let value = cursor.value()?;
        match name {
            b"error" if error::is_error(value) => return Err(refusal::fault(value)),
            b"base_resp" if error::is_refusal(value) => return Err(refusal::fault(value)),
            b"id" | b"object" | b"created" | b"model" | b"provider" | b"system_fingerprint" | b"usage" | b"error" => {}
            name if error::is_filter_note(name) => {}
            name => {
                if name == b"service_tier" {
                    self.meter.tier = service_name(value).or(self.meter.tier);
                }
                push_member(out, key.inner(), value.bytes());
            }
        }
        Ok(true)
    }

    /// Appends the member `choices`, if any of them has something to tell.
    fn choices<'a>(
        &mut self,
        cursor: &mut Cursor<'a>,
        content: &mut ChunkContent,
        out: &mut BytesMut,
    ) -> AnswerResult<WrittenChoices<'a>> {
        let mut choices = WrittenChoices::default();
        if cursor.peek()? == b'n' {
            cursor.value()?;
            return Ok(choices);
        }
        let start = out.len();
        cursor.pass_byte(b'[')?;
        push_member(out, b"choices", b"[");
        let (mut first, mut place) = (true, 0);
        while cursor.element(&mut first)? {
            cursor.peek()?;
            let start = cursor.at();
            let read = self.part(cursor)?;
            let known = self.known_choice(read.index.unwrap_or(place))?;
            choices.text = self.choices.get(known).filter(|choice| place == 0 && choice.has_role).and(read.only_text());
            let (mended, holder, excludes);
            let mut part = read;
            if let Some(choice) = self.choices.get_mut(known)
                && (cursor.has_lone_surrogate() || !choice.halves.is_empty())
            {
                choices.text = None;
                (holder, excludes) = (self.holder, self.meter.context.exclude_reasoning);
                mended = choice.halves.mended(holder, cursor.since(start));
                part = ChoicePart::read(&mut Cursor::new(&mended), holder, excludes)?;
            }
            let before = out.len();
            if choices.is_written {
                out.put_u8(b',');
            }
            let (is_written, held) = self.choice(&part, known, content, out)?;
            if !is_written {
                out.truncate(before);
            }
            choices.is_written |= is_written;
            choices.held = choices.held.or(held);
            place += 1;
        }
        if choices.is_written {
            out.put_u8(b']');
        } else {
            out.truncate(start);
        }
        Ok(choices)
    }

    fn part<'a>(&self, cursor: &mut Cursor<'a>) -> AnswerResult<ChoicePart<'a>> {
        ChoicePart::read(cursor, self.holder, self.meter.context.exclude_reasoning)
    }

    /// Appends one choice; says whether anything was written, and where its finish is held if it just came.
    fn choice(
        &mut self,
        part: &ChoicePart<'_>,
        known: usize,
        content: &mut ChunkContent,
        out: &mut BytesMut,
    ) -> AnswerResult<(bool, Option<usize>)> {
        let Some(choice) = self.choices.get_mut(known) else { return Ok((false, None)) };
        let rules = DeltaRules::new(&self.meter.context, choice.index);
        let respelled = choice.push(part, rules, out)?;
        self.meter.produced.add(part.delta.measured);
        self.meter.produced.text_bytes += respelled.call_bytes;
        content.has_content |= part.delta.has_content || part.finish.is_some();
        content.is_visible |= part.delta.is_visible || part.finish.is_some();
        Ok((respelled.is_written, respelled.is_held.then_some(known)))
    }

    /// The place of the choice with this index, which may be new.
    fn known_choice(&mut self, index: u64) -> AnswerResult<usize> {
        if let Some(place) = self.choices.iter().position(|choice| choice.index == index) {
            return Ok(place);
        }
        if self.choices.len() >= MAX_CHOICES {
            return Err(AnswerFault::malformed("too many choices"));
        }
        self.choices.push(ChoiceState::new(index));
        Ok(self.choices.len() - 1)
    }

    /// Puts the members of a chunk that is not sent aside for the chunk of the finish it brought. Too many of them
    /// are an attack on our memory.
    fn keep_chunk_members(&mut self, choice: usize, members: &[u8]) {
        if members.len() <= MAX_HELD_BYTES
            && let Some(held) = self.choices.get_mut(choice).and_then(|choice| choice.held.as_mut())
        {
            held.chunk_members.put_slice(members);
        }
    }
}

/// What there is in a chunk.
#[derive(Debug, Clone, Copy, Default)]
struct ChunkContent {
    /// Content of the upstream's.
    has_content: bool,
    /// Content for the client, which may not want to see the reasoning.
    is_visible: bool,
}

/// What respelling a list of choices came to.
#[derive(Debug, Clone, Copy, Default)]
struct WrittenChoices<'a> {
    is_written: bool,
    /// Place of the first choice whose finish was put aside.
    held: Option<usize>,
    /// The text of the only choice, if there is nothing else to count in it.
    text: Option<Raw<'a>>,
}

/// An event that was whole cannot be cut: its JSON is broken.
fn whole_event(fault: AnswerFault) -> AnswerFault {
    match fault.kind {
        FailureKind::Truncated => AnswerFault { kind: FailureKind::Malformed, ..fault },
        _ => fault,
    }
}
