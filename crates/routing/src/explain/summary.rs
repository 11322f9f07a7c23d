//! `summary`: a decision, and what became of it, in one sentence for a reader who knows none of the words of routing.
//!
//! At most [`MOST_WORDS`] words, and no codes of the wire: they are in `reason`. Each sentence is made in several forms,
//! the most detailed first, and the first that is short enough is used. Names of providers are cut, so that the last form
//! always is.

use pointsman_domain::{
    AttemptReason, AttemptRecord, Candidate, Catalog, Decision, ExcludedEndpoint, ExclusionReason, FailureKind,
    ScoreUnit, Usd,
};

use super::{
    formatting::{Names, dollars, percent, seconds},
    rescoring::recorded,
    why_chosen::{next_best, order_position, passed_over},
};
use crate::decide::{pending_tool_calls::loses_reasoning, precedence::position_and_grade};

/// Most words of a summary, as a person counts them: what stands between spaces.
pub const MOST_WORDS: usize = 25;
/// Words of a provider's name that are shown.
const MOST_NAME_WORDS: usize = 3;

/// The summary of a decision and of the attempts after it. Without `attempts`, as in a preview, of the plan alone.
pub fn summary_sentence(decision: &Decision, catalog: &Catalog, attempts: &[AttemptRecord]) -> String {
    let Some(choice) = decision.candidates.first() else { return summary_without_choice(&decision.excluded) };
    let names = Names::new(decision, catalog);
    let chosen = shortened(&names.full(choice.index, choice.endpoint));
    let (claim, figures) = (claim(decision, choice), figures(decision, choice));
    let forms = match Ending::of(attempts) {
        Ending::NotCalled => vec![
            format!("{chosen} would be called: {claim}{figures}."),
            format!("{chosen} would be called: {claim}."),
            format!("{chosen} would be called."),
        ],
        Ending::Answered(attempt) if attempt.endpoint == choice.index => vec![
            format!("{chosen} answered: {claim}{figures}."),
            format!("{chosen} answered: {claim}."),
            format!("{chosen} answered."),
        ],
        Ending::Answered(attempt) => {
            let what = first_failure(attempts, choice);
            let (served, cost) = (served_text(attempt, attempts), cost_text(attempt.cost));
            vec![
                format!("{chosen}, {claim}, {what}; {served} instead{cost}."),
                format!("{chosen}, {claim}, {what}; {served} instead."),
                format!("{chosen} {what}; {served} instead{cost}."),
                format!("{chosen} {what}; {served} instead."),
                format!("{served} instead of the first choice."),
            ]
        }
        Ending::BrokeOff(attempt) => vec![format!("{} broke off in the middle of its answer.", name_of(attempt))],
        Ending::ClientLeft(Some(attempt)) => vec![format!("The client left while {} answered.", name_of(attempt))],
        Ending::ClientLeft(None) => vec!["The client left before an answer came.".to_owned()],
        Ending::Failed(last) => all_failed(attempts, last),
    };
    forms.into_iter().find(|form| form.split_whitespace().count() <= MOST_WORDS).unwrap_or_default()
}

/// The summary of a request that no endpoint could take: what stood in the way of most of them.
pub fn summary_without_choice(excluded: &[ExcludedEndpoint]) -> String {
    let counts = ExclusionReason::counts(excluded.iter().map(|excluded| excluded.reason));
    match (counts.first(), excluded.len()) {
        (None, _) => "No endpoint could take the request: none serves what was asked for.".to_owned(),
        (Some((reason, count)), total) if *count == total => {
            format!("No endpoint could take the request: {}.", obstacle(*reason, total, total))
        }
        (Some((reason, count)), total) => {
            format!(
                "No endpoint could take the request: {}, others for other reasons.",
                obstacle(*reason, *count, total)
            )
        }
    }
}

