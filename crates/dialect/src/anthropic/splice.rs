//! The Messages API on both sides: only what must change is rewritten, every other byte passes as it came. What an answer must
//! have and has not is added: counts of tokens, and the reason of its end.

use bytes::{Bytes, BytesMut};
use pointsman_domain::Usage;

use super::{encode::push_usage, finish::stop_reason};
use crate::{
    answer::Outcome,
    body_edits::{BodyEdits, MemberNames, OwnBody},
    claude::models::{Sampling, capabilities},
    json::{JsonFault, Raw, Splice, SpliceAction, object, quoted},
    neutral::{EscapedText, ReportedTokens},
};

/// Least budget for thinking that the API takes.
const LEAST_BUDGET: u64 = 1024;
/// Highest temperature that the API takes.
const MAX_TEMPERATURE: f64 = 1.0;
const NAMES: MemberNames = MemberNames { limit: "max_tokens", sampling: &["temperature", "top_p", "top_k"] };

/// A client's body for an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SplicedRequest {
    pub(crate) body: Bytes,
    /// Whether the limit on output left less room for thinking than was asked for.
    pub(crate) limits_thinking: bool,
}

/// The body of a client for an upstream: with the upstream's name for the model, the limit on output and the defaults of `call`,
/// and without the members for the gateway, at the top and in `metadata`.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_request(body: &str, call: &BodyEdits<'_>) -> Result<SplicedRequest, JsonFault> {
    let (mut thinks, mut limits_thinking) = (false, false);
    let (mut temperature, mut top_p) = (false, false);
    let mut own = call.begin(body, &NAMES, |name, value, splice| {
        match name {
            b"thinking" => {
                thinks = value.kind().is_some_and(|kind| &*kind != "disabled");
                let budget = value.member(b"budget_tokens").and_then(Raw::count);
                if let Some(lower) = budget.and_then(|given| call.lower_than(Some(given.saturating_add(1)))) {
                    limits_thinking = true;
                    limit_thinking(value, u64::from(lower).saturating_sub(1), splice);
                }
            }
            b"temperature" => temperature = !value.is_null(),
            b"top_p" => top_p = !value.is_null(),
            _ => {}
        }
        SpliceAction::Kept
    })?;
    if !call.defaults.is_empty() {
        fit_defaults(&mut own, call.model, thinks, (temperature, top_p));
    }
    Ok(SplicedRequest { body: own.finish(), limits_thinking })
}

/// The body without texts that say nothing in answers of its history, and without answers of nothing else: the API gives such
/// answers, but takes none back.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn without_blank_answers(body: &str) -> Result<Bytes, JsonFault> {
    let is_blank = |text: Option<Raw<'_>>| text.and_then(EscapedText::read).is_some_and(|text| text.is_blank());
    let is_blank_block = |block: Raw<'_>| {
        let [kind, text] = block.pick([b"type", b"text"]);
        kind.is_some_and(|kind| kind.inner() == b"text") && is_blank(text)
    };
    let mut splice = Splice::new(body);
    splice.members(object(body)?, |key, value, splice| {
        if *key.name() != *b"messages" {
            return SpliceAction::Kept;
        }
        splice.elements(value, |message, splice| {
            let [role, content] = message.pick([b"role", b"content"]);
            if role.is_none_or(|role| role.inner() != b"assistant") {
                return SpliceAction::Kept;
            }
            let Some(content) = content.filter(|content| !content.is_null() && !is_blank(Some(*content))) else {
                return SpliceAction::Cut;
            };
            if content.is_array() && content.elements().all(is_blank_block) {
                return SpliceAction::Cut;
            }
            splice.elements(
                content,
                |block, _| if is_blank_block(block) { SpliceAction::Cut } else { SpliceAction::Kept },
            );
            SpliceAction::Kept
        });
        SpliceAction::Kept
    });
    Ok(splice.finish())
}

