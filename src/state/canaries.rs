//! What has become of the parts of divided aliases: how many requests each got, and which canaries have fallen back.
//!
//! Only requests whose alias divides them come here. A canary falls back for as long as its definition stays the same and the
//! process runs; each replica judges by its own requests.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;
use pointsman_base::clock;
use pointsman_domain::{Canary, Generation, GenerationStatus, SplitPart, TakenSplit, Target};
use pointsman_routing::{
    split::guard::{Breach, Ended, Evidence},
    stats::seeded_hash,
};

/// Salt of the draws, apart from those of exploration noise.
const DRAWS: u64 = 0x7370_6c69_7473;

/// The state of all divided aliases. One per process; it survives a reload.
pub struct Canaries {
    seed: u64,
    drawn: AtomicU64,
    aliases: Mutex<HashMap<String, DividedAlias>>,
}

/// The requests of one alias.
#[derive(Debug, Clone, Default)]
pub struct DividedAlias {
    /// Ended requests of each part, in the order of their first.
    pub parts: Vec<(SplitPart, u64)>,
    /// Its canary.
    pub trial: Option<Trial>,
}

/// A canary in progress, or fallen back.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Its definition.
    pub canary: Canary,
    /// What is known of it.
    pub evidence: Evidence,
    /// Why and when it fell back.
    pub fallen: Option<Fallen>,
}

/// The end of a canary.
#[derive(Debug, Clone, Copy)]
pub struct Fallen {
    /// The limit that it exceeded.
    pub breach: Breach,
    /// Unix milliseconds.
    pub at_ms: i64,
}

impl Canaries {
    /// No alias was asked for yet. Requests that nothing keeps together are dealt out with `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Canaries {
        Canaries { seed: seed ^ DRAWS, drawn: AtomicU64::new(0), aliases: Mutex::default() }
    }

    /// The place of a request that nothing keeps with others.
    pub fn draw(&self) -> u16 {
        (seeded_hash(self.seed, self.drawn.fetch_add(1, Relaxed)) >> 48) as u16
    }

    /// Whether this canary of the alias has fallen back.
    #[must_use]
    pub fn has_stopped(&self, alias: &str, canary: &Canary) -> bool {
        let aliases = self.aliases.lock();
        let trial = aliases.get(alias).and_then(|alias| alias.trial.as_ref());
        trial.is_some_and(|trial| trial.fallen.is_some() && trial.canary == *canary)
    }

    /// All aliases that divided requests, by name.
    #[must_use]
    pub fn report(&self) -> Vec<(String, DividedAlias)> {
        let mut all: Vec<_> = self.aliases.lock().iter().map(|(name, alias)| (name.clone(), alias.clone())).collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Counts a request that ended. Gives the alias and the breach if its canary falls back for it.
    pub fn ended(&self, record: &Generation, taken: &TakenSplit) -> Option<(String, Breach)> {
        // Behind other models the alias served what they could not, which is no fair sample.
        if taken.requested.first() != Some(&Target::Alias(taken.alias)) {
            return None;
        }
        let name = &record.catalog.alias(taken.alias)?.id;
        let mut aliases = self.aliases.lock();
        if !aliases.contains_key(name) {
            aliases.insert(name.clone(), DividedAlias::default());
        }
        let alias = aliases.get_mut(name)?;
        match alias.parts.iter_mut().find(|(part, _)| *part == taken.part) {
            Some((_, count)) => *count += 1,
            None => alias.parts.push((taken.part, 1)),
        }
        let canary = taken.split.canary.as_ref().filter(|_| !matches!(taken.part, SplitPart::Rule(_)))?;
        let trial = alias.trial_of(canary);
        if trial.fallen.is_some() {
            return None;
        }
        match taken.part {
            SplitPart::Canary => trial.evidence.canary.add(outcome(record)),
            _ => trial.evidence.others.add(outcome(record)),
        }
        let breach = trial.evidence.breach(&canary.guardrail)?;
        trial.fallen = Some(Fallen { breach, at_ms: clock::unix_millis() });
        Some((name.clone(), breach))
    }
}

impl DividedAlias {
    /// The trial of this canary; a canary of another definition begins anew.
    fn trial_of(&mut self, canary: &Canary) -> &mut Trial {
        let new = || Trial { canary: canary.clone(), evidence: Evidence::default(), fallen: None };
        let trial = self.trial.get_or_insert_with(new);
        if trial.canary != *canary {
            *trial = new();
        }
        trial
    }
}

#[expect(clippy::disallowed_methods, reason = "means of spending are compared, nothing is billed")]
fn outcome(record: &Generation) -> Ended {
    Ended {
        failed: matches!(record.status, GenerationStatus::Failed | GenerationStatus::Truncated),
        spend: record.known_spending().to_f64(),
        first_token: record.latency_ms.map(Duration::from_millis),
    }
}