/// `3 of 5 cost more than allowed`
fn obstacle(reason: ExclusionReason, count: usize, total: usize) -> String {
    use ExclusionReason::{
        BlockedModel, CircuitOpen, ConfigFault, ContextLength, DataPolicy, Disabled, Draining, InputModality,
        KeyPolicy, MaxCostPer1kTokens, MaxPrice, ModelExpired, NotAllowedModel, NotFree, OutputModality, Paced,
        PriceUnknown, ProbeInFlight, ProviderIgnored, ProviderNotAllowed, ProviderOff, QualityBelow, QualityUnknown,
        Quantization, RateLimited, Saturated, UnsupportedParameter, WrongEndpoint,
    };
    let what = match reason {
        NotAllowedModel | BlockedModel => "ruled out by the request's list of models",
        ProviderNotAllowed | ProviderIgnored => "ruled out by the request's list of providers",
        NotFree => "not free of charge",
        UnsupportedParameter | InputModality | OutputModality => "without a capability that is needed",
        ContextLength => "too small for the prompt",
        MaxPrice | MaxCostPer1kTokens => "dearer than the request allows",
        PriceUnknown => "without a known price",
        DataPolicy => "against the wanted use of data",
        Quantization => "of another precision than allowed",
        QualityBelow => "of a lower quality than wanted",
        QualityUnknown => "of unknown quality",
        KeyPolicy => "closed to this key",
        ModelExpired => "retired",
        Disabled | ProviderOff => "switched off",
        ConfigFault => "set up wrongly",
        CircuitOpen | ProbeInFlight => "resting after failures",
        RateLimited | Paced => "resting after too many requests",
        Saturated => "full",
        WrongEndpoint => "for another kind of request",
        Draining => "closing, because the gateway shuts down",
    };
    match (count, total) {
        (1, 1) => format!("the only one is {what}"),
        (2, 2) => format!("both are {what}"),
        (count, total) if count == total => format!("all {total} are {what}"),
        (1, total) => format!("1 of {total} is {what}"),
        (count, total) => format!("{count} of {total} are {what}"),
    }
}

