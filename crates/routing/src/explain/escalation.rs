//! What became of a broken answer of an alias with a cascade, in words.

use pointsman_domain::{
    AttemptReason, AttemptRecord, BrokenAnswer, CascadeSignal, Catalog, Decision, QualityFloor, Source, Sourced,
};

use super::formatting::dollars;

/// ` Escalated: the answer of meadow/small broke the schema at /items/3/price (number expected). meadow/large answered; both are billed:
/// $0.0001 + $0.0008.` `None` where no answer was broken.
pub fn escalated_sentence(decision: &Decision, catalog: &Catalog, attempts: &[AttemptRecord]) -> Option<String> {
    let broken = |attempt: &AttemptRecord| {
        let cause = attempt.cause.as_deref().filter(|_| attempt.error_type.is_none())?;
        BrokenAnswer::of_cause(cause)
    };
    let (first, broken) = attempts.iter().find_map(|attempt| Some((attempt, broken(attempt)?)))?;
    let what = format!("the answer of {} {}", first.model, words(&broken));
    let Some(second) = attempts.iter().find(|attempt| attempt.reason == AttemptReason::Cascade) else {
        let least = least_quality(decision, catalog, first).map(quality_text).unwrap_or_default();
        return Some(format!(
            " Not escalated, though {what}: no endpoint could be asked for another answer{least}, or no budget was left."
        ));
    };
    let end = match second.error_type.as_deref() {
        None => "answered".to_owned(),
        Some(AttemptRecord::CANCELLED) if first.served => {
            "gave more than there was room for, so the first answer was sent".to_owned()
        }
        Some(AttemptRecord::CANCELLED) => "was asked when the client left".to_owned(),
        Some(kind) => {
            let status = second.status.filter(|status| *status >= 400).map(|status| status.to_string());
            format!("failed ({}), so the first answer was sent", status.as_deref().unwrap_or(kind))
        }
    };
    let costs = first.cost.zip(second.cost).map(|(first, second)| [first, second].map(|cost| dollars(cost.to_f64())));
    let bill = costs.map_or(String::new(), |[first, second]| format!(": {first} + {second}"));
    Some(format!(" Escalated: {what}. {} {end}; both are billed{bill}.", second.model))
}

/// The least quality that the answer after `first` has to have.
fn least_quality(decision: &Decision, catalog: &Catalog, first: &AttemptRecord) -> Option<QualityFloor> {
    let candidate = decision.plan().find(|candidate| candidate.index == first.endpoint)?;
    let (_, cascade) = decision.cascade_of(candidate, catalog)?;
    let of_request = decision.parameters.min_quality;
    // The alias that is asked next goes before the alias and the key of the request.
    let of_next = catalog.aliases.iter().find(|alias| alias.id == cascade.to).and_then(|alias| alias.min_quality);
    let is_own = of_request.is_some_and(|Sourced { source, .. }| source < Source::Alias);
    of_next.filter(|_| !is_own).or_else(|| of_request.map(|least| least.value))
}

/// ` (min_quality is 0.8)`
fn quality_text(least: QualityFloor) -> String {
    match least {
        QualityFloor::Mean(least) => format!(" (min_quality is {least})"),
        QualityFloor::Tenth(least) => format!(" (min_quality is {{ p10 = {least} }})"),
    }
}

/// What is wrong with an answer, as what is said of it.
fn words(BrokenAnswer { signal, place }: &BrokenAnswer) -> String {
    match (signal, place) {
        (CascadeSignal::Empty, _) => "was empty".to_owned(),
        (CascadeSignal::Length, _) => "was cut off below the limit of the request".to_owned(),
        (CascadeSignal::InvalidJson, _) => "was no JSON".to_owned(),
        (CascadeSignal::Schema, Some(place)) => format!("broke the schema at {place}"),
        (CascadeSignal::Schema, None) => "broke the schema".to_owned(),
        (CascadeSignal::ToolArguments, Some(place)) => {
            format!("called a tool with arguments that break its schema at {place}")
        }
        (CascadeSignal::ToolArguments, None) => {
            "called a tool that was not declared, or with arguments that are no JSON".to_owned()
        }
        (CascadeSignal::Refusal, _) => "was refused or filtered by its provider".to_owned(),
    }
}