/// Leaves out the defaults that the model refuses beside what the client gives: `temperature`, `top_p`.
fn fit_defaults(own: &mut OwnBody<'_>, model: &str, thinks: bool, (temperature, top_p): (bool, bool)) {
    let sampling = capabilities(model).sampling;
    // While it thinks, a model takes no other temperature than 1.
    if thinks || sampling == Sampling::No {
        return own.without_defaults();
    }
    let takes_both = sampling == Sampling::Any;
    let temperature = temperature || (!top_p && own.has_default("temperature"));
    own.fit_defaults(|name, value| match name {
        "temperature" => (takes_both || !top_p).then_some(value.min(MAX_TEMPERATURE)),
        "top_p" => (takes_both || !temperature).then_some(value),
        _ => Some(value),
    });
}

/// Gives thinking at most this budget, or turns it off if that is less than the API takes.
fn limit_thinking<'a>(thinking: Raw<'a>, most: u64, splice: &mut Splice<'a>) {
    if most < LEAST_BUDGET {
        return splice.replace(thinking, b"{\"type\":\"disabled\"}");
    }
    if let Some(budget) = thinking.member(b"budget_tokens") {
        splice.replace(budget, most.to_string().as_bytes());
    }
}

/// A whole message with our `id` and `model`. `outcome` tells what it lacks: counts that are missing or no numbers, and the
/// reason of its end.
///
/// # Errors
/// When the body is not a JSON object.
pub(crate) fn splice_answer(body: &str, id: &str, model: &str, outcome: &Outcome) -> Result<Bytes, JsonFault> {
    let message = object(body)?;
    let mut repairs = Repairs::default();
    let usage = || ReportedTokens::from(&outcome.usage);
    repairs.usage = UsageRepair::find(message, &["input_tokens", "output_tokens"], usage);
    if message.member(b"stop_reason").is_none_or(|reason| !reason.is_string()) {
        repairs.stop_reason = Some(stop_reason(outcome.finish));
    }
    let mut splice = Splice::new(body);
    repairs.add_missing(message, &mut splice);
    identify(message, id, model, &repairs, &mut splice);
    Ok(splice.finish())
}

/// The data of a stream's event of this `kind` with our `id` and `model`, and with counts of `usage` where it needs some and
/// has none; `None` if it passes as it came, as all do but `message_start` and an irregular `message_delta`.
///
/// # Errors
/// When the data is not a JSON object.
pub(crate) fn splice_event(
    kind: &str,
    data: &str,
    id: &str,
    model: &str,
    usage: impl FnOnce() -> Usage,
) -> Result<Option<Bytes>, JsonFault> {
    if !matches!(kind, "message_start" | "message_delta") {
        return Ok(None);
    }
    let event = object(data)?;
    let mut splice = Splice::new(data);
    let mut repairs = Repairs::default();
    match kind {
        "message_start" => {
            let Some(message) = event.member(b"message").filter(|message| message.is_object()) else { return Ok(None) };
            let begun =
                || ReportedTokens { prompt: usage().prompt_tokens.max(1), completion: 1, ..ReportedTokens::default() };
            repairs.usage = UsageRepair::find(message, &["input_tokens", "output_tokens"], begun);
            repairs.add_missing(message, &mut splice);
            identify(message, id, model, &repairs, &mut splice);
        }
        _ => {
            // What went in was reported by `message_start`.
            repairs.usage = UsageRepair::find(event, &["output_tokens"], || ReportedTokens::from(&usage()));
            if repairs.usage.is_none() {
                return Ok(None);
            }
            repairs.add_missing(event, &mut splice);
            event.member(b"usage").into_iter().for_each(|value| repairs.complete_usage(value, &mut splice));
        }
    }
    Ok(Some(splice.finish()))
}

/// The `message_delta` of a stream that had none, or none with a reason.
pub(crate) fn final_delta(outcome: &Outcome) -> Bytes {
    let usage = usage_object(&ReportedTokens::from(&outcome.usage));
    let reason = stop_reason(outcome.finish).as_bytes();
    let delta: [&[u8]; 5] = [
        b"{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"",
        reason,
        b"\",\"stop_sequence\":null},\"usage\":",
        &usage,
        b"}",
    ];
    delta.concat().into()
}

/// Whether a `message_delta` tells the reason of the end.
pub(crate) fn reports_reason(event: Raw<'_>) -> bool {
    event.member(b"delta").and_then(|delta| delta.member(b"stop_reason")).is_some_and(Raw::is_string)
}

/// Members that an upstream left out or filled wrongly, as the client gets them.
#[derive(Debug, Default)]
struct Repairs {
    usage: Option<UsageRepair>,
    stop_reason: Option<&'static str>,
}

