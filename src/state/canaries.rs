//! What has become of the parts of divided aliases: how many requests each got, and which canaries have fallen back.
//!
//! Only requests whose alias divides them come here. A canary stays fallen back for as long as its definition stays the same: the
//! definitions are written to a file in the data directory. Each replica judges by its own requests.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use parking_lot::Mutex;
use pointsman_base::clock;
use pointsman_domain::{Canary, Catalog, SplitPart, TakenSplit, Target};
use pointsman_routing::{
    split::guard::{Breach, Ended, Evidence},
    stats::seeded_hash,
};

use crate::state::routing_memory::file::{self, Lock};

/// Name of the file: an alias and its canary in each line.
const FILE: &str = "canaries.fallen";
/// Salt of the draws, apart from those of exploration noise.
const DRAWS: u64 = 0x7370_6c69_7473;

/// The state of all divided aliases. One per process; it survives a reload.
pub struct Canaries {
    seed: u64,
    drawn: AtomicU64,
    aliases: Mutex<HashMap<String, DividedAlias>>,
    fallen: Mutex<BTreeSet<String>>,
    /// `None`: what fell back is kept in memory only.
    path: Option<PathBuf>,
}

/// The requests of one alias.
#[derive(Debug, Clone, Default)]
pub struct DividedAlias {
    /// Ended requests of each part, in the order of their first.
    pub parts: Vec<(SplitPart, u64)>,
    /// Its canary.
    pub trial: Option<Trial>,
}

/// A canary since the start, or since its definition changed.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Its definition.
    pub canary: Canary,
    /// What is known of it.
    pub evidence: Evidence,
    /// The limit that it exceeded, and when, in Unix milliseconds.
    pub breach: Option<(Breach, i64)>,
}

impl Canaries {
    /// What fell back before is read from `directory`. Requests that nothing keeps together are dealt out with `seed`. Blocks.
    pub fn open(seed: u64, directory: Option<&Path>) -> Canaries {
        let path = directory.map(|directory| directory.join(FILE));
        let text = path.as_ref().map_or(Ok(None), |path| file::read(path)).unwrap_or_else(|error| {
            log::error!(event = "canaries"; "{FILE} cannot be read, so canaries that fell back begin anew: {error}");
            None
        });
        let fallen = String::from_utf8_lossy(&text.unwrap_or_default()).lines().map(str::to_owned).collect();
        let (seed, drawn, aliases) = (seed ^ DRAWS, AtomicU64::new(0), Mutex::default());
        Canaries { seed, drawn, aliases, fallen: Mutex::new(fallen), path }
    }

    /// The place of a request that nothing keeps with others.
    pub fn draw(&self) -> u16 {
        (seeded_hash(self.seed, self.drawn.fetch_add(1, Relaxed)) >> 48) as u16
    }

    /// Whether this canary of the alias has fallen back.
    pub fn has_stopped(&self, alias: &str, canary: &Canary) -> bool {
        let fallen = self.fallen.lock();
        !fallen.is_empty() && fallen.contains(&line(alias, canary))
    }

    /// Aliases of the catalog whose canary has fallen back.
    pub fn fallen(&self, catalog: &Catalog) -> Vec<String> {
        let canaries = catalog.aliases.iter().filter_map(|alias| Some((alias, alias.split.as_ref()?.canary.as_ref()?)));
        let fallen = canaries.filter(|(alias, canary)| self.has_stopped(&alias.id, canary));
        fallen.map(|(alias, _)| alias.id.clone()).collect()
    }

    /// All aliases that divided requests, by name.
    pub fn report(&self) -> Vec<(String, DividedAlias)> {
        let mut all: Vec<_> = self.aliases.lock().iter().map(|(name, alias)| (name.clone(), alias.clone())).collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Counts a request that ended like this, of the alias of this catalog. Gives the alias and the breach if its canary falls back for it.
    pub fn ended(&self, catalog: &Catalog, taken: &TakenSplit, ended: Ended) -> Option<(String, Breach)> {
        // Behind other models the alias served what they could not, which is no fair sample.
        if taken.requested.first() != Some(&Target::Alias(taken.alias)) {
            return None;
        }
        let name = &catalog.alias(taken.alias)?.id;
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
        if self.has_stopped(name, canary) {
            return None;
        }
        match taken.part {
            SplitPart::Canary => trial.evidence.canary.add(ended),
            _ => trial.evidence.others.add(ended),
        }
        let breach = trial.evidence.breach(&canary.guardrail)?;
        trial.breach = Some((breach, clock::unix_millis()));
        self.stop(line(name, canary));
        Some((name.clone(), breach))
    }

    /// Writes the file on a thread of its own: it happens once in the life of a canary.
    fn stop(&self, line: String) {
        let mut fallen = self.fallen.lock();
        fallen.insert(line);
        let text = fallen.iter().map(|line| format!("{line}\n")).collect::<String>();
        let Some(path) = self.path.clone() else { return };
        std::thread::spawn(move || {
            let written = Lock::take(&path).and_then(|lock| file::replace(&path, text.as_bytes(), &lock));
            if let Err(error) = written {
                log::error!(event = "canaries"; "{FILE} cannot be written, so a restart begins the canary anew: {error}");
            }
        });
    }
}

impl DividedAlias {
    /// The trial of this canary; a canary of another definition begins anew.
    fn trial_of(&mut self, canary: &Canary) -> &mut Trial {
        let earlier = self.trial.take().filter(|trial| trial.canary == *canary);
        let new = || Trial { canary: canary.clone(), evidence: Evidence::default(), breach: None };
        self.trial.insert(earlier.unwrap_or_else(new))
    }
}

fn line(alias: &str, canary: &Canary) -> String {
    format!("{alias} {canary:?}")
}
