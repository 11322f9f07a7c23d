//! Attempts written as a line: `500, hedge lost_race` is two, at the first two of the plan.
//!
//! | word | meaning |
//! |---|---|
//! | `hedge`, `last_resort`, `probe`, `panic` | why it was started; otherwise the first is `first` and the others are `fallback` |
//! | `ok`, `500`, `timeout`, `lost_race`, `cancelled` | how it ended: a status, or the word in the record |
//! | `refused` | why no connection came about |
//! | `partly` | the client had seen some of it |
//! | `skip` | whoever stood next in the plan was not called |

use pointsman_domain::{AttemptReason, AttemptRecord, Decision, Usd};

use super::World;

/// The attempts of this line, after a decision. None in an empty line.
pub fn attempts(world: &World, decision: &Decision, line: &str) -> Vec<AttemptRecord> {
    let mut place = 0;
    let entries = line.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let attempt = |(n, entry): (u32, &str)| {
        place += entry.split(' ').filter(|word| *word == "skip").count();
        let endpoint = decision.at(place).expect("somebody in the plan").index;
        place += 1;
        attempt(world, n, endpoint, entry)
    };
    (1..).zip(entries).map(attempt).collect()
}

fn attempt(world: &World, n: u32, endpoint: u32, entry: &str) -> AttemptRecord {
    let catalog = world.catalog();
    let place = catalog.endpoint(endpoint).expect("an endpoint");
    let provider = catalog.provider_of(place).expect("a provider");
    let mut attempt = AttemptRecord {
        n,
        reason: if n == 1 { AttemptReason::First } else { AttemptReason::Fallback },
        endpoint,
        model: catalog.model_of(place).expect("a model").id.shared(),
        provider_name: provider.name.clone(),
        provider_slug: provider.slug.shared(),
        duration_ms: 100,
        cost: Some(Usd::ZERO),
        ..AttemptRecord::default()
    };
    entry.split(' ').for_each(|word| note(&mut attempt, word));
    attempt
}

fn note(attempt: &mut AttemptRecord, word: &str) {
    match word {
        "hedge" => attempt.reason = AttemptReason::Hedge,
        "last_resort" => attempt.reason = AttemptReason::LastResort,
        "probe" => attempt.reason = AttemptReason::Probe,
        "panic" => attempt.reason = AttemptReason::Panic,
        "ok" => (attempt.status, attempt.served) = (Some(200), true),
        "partly" => attempt.served = true,
        "refused" => attempt.cause = Some("refused".into()),
        "lost_race" => attempt.error_type = Some(AttemptRecord::LOST_RACE.into()),
        "cancelled" => attempt.error_type = Some(AttemptRecord::CANCELLED.into()),
        "timeout" => attempt.error_type = Some("timeout".into()),
        "connect" => attempt.error_type = Some("connect".into()),
        "truncated" => (attempt.status, attempt.error_type) = (Some(200), Some("truncated".into())),
        "skip" => {}
        status => {
            attempt.status = Some(status.parse().expect("a status"));
            attempt.error_type = Some("server".into());
        }
    }
}
