//! What is wrong with a whole answer, as far as its structure proves it.
//!
//! The answer is read once more, as events of the neutral form, whichever API it came in, and so is the request. Nothing judges
//! what an answer says. Where a proof is not possible there is no verdict: a request with tools of the provider's own, an
//! answer that the caller's stop text or limit may have cut, a schema beyond the supported keywords.

mod schema;

use std::cell::Cell;

use bytes::Bytes;
use pointsman_domain::{BrokenAnswer, CascadeSignal, FinishReason};

use super::{
    answer::{AnswerContext, AnswerFault, Outcome},
    json::{JsonFault, Raw},
    neutral::{AnswerEvent, AnswerFormat, AnswerSink, Conversation, Role, ToolKind, lone_halves_replaced},
    openai::{EventMeter, request::ChatRequest, utf8},
    outgoing::OutgoingBody,
    whole_answer::decode,
};

/// Tokens that may be missing from an answer that has reached its limit, because providers count its end and its reasoning
/// differently; of a limit above 320 a twentieth.
const MAY_BE_MISSING: u64 = 16;

/// What is wrong with the answer `body` to `request`, of what `on` names. `None` if nothing is, or if nothing can be proved.
pub fn broken_answer(
    (body, outgoing): (&Bytes, &OutgoingBody),
    request: &ChatRequest,
    on: &[CascadeSignal],
    (context, outcome): (&AnswerContext, &Outcome),
) -> Option<BrokenAnswer> {
    let has_own_tools = request.client.as_ref().is_some_and(|client| client.native_feature.is_some());
    if has_own_tools || request.not_understood().is_some() {
        return None;
    }
    let asked = request.conversation(&mut |_| true)?;
    let text = lone_halves_replaced(utf8(body).ok()?);
    let mut choices = Choices::default();
    let mut meter =
        EventMeter::from_translation(outgoing.translation.as_ref(), outgoing.names.clone(), context.clone());
    decode(&text, outgoing.translation.as_ref(), &mut meter, Some(&mut choices)).ok()?;
    let check = Check { asked: &asked, request, on, outcome, steps: Cell::new(schema::MOST_STEPS) };
    let mut verdicts = choices.0.iter().map(|choice| check.verdict(choice));
    // Of several answers one that is whole is enough.
    let first = verdicts.next()??;
    verdicts.all(|verdict| verdict.is_some()).then_some(first)
}

/// The answers as they were read.
#[derive(Default)]
struct Choices(Vec<Choice>);

#[derive(Default)]
struct Choice {
    index: u32,
    text: String,
    has_image: bool,
    is_refused: bool,
    calls: Vec<Call>,
    finish: Option<FinishReason>,
}

struct Call {
    name: String,
    kind: ToolKind,
    arguments: String,
}

impl Choices {
    /// The answer of this index, which may be any number. The meter bounds how many there are.
    fn at(&mut self, index: u32) -> Result<&mut Choice, AnswerFault> {
        let known = self.0.iter().position(|choice| choice.index == index);
        let place = known.unwrap_or_else(|| {
            self.0.push(Choice { index, ..Choice::default() });
            self.0.len() - 1
        });
        self.0.get_mut(place).ok_or_else(|| AnswerFault::malformed("too many choices"))
    }
}

impl AnswerSink for Choices {
    fn event(&mut self, event: AnswerEvent<'_>) -> Result<(), AnswerFault> {
        match event {
            AnswerEvent::Text { choice, text } => self.at(choice)?.text.push_str(&text.unescaped()),
            AnswerEvent::Refusal { choice, text } => self.at(choice)?.is_refused |= !text.is_empty(),
            AnswerEvent::ToolCallStarted { choice, name, kind, .. } => {
                let call = Call { name: name.unescaped().into_owned(), kind, arguments: String::new() };
                self.at(choice)?.calls.push(call);
            }
            AnswerEvent::ToolCallArguments { choice, call, text } => {
                if let Some(call) = self.at(choice)?.calls.get_mut(call as usize) {
                    call.arguments.push_str(&text.unescaped());
                }
            }
            AnswerEvent::Image { choice, .. } => self.at(choice)?.has_image = true,
            AnswerEvent::Finished { choice, finish, .. } => self.at(choice)?.finish = Some(finish),
            _ => {}
        }
        Ok(())
    }
}

