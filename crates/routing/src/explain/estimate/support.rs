//! A recorded request as evidence on another configuration: how likely its choice was, how likely it would have been, and what
//! came of it.

use pointsman_domain::{AttemptRecord, ExclusionReason, Generation, GenerationStatus, Usd};

use super::{
    observation::LEAST_PROBABILITY,
    sample::{Labels, LoggedRequest, Measured, Sample},
};
use crate::explain::diff::{
    Calibration, Choice, Choices, Comparison, Figures, Grade,
    units::{dollars_of, from_nano, from_pico},
};

const HOUR_MS: i64 = 3_600_000;

/// Where a record lies among the others.
#[derive(Debug, Clone, Copy)]
pub struct Position {
    /// Hash of its id.
    pub draw: u64,
    /// The same for records that depend on each other.
    pub cluster: u64,
}

impl Sample {
    /// Adds a recorded request. Nothing happens if its decision does not come out as it was made.
    pub fn observe(
        &mut self,
        comparison: &Comparison,
        generation: &Generation,
        calibration: &Calibration,
        position: Position,
    ) {
        let Some(choices) = comparison.choices(generation, calibration) else { return };
        let is_told = choices.grade == Grade::Exact;
        for choice in &choices.all {
            if is_told {
                self.shifts.add(choice.endpoint, choice.probabilities, choice.load);
            }
        }
        for excluded in generation.decision.excluded.iter().filter(|excluded| is_limit(excluded.reason)) {
            self.shifts.add_refusal(excluded.endpoint);
        }
        self.add_chance(cost_of_chance(&choices));
        self.add(logged(generation, &choices, position), labels(generation));
    }
}

/// By how much more the choice was expected to come to than the one without chance.
fn cost_of_chance(choices: &Choices) -> [i128; 3] {
    let figures = |endpoint| choices.all.iter().find(|choice| Some(choice.endpoint) == endpoint).map(|one| one.figures);
    let both = figures(choices.made).zip(figures(choices.calm));
    both.map_or([0; 3], |(made, calm)| {
        let difference = |of: fn(&Figures) -> i64| i128::from(of(&made)) - i128::from(of(&calm));
        [difference(|one| one.cost), difference(|one| one.failure), difference(|one| one.total)]
    })
}

/// Whether an endpoint was left out because it could not carry more.
pub(in crate::explain) const fn is_limit(reason: ExclusionReason) -> bool {
    matches!(reason, ExclusionReason::Paced | ExclusionReason::RateLimited | ExclusionReason::Saturated)
}

fn labels(generation: &Generation) -> Labels {
    let decision = &generation.decision;
    let hour = generation.created_ms.div_euclid(HOUR_MS);
    let mut labels = vec![
        ("objective", decision.objective.value.as_str().to_owned()),
        ("alias", decision.router.clone().unwrap_or_else(|| "(none)".to_owned())),
        ("hour", hour.to_string()),
    ];
    labels.extend(decision.task_class.map(|class| ("class", class.task.as_str().to_owned())));
    labels
}

/// A choice that is made often enough to say something.
fn is_supported(choice: &Choice) -> bool {
    choice.probabilities[0] >= LEAST_PROBABILITY
}

fn logged(generation: &Generation, choices: &Choices, position: Position) -> LoggedRequest {
    let is_told = choices.grade == Grade::Exact;
    let made = choices.all.iter().find(|choice| Some(choice.endpoint) == choices.made);
    let weight = match made {
        _ if !is_told => 0.0,
        Some(made) if is_supported(made) => made.probabilities[1] / made.probabilities[0],
        Some(_) => 0.0,
        None => choices.none[0] * choices.none[1],
    };
    let unsupported = match is_told {
        true => {
            let others = choices.all.iter().filter(|choice| !is_supported(choice));
            // Where no endpoint could serve, it is another configuration's choice to serve, and the other way round.
            let none = if choices.none[0] > 0.0 { 0.0 } else { choices.none[1] };
            others.map(|choice| choice.probabilities[1]).sum::<f64>() + none
        }
        false => 1.0,
    };
    LoggedRequest {
        draw: position.draw,
        cluster: position.cluster,
        choice: choices.made,
        weight,
        unsupported,
        has_chance: choices
            .all
            .iter()
            .any(|choice| is_supported(choice) && choice.probabilities[0] < 1.0 - LEAST_PROBABILITY),
        outcomes: outcomes(generation).map(|outcome| measured(choices, is_told, outcome)),
    }
}

/// What a request came to: a figure, and how it is read from a prediction.
struct Outcome {
    /// `None`: requests of this kind have none. `Some(None)`: it is not known.
    value: Option<Option<f64>>,
    of: fn(&Figures) -> f64,
    /// The value of a request that no endpoint can serve.
    unserved: f64,
}

fn outcomes(generation: &Generation) -> [Outcome; 4] {
    let served = generation.attempts.iter().rfind(|attempt| attempt.served);
    let seconds = |ms: u64| ms as f64 / 1e3;
    let is_over = matches!(generation.status, GenerationStatus::Completed);
    let total = served.filter(|_| is_over).map(|attempt| seconds(attempt.started_ms + attempt.duration_ms));
    let spend: Option<Usd> = generation.attempts.iter().map(spent).sum();
    let is_served = !generation.decision.candidates.is_empty();
    let time = |value| if is_served { Some(value) } else { None };
    let first_token = generation.latency_ms.map(seconds);
    [
        Outcome { value: Some(spend.map(dollars_of)), of: |figures| from_pico(figures.cost.into()), unserved: 0.0 },
        Outcome {
            value: Some(Some(f64::from(u8::from(generation.status.is_failure())))),
            of: |figures| from_pico(figures.failure.into()),
            unserved: 1.0,
        },
        Outcome {
            value: if generation.streamed { time(first_token) } else { None },
            of: |figures| from_nano(figures.first_token.into()),
            unserved: 0.0,
        },
        // A client that left did not hear the end.
        Outcome {
            value: if generation.status == GenerationStatus::Cancelled { None } else { time(total) },
            of: |figures| from_nano(figures.total.into()),
            unserved: 0.0,
        },
    ]
}

/// Dollars, failure and seconds to the end, as far as they are known.
pub(in crate::explain) fn outcome_values(generation: &Generation) -> [Option<f64>; 3] {
    let [spend, failure, _, total] = outcomes(generation).map(|outcome| outcome.value.flatten());
    [spend, failure, total]
}

/// What an attempt cost. One that was refused cost nothing, whatever its price.
fn spent(attempt: &AttemptRecord) -> Option<Usd> {
    attempt.cost.or_else(|| (!attempt.served && attempt.first_byte_ms.is_none()).then_some(Usd::ZERO))
}

fn measured(choices: &Choices, is_told: bool, Outcome { value, of, unserved }: Outcome) -> Measured {
    let Some(value) = value else { return Measured::NotApplicable };
    let Some(outcome) = value else { return Measured::Missing };
    let (mut expected, mut expected_unsupported, mut predicted) = (0.0, 0.0, unserved);
    let mut own = choices.none[0] * unserved;
    for choice in &choices.all {
        let figure = of(&choice.figures);
        own += choice.probabilities[0] * figure;
        let sum = if is_told && is_supported(choice) { &mut expected } else { &mut expected_unsupported };
        *sum += choice.probabilities[1] * figure;
        if Some(choice.endpoint) == choices.made {
            predicted = figure;
        }
    }
    let sum = if is_told && choices.none[0] > 0.0 { &mut expected } else { &mut expected_unsupported };
    *sum += choices.none[1] * unserved;
    Measured::Known { outcome, predicted, own, expected, expected_unsupported }
}
