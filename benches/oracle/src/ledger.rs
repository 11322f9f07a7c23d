//! What a simulated run leaves in a ledger, and what that says of another policy.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_domain::{
    AttemptRecord, Decision, FailureKind, Generation, GenerationId, GenerationStatus, RoutingPolicy, Usd,
};
use pointsman_routing::explain::{
    diff::{Calibration, Comparison, Side},
    estimate::{Position, Sample},
};

use crate::{
    engine::Tried,
    rules::{Logged, logged},
    world::World,
};

/// What the records of a run under one policy say of another one. Of so many requests one is taken.
#[must_use]
pub fn sample(world: &World, [policy, other]: [&RoutingPolicy; 2], every: usize) -> Sample {
    let logged = logged(world, policy.clone());
    let after = Side { catalog: Arc::clone(&logged.catalog), policy: Arc::new(other.clone()), objective: None };
    let comparison = Comparison::new(&logged.catalog, &logged.policy, None, &after);
    observed(generations(&logged).iter().step_by(every), &comparison)
}

/// What these records say of another configuration.
pub fn observed<'r>(records: impl Iterator<Item = &'r (usize, Generation)>, comparison: &Comparison) -> Sample {
    let mut sample = Sample::default();
    for (id, generation) in records {
        let position = Position { draw: *id as u64, cluster: *id as u64 };
        sample.observe(comparison, generation, &Calibration::default(), position);
    }
    sample.sort();
    sample
}

/// The records of a run, with the numbers of their requests.
#[must_use]
pub fn generations(logged: &Logged) -> Vec<(usize, Generation)> {
    let mut tried: BTreeMap<usize, Vec<&Tried>> = BTreeMap::new();
    for one in &logged.run.attempts {
        tried.entry(one.request).or_default().push(one);
    }
    let tried = |id: &usize| tried.get(id).map_or(&[][..], Vec::as_slice);
    let generation = |(id, decision): &(usize, _)| (*id, generation(logged, *id, decision, tried(id)));
    logged.decisions.iter().map(generation).collect()
}

/// The record of a request. Its dollars are those of the attempt that ended it.
#[expect(clippy::disallowed_methods, reason = "simulated dollars")]
fn generation(logged: &Logged, id: usize, decision: &Decision, tried: &[&Tried]) -> Generation {
    let served = &logged.run.served[id];
    let milliseconds = |seconds: f64| (seconds * 1e3).round() as u64;
    let attempt = |(n, one): (u32, &&Tried)| {
        let kind = if one.outrun { Some(AttemptRecord::LOST_RACE) } else { one.failure.map(FailureKind::as_str) };
        let (started_ms, is_last) = (milliseconds(one.at - served.at), kind.is_none());
        AttemptRecord {
            n,
            endpoint: one.endpoint as u32,
            error_type: kind.map(Into::into),
            started_ms,
            duration_ms: milliseconds(one.failed.unwrap_or(served.at + served.seconds) - one.at),
            cost: Some(Usd::ZERO),
            served: is_last && served.answered,
            ..AttemptRecord::default()
        }
    };
    let mut attempts: Vec<AttemptRecord> = (1..).zip(tried).map(attempt).collect();
    let ended = attempts.iter().position(|attempt| attempt.served).unwrap_or(attempts.len().saturating_sub(1));
    if let Some(attempt) = attempts.get_mut(ended) {
        attempt.cost = Usd::from_f64(served.cost);
    }
    let at_ms = (served.at * 1e3) as i64;
    let (policy, catalog) = (Arc::clone(&logged.policy), Arc::clone(&logged.catalog));
    Generation {
        status: if served.answered { GenerationStatus::Completed } else { GenerationStatus::Failed },
        attempts,
        ..Generation::admitted(
            GenerationId::new(1, [id as u64, 2, 3]),
            at_ms,
            Arc::new(decision.clone()),
            policy,
            catalog,
        )
    }
}
