//! What has become of the parts of divided aliases: how many requests each got, and which canaries have fallen back.
//!
//! Only requests whose alias divides them come here. A canary stays fallen back for as long as its definition stays the same: the
//! definitions are written to a file in the data directory. Each replica judges by its own requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

use parking_lot::Mutex;
use pointsman_base::clock;
use pointsman_domain::{AliasSplit, Canary, Catalog, SplitPart, TakenSplit, Target};
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
    divided: Mutex<Divided>,
    fallen: Arc<Mutex<BTreeSet<String>>>,
    /// Held while the file is written, so that the last one to write it knows everything.
    writer: Arc<Mutex<()>>,
    /// `None`: what fell back is kept in memory only.
    path: Option<PathBuf>,
}

/// The requests of the aliases that the newest catalog divides.
#[derive(Default)]
struct Divided {
    /// Version of the newest catalog.
    version: u64,
    aliases: BTreeMap<String, DividedAlias>,
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
        let (drawn, divided, writer) = (AtomicU64::new(0), Mutex::default(), Arc::default());
        Canaries { seed: seed ^ DRAWS, drawn, divided, fallen: Arc::new(Mutex::new(fallen)), writer, path }
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

    /// All aliases of the catalog that divided requests, by name.
    pub fn report(&self, catalog: &Catalog) -> Vec<(String, DividedAlias)> {
        let mut divided = self.divided.lock();
        divided.follow(catalog);
        divided.aliases.iter().map(|(name, alias)| (name.clone(), alias.clone())).collect()
    }

    /// Counts a request that ended like this, of the alias of this catalog, which is that of the request. Gives the alias and the
    /// breach if its canary falls back for it.
    pub fn ended(&self, catalog: &Catalog, taken: &TakenSplit, ended: Ended) -> Option<(String, Breach)> {
        // Behind other models the alias served what they could not, which is no fair sample.
        if taken.requested.first() != Some(&Target::Alias(taken.alias)) {
            return None;
        }
        let name = &catalog.alias(taken.alias)?.id;
        let mut divided = self.divided.lock();
        divided.follow(catalog);
        let is_current = catalog.version == divided.version;
        if is_current && !divided.aliases.contains_key(name) {
            divided.aliases.insert(name.clone(), DividedAlias::default());
        }
        let alias = divided.aliases.get_mut(name)?;
        match alias.parts.iter_mut().find(|(part, _)| *part == taken.part) {
            Some((_, count)) => *count += 1,
            None if is_current => alias.parts.push((taken.part, 1)),
            None => {}
        }
        let canary = taken.split.canary.as_ref().filter(|_| !matches!(taken.part, SplitPart::Rule(_)))?;
        if is_current && alias.trial.is_none() {
            alias.trial = Some(Trial { canary: canary.clone(), evidence: Evidence::default(), breach: None });
        }
        // A request from before a reload counts if the reload left the canary as it is.
        let trial = alias.trial.as_mut().filter(|trial| trial.canary == *canary)?;
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
    fn stop(&self, line: String) -> Option<JoinHandle<()>> {
        self.fallen.lock().insert(line);
        let (path, fallen, writer) = (self.path.clone()?, Arc::clone(&self.fallen), Arc::clone(&self.writer));
        Some(std::thread::spawn(move || {
            let _turn = writer.lock();
            let text = fallen.lock().iter().map(|line| format!("{line}\n")).collect::<String>();
            let written = Lock::take(&path).and_then(|lock| file::replace(&path, text.as_bytes(), &lock));
            if let Err(error) = written {
                log::error!(event = "canaries"; "{FILE} cannot be written, so a restart begins the canary anew: {error}");
            }
        }))
    }
}

impl Divided {
    /// Forgets what a newer catalog defines no more. An older one changes nothing.
    fn follow(&mut self, catalog: &Catalog) {
        if catalog.version <= self.version {
            return;
        }
        self.version = catalog.version;
        self.aliases.retain(|name, alias| {
            let defined = catalog.aliases.iter().find(|defined| defined.id == *name);
            let split = defined.and_then(|defined| defined.split.as_deref());
            split.inspect(|split| alias.keep(split)).is_some()
        });
    }
}

impl DividedAlias {
    /// Forgets parts that the definition does not have, and a canary of another definition.
    fn keep(&mut self, split: &AliasSplit) {
        self.parts.retain(|(part, _)| *part == SplitPart::Own || !split.names(*part).is_empty());
        self.trial.take_if(|trial| split.canary.as_ref() != Some(&trial.canary));
    }
}

fn line(alias: &str, canary: &Canary) -> String {
    format!("{alias} {canary:?}")
}

#[cfg(test)]
mod tests;