/// How the attempts of a request ended.
enum Ending<'a> {
    NotCalled,
    /// This attempt gave the whole answer.
    Answered(&'a AttemptRecord),
    /// This attempt gave a part of the answer.
    BrokeOff(&'a AttemptRecord),
    /// The client left, while this attempt answered or before any did.
    ClientLeft(Option<&'a AttemptRecord>),
    /// All failed, this one last.
    Failed(&'a AttemptRecord),
}

impl Ending<'_> {
    fn of(attempts: &[AttemptRecord]) -> Ending<'_> {
        let is = |attempt: &AttemptRecord, kind: &str| attempt.error_type.as_deref() == Some(kind);
        let Some(last) = attempts.last() else { return Ending::NotCalled };
        if let Some(answered) = attempts.iter().rfind(|attempt| attempt.error_type.is_none() && !attempt.is_set_aside())
        {
            return Ending::Answered(answered);
        }
        match attempts.iter().rfind(|attempt| attempt.served) {
            Some(served) if is(served, AttemptRecord::CANCELLED) => Ending::ClientLeft(Some(served)),
            Some(served) => Ending::BrokeOff(served),
            None if attempts.iter().any(|attempt| is(attempt, AttemptRecord::CANCELLED)) => Ending::ClientLeft(None),
            None => Ending::Failed(last),
        }
    }
}

/// Why the choice was chosen: a noun phrase or a participle that fits behind its name.
fn claim(decision: &Decision, choice: &Candidate) -> String {
    let total = decision.candidates.len() + decision.omitted.len();
    if choice.panic {
        return "tried because every endpoint was resting".to_owned();
    }
    if choice.probe {
        return "tested to see whether it has recovered".to_owned();
    }
    if decision.explored {
        return "tried to learn whether it has become better".to_owned();
    }
    if total == 1 && recorded(decision).count() == 1 {
        return "the only endpoint that could take the request".to_owned();
    }
    let superlative = match choice.unit {
        ScoreUnit::Seconds => "the fastest",
        ScoreUnit::Usd => "the cheapest",
        ScoreUnit::Probability => "the most reliable",
        ScoreUnit::None if decision.quality.is_some() => "the best balance of time, cost and quality",
        ScoreUnit::None => "the best balance of time and cost",
    };
    match passed_over(decision, choice) {
        Some(passed) if order_position(passed) > order_position(choice) => {
            "first in the wanted order of providers".to_owned()
        }
        Some(passed) if loses_reasoning(&passed.inputs) => "which holds the reasoning of this conversation".to_owned(),
        _ if position_and_grade(choice.inputs.tier).1 > 0 => "nearest to the wanted speed".to_owned(),
        Some(_) => format!("{superlative} that {}", wanted_speed(decision)),
        None if choice.saving.is_some() && decision.code == pointsman_domain::DecisionCode::SessionSticky => {
            "whose cache holds this conversation".to_owned()
        }
        None if choice.unit == ScoreUnit::None => format!("{superlative} among {total} endpoints"),
        None => format!("{superlative} of {total} endpoints"),
    }
}

/// `starts to answer within 0.8 s`
fn wanted_speed(decision: &Decision) -> String {
    let parameters = &decision.parameters;
    let bound =
        parameters.preferred_max_latency.and_then(|latency| latency.value.bounds().map(|(_, bound)| bound).next());
    match (bound, parameters.preferred_min_throughput) {
        (Some(bound), None) => format!("starts to answer within {}", seconds(bound)),
        _ => "keeps the wanted speed".to_owned(),
    }
}

/// `, about 0.39 s, 28 % below the next`; empty for a choice that its score did not make.
fn figures(decision: &Decision, choice: &Candidate) -> String {
    if choice.panic || choice.probe || decision.explored {
        return String::new();
    }
    let predicted = &choice.predicted;
    let figure = match choice.unit {
        ScoreUnit::Usd if predicted.cost > 0.0 => format!(", about {}", dollars(predicted.cost)),
        ScoreUnit::Usd => ", free of charge".to_owned(),
        ScoreUnit::Seconds => format!(", about {}", seconds(predicted.total_p50)),
        ScoreUnit::Probability => format!(", {} likely to fail", percent(predicted.failure)),
        ScoreUnit::None => format!(", about {} for {}", seconds(predicted.total_p50), dollars(predicted.cost)),
    };
    let Some(next) = next_best(decision, choice).filter(|_| choice.unit != ScoreUnit::None) else { return figure };
    let less = 100.0 * (1.0 - choice.score / next.score);
    // NaN is in no range.
    if (1.0..99.5).contains(&less) { format!("{figure}, {less:.0} % below the next") } else { figure }
}

/// What kept the choice from answering.
fn first_failure(attempts: &[AttemptRecord], choice: &Candidate) -> String {
    match attempts.iter().find(|attempt| attempt.endpoint == choice.index) {
        Some(attempt) => failure_text(attempt),
        None => "was no longer free".to_owned(),
    }
}

/// `Bolt answered`, or `Bolt, asked in parallel, answered`.
fn served_text(served: &AttemptRecord, attempts: &[AttemptRecord]) -> String {
    let name = name_of(served);
    match attempts.iter().filter(|attempt| attempt.n < served.n && has_failed(attempt)).count() {
        _ if served.reason == AttemptReason::Hedge => format!("{name}, asked in parallel, answered"),
        0 | 1 => format!("{name} answered"),
        failures => format!("after {failures} failures {name} answered"),
    }
}

/// ` for $0.00065`
fn cost_text(cost: Option<Usd>) -> String {
    match cost {
        Some(cost) if !cost.is_zero() => format!(" for {}", dollars(cost.to_f64())),
        _ => String::new(),
    }
}

fn all_failed(attempts: &[AttemptRecord], last: &AttemptRecord) -> Vec<String> {
    let (name, failure) = (name_of(last), failure_text(last));
    match attempts.len() {
        0 | 1 => vec![format!("No answer: {name} {failure}."), format!("No answer: {name} failed.")],
        count => vec![
            format!("No answer after {count} attempts: {name}, the last, {failure}."),
            format!("No answer after {count} attempts."),
        ],
    }
}

/// What an attempt did instead of answering.
fn failure_text(attempt: &AttemptRecord) -> String {
    let kind = attempt.error_type.as_deref().unwrap_or_default();
    let known = FailureKind::ALL.into_iter().find(|known| known.as_str() == kind);
    match (kind, known, attempt.status) {
        (AttemptRecord::LOST_RACE, ..) => "was late".to_owned(),
        (AttemptRecord::CANCELLED, ..) => "was cancelled".to_owned(),
        (_, Some(FailureKind::RateLimited), _) => "was rate limited".to_owned(),
        (_, Some(FailureKind::Auth | FailureKind::Forbidden), _) => "refused the gateway's account".to_owned(),
        (_, Some(FailureKind::ContentPolicy), _) => "refused the content".to_owned(),
        (_, Some(FailureKind::ContextLength | FailureKind::TooLarge | FailureKind::OverLimit), _) => {
            "found the request too large".to_owned()
        }
        (_, _, Some(status)) if status >= 400 => format!("failed with error {status}"),
        (_, Some(FailureKind::Connect | FailureKind::Tls | FailureKind::Shortage), _) => {
            "could not be reached".to_owned()
        }
        (_, Some(FailureKind::Timeout | FailureKind::Deadline), _) => "took too long".to_owned(),
        (_, Some(FailureKind::Reset | FailureKind::Truncated), _) => "broke off".to_owned(),
        _ => "gave no usable answer".to_owned(),
    }
}

fn has_failed(attempt: &AttemptRecord) -> bool {
    let other = [AttemptRecord::LOST_RACE, AttemptRecord::CANCELLED];
    attempt.error_type.as_deref().is_some_and(|kind| !other.contains(&kind))
}

fn name_of(attempt: &AttemptRecord) -> String {
    shortened(&super::formatting::full_name_of(attempt))
}

/// `model on provider` with the first words of a long name.
fn shortened(name: &str) -> String {
    let most = MOST_NAME_WORDS + 2;
    match name.split_whitespace().count() {
        words if words <= most => name.to_owned(),
        _ => format!("{}…", name.split_whitespace().take(most).collect::<Vec<_>>().join(" ")),
    }
}
