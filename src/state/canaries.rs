//! What has become of the parts of divided aliases: how many requests each got, and which canaries have fallen back.
//!
//! Only requests whose alias divides them come here. A canary falls back for as long as its definition stays the same: what fell
//! back is written to a file in the data directory. Each replica judges by its own requests.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use pointsman_base::clock;
use pointsman_domain::{Alias, Canary, Catalog, Generation, GenerationStatus, SplitPart, TakenSplit, Target};
use pointsman_routing::{
    split::guard::{Breach, Ended, Evidence, LIMITS},
    stats::seeded_hash,
};
use serde::{Deserialize, Serialize};

use crate::state::routing_memory::file::{self, Lock};

/// Name of the file.
const FILE: &str = "canaries.json";
/// Salt of the draws, apart from those of exploration noise.
const DRAWS: u64 = 0x7370_6c69_7473;

/// The state of all divided aliases. One per process; it survives a reload.
pub struct Canaries {
    seed: u64,
    drawn: AtomicU64,
    aliases: Mutex<HashMap<String, DividedAlias>>,
    /// `None`: what fell back is kept in memory only.
    path: Option<PathBuf>,
    writing: Mutex<()>,
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
    /// Its definition as text, by which it is known after a restart.
    definition: String,
    /// Its share of the requests.
    pub share: f64,
    /// What is known of it; empty after a restart.
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

/// A canary that fell back, in the file.
#[derive(Serialize, Deserialize)]
struct StoredFall {
    definition: String,
    share: f64,
    limit: String,
    canary: f64,
    others: f64,
    at_ms: i64,
}

impl StoredFall {
    fn of(trial: &Trial) -> Option<StoredFall> {
        let Fallen { breach: Breach { limit, canary, others }, at_ms } = trial.fallen?;
        let (definition, limit) = (trial.definition.clone(), limit.to_owned());
        Some(StoredFall { definition, share: trial.share, limit, canary, others, at_ms })
    }

    fn alias(self) -> DividedAlias {
        let StoredFall { definition, share, limit, canary, others, at_ms } = self;
        let limit = LIMITS.into_iter().find(|known| *known == limit).unwrap_or_default();
        let fallen = Some(Fallen { breach: Breach { limit, canary, others }, at_ms });
        let trial = Some(Trial { definition, share, evidence: Evidence::default(), fallen });
        DividedAlias { trial, ..DividedAlias::default() }
    }
}

impl Canaries {
    /// What fell back before is read from `directory`. Requests that nothing keeps together are dealt out with `seed`. Blocks.
    #[must_use]
    pub fn open(seed: u64, directory: Option<&Path>) -> Canaries {
        let path = directory.map(|directory| directory.join(FILE));
        let read = |path: &PathBuf| match file::read(path) {
            Ok(None) => Ok(BTreeMap::new()),
            Ok(Some(text)) => serde_json::from_slice(&text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let stored: BTreeMap<String, StoredFall> = path.as_ref().map_or_else(|| Ok(BTreeMap::new()), read).unwrap_or_else(|why| {
            log::error!(event = "canaries"; "{FILE} in the data directory cannot be read, so canaries that fell back begin anew: {why}");
            BTreeMap::new()
        });
        let aliases = stored.into_iter().map(|(name, fall)| (name, fall.alias())).collect();
        Canaries {
            seed: seed ^ DRAWS,
            drawn: AtomicU64::new(0),
            aliases: Mutex::new(aliases),
            path,
            writing: Mutex::default(),
        }
    }

    /// Writes what fell back, on a thread of its own: it happens once in the life of a canary.
    fn save(self: &Arc<Self>) {
        let canaries = Arc::clone(self);
        std::thread::spawn(move || {
            let Some(path) = &canaries.path else { return };
            let _writing = canaries.writing.lock();
            let aliases = canaries.aliases.lock().clone();
            let fall = |(name, alias): (String, DividedAlias)| Some((name, StoredFall::of(alias.trial.as_ref()?)?));
            let stored: BTreeMap<String, StoredFall> = aliases.into_iter().filter_map(fall).collect();
            let Ok(text) = serde_json::to_vec(&stored) else { return };
            let written = Lock::take(path).and_then(|lock| file::replace(path, &text, &lock));
            if let Err(error) = written {
                log::error!(event = "canaries"; "{FILE} cannot be written, so a restart begins the canary anew: {error}");
            }
        });
    }

    /// Aliases of the catalog whose canary has fallen back.
    #[must_use]
    pub fn fallen(&self, catalog: &Catalog) -> Vec<String> {
        let canary = |alias: &'_ Alias| alias.split.as_ref().and_then(|split| split.canary.clone());
        let has_fallen = |alias: &&Alias| canary(alias).is_some_and(|canary| self.has_stopped(&alias.id, &canary));
        catalog.aliases.iter().filter(has_fallen).map(|alias| alias.id.clone()).collect()
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
        trial.is_some_and(|trial| trial.fallen.is_some() && trial.definition == definition(canary))
    }

    /// All aliases that divided requests, by name.
    #[must_use]
    pub fn report(&self) -> Vec<(String, DividedAlias)> {
        let mut all: Vec<_> = self.aliases.lock().iter().map(|(name, alias)| (name.clone(), alias.clone())).collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Counts a request that ended. Gives the alias and the breach if its canary falls back for it.
    pub fn ended(self: &Arc<Self>, record: &Generation, taken: &TakenSplit) -> Option<(String, Breach)> {
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
        self.save();
        Some((name.clone(), breach))
    }
}

impl DividedAlias {
    /// The trial of this canary; a canary of another definition begins anew.
    fn trial_of(&mut self, canary: &Canary) -> &mut Trial {
        let definition = definition(canary);
        let is_it = self.trial.as_ref().is_some_and(|trial| trial.definition == definition);
        let earlier = self.trial.take().filter(|_| is_it);
        let new = || Trial { definition, share: canary.share, evidence: Evidence::default(), fallen: None };
        self.trial.insert(earlier.unwrap_or_else(new))
    }
}

fn definition(canary: &Canary) -> String {
    format!("{canary:?}")
}

#[expect(clippy::disallowed_methods, reason = "means of spending are compared, nothing is billed")]
fn outcome(record: &Generation) -> Ended {
    Ended {
        failed: matches!(record.status, GenerationStatus::Failed | GenerationStatus::Truncated),
        spend: record.known_spending().to_f64(),
        first_token: record.latency_ms.map(Duration::from_millis),
    }
}