struct Check<'c> {
    asked: &'c Conversation<'c>,
    request: &'c ChatRequest,
    on: &'c [CascadeSignal],
    outcome: &'c Outcome,
    /// Left for the schema.
    steps: Cell<usize>,
}

impl Check<'_> {
    fn verdict(&self, choice: &Choice) -> Option<BrokenAnswer> {
        let is_short = choice.finish == Some(FinishReason::Length);
        if choice.is_refused || choice.finish == Some(FinishReason::ContentFilter) {
            return self.signal(CascadeSignal::Refusal, true);
        }
        if is_short && !self.is_below_limit() {
            return None;
        }
        let is_text = choice.calls.is_empty();
        self.signal(CascadeSignal::Length, is_short)
            .or_else(|| choice.calls.iter().find_map(|call| self.broken_call(call)))
            .or_else(|| self.signal(CascadeSignal::Empty, is_text && self.is_empty(choice)))
            .or_else(|| if is_text { self.broken_json(choice.text.trim()) } else { None })
    }

    fn signal(&self, signal: CascadeSignal, holds: bool) -> Option<BrokenAnswer> {
        (holds && self.on.contains(&signal)).then_some(BrokenAnswer { signal, place: None })
    }

    /// Whether an answer that was cut off is surely shorter than the caller's own limit, in tokens or in money.
    fn is_below_limit(&self) -> bool {
        let usage = &self.outcome.usage;
        if self.request.routing.max_cost.is_some() {
            return false;
        }
        let Some(limit) = self.request.max_tokens.map(u64::from) else { return true };
        let missing = limit.saturating_sub(usage.completion_tokens);
        self.request.n == 1 && !usage.estimated && missing > MAY_BE_MISSING.max(limit / 20)
    }

    /// What is wrong with a call: its tool was not declared, or its arguments are no JSON or break the schema of the tool.
    fn broken_call(&self, call: &Call) -> Option<BrokenAnswer> {
        let on = self.signal(CascadeSignal::ToolArguments, true)?;
        let Some(tool) = self.asked.tools.iter().find(|tool| *tool.name.unescaped() == *call.name) else {
            return Some(on);
        };
        if [call.kind, tool.kind].contains(&ToolKind::Custom) {
            return None;
        }
        // Some providers write no text where there are no arguments.
        let arguments = Some(call.arguments.trim()).filter(|text| !text.is_empty()).unwrap_or("{}");
        if let Err(fault) = Raw::whole(arguments) {
            return is_wrong(fault).then_some(on);
        }
        let place = schema::violation(tool.parameters?.written(), arguments, &self.steps)?;
        Some(BrokenAnswer { place: Some(place), ..on })
    }

    /// Whether there is nothing, though nothing that the caller asked for explains it.
    fn is_empty(&self, choice: &Choice) -> bool {
        let is_bare = choice.text.trim().is_empty() && !choice.has_image && self.outcome.images == 0;
        let may_be_other = self.asked.parameter("modalities").is_some() || !self.asked.stop.is_empty();
        is_bare && !may_be_other && !self.is_continued()
    }

    /// Whether the answer continues a message of the model, of which it is a part.
    fn is_continued(&self) -> bool {
        self.asked.turns.last().is_some_and(|turn| turn.role == Role::Assistant)
    }

    fn broken_json(&self, text: &str) -> Option<BrokenAnswer> {
        if matches!(self.asked.format, AnswerFormat::Text) || self.is_continued() {
            return None;
        }
        if let Err(fault) = Raw::whole(text) {
            return self.signal(CascadeSignal::InvalidJson, is_wrong(fault));
        }
        let AnswerFormat::Schema { schema, .. } = &self.asked.format else { return None };
        let on = self.signal(CascadeSignal::Schema, true)?;
        let place = schema::violation(schema.written(), text, &self.steps)?;
        Some(BrokenAnswer { place: Some(place), ..on })
    }
}

/// Whether the text is surely no JSON: one that is nested too deeply was not read.
const fn is_wrong(fault: JsonFault) -> bool {
    matches!(fault, JsonFault::Truncated | JsonFault::Invalid)
}