impl Repairs {
    /// Adds what is not there at all, before the object is visited.
    fn add_missing<'a>(&self, object: Raw<'a>, splice: &mut Splice<'a>) {
        let mut added = BytesMut::new();
        if let Some(usage) = self.usage.as_ref().filter(|_| object.member(b"usage").is_none()) {
            push!(added; br#""usage":"#, usage.whole);
        }
        if let Some(reason) = self.stop_reason.filter(|_| object.member(b"stop_reason").is_none()) {
            added.extend_from_slice(if added.is_empty() { b"" } else { b"," });
            added.extend_from_slice(format!("\"stop_reason\":\"{reason}\"").as_bytes());
        }
        if !added.is_empty() {
            splice.add_first(object, &added);
        }
    }

    fn complete_usage<'a>(&self, value: Raw<'a>, splice: &mut Splice<'a>) {
        if let Some(usage) = &self.usage {
            usage.complete(value, splice);
        }
    }
}

/// What `usage` lacks, and the whole of it where there is none.
#[derive(Debug)]
struct UsageRepair {
    counts: Vec<(&'static str, u64)>,
    whole: Bytes,
}

impl UsageRepair {
    /// What `usage` of the object lacks of the counts `needed`; `None` if it has all of them.
    fn find(object: Raw<'_>, needed: &[&'static str], tokens: impl FnOnce() -> ReportedTokens) -> Option<UsageRepair> {
        let usage = object.member(b"usage");
        let given = |name: &str| usage?.member(name.as_bytes())?.count();
        if needed.iter().all(|name| given(name).is_some()) {
            return None;
        }
        let tokens = tokens();
        let mut counts = vec![("output_tokens", tokens.completion)];
        if needed.contains(&"input_tokens") && given("input_tokens").is_none() {
            let read = given("cache_read_input_tokens").or(tokens.cached).unwrap_or(0);
            let written = given("cache_creation_input_tokens").or(tokens.cache_write).unwrap_or(0);
            // What was cached is no part of it.
            let input = tokens.prompt.saturating_sub(read).saturating_sub(written);
            counts.push(("input_tokens", input));
            counts.push(("cache_read_input_tokens", read));
            counts.push(("cache_creation_input_tokens", written));
        }
        counts.retain(|(name, count)| given(name).is_none() && (*count > 0 || needed.contains(name)));
        let whole = match needed {
            ["output_tokens"] => format!("{{\"output_tokens\":{}}}", tokens.completion).into(),
            _ => usage_object(&tokens),
        };
        Some(UsageRepair { counts, whole })
    }

    /// Completes the value of `usage`, which is replaced if it counts nothing.
    fn complete<'a>(&self, usage: Raw<'a>, splice: &mut Splice<'a>) {
        if !usage.members().any(|(_, value)| value.count().is_some()) {
            return splice.replace(usage, &self.whole);
        }
        let absent = self.counts.iter().filter(|(name, _)| usage.member(name.as_bytes()).is_none());
        let added: Vec<String> = absent.map(|(name, count)| format!("\"{name}\":{count}")).collect();
        if !added.is_empty() {
            splice.add_first(usage, added.join(",").as_bytes());
        }
        for (key, value) in usage.members() {
            if let Some((_, count)) = self.counts.iter().find(|(name, _)| name.as_bytes() == &*key.name()) {
                splice.replace(value, count.to_string().as_bytes());
            }
        }
    }
}

fn usage_object(tokens: &ReportedTokens) -> Bytes {
    let mut out = BytesMut::new();
    push_usage(tokens, &mut out);
    out.freeze()
}

fn identify<'a>(message: Raw<'a>, id: &str, model: &str, repairs: &Repairs, splice: &mut Splice<'a>) {
    for (key, value) in message.members() {
        match &*key.name() {
            b"id" => splice.replace(value, &quoted(id)),
            b"model" => splice.replace(value, &quoted(model)),
            b"usage" => repairs.complete_usage(value, splice),
            b"stop_reason" => {
                if let Some(reason) = repairs.stop_reason {
                    splice.replace(value, &quoted(reason));
                }
            }
            _ => {}
        }
    }
}
