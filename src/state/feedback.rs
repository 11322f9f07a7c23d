//! Ratings of answers: how one is recorded and counted, and what follows for the quality of models.
//!
//! Ratings lie in the ledger. Their sums are in memory, read from it at the start and once a day, when retention has dropped some. Each
//! replica counts what it was told.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use pointsman_base::clock;
use pointsman_domain::{RatingSource, Task};
use pointsman_ledger::{
    database::ratings::RatingWriter,
    fault::Fault,
    generations::GenerationStore,
    ratings::{ACCEPTED, MOST_RATINGS, RatedAnswer, Rating, effective},
};
use pointsman_routing::quality::{Drift, Evidence, RATE_DAYS, Rated, RatingSums, TrafficTable};

const DAY_MS: i64 = 86_400_000;
/// Age at which the count of answers is read again, when ratings come.
const TRAFFIC_AGE: Duration = Duration::from_secs(60);

/// The ratings of this process. It survives a reload.
#[derive(Default)]
pub struct Feedback {
    /// Held while ratings are stored and counted, so that both happen in one order.
    turn: Mutex<()>,
    sums: Mutex<RatingSums>,
    traffic: Mutex<Answered>,
    published: ArcSwap<Evidence>,
    /// Ratings came or went since evidence was made of them.
    is_changed: AtomicBool,
    /// Records were deleted, and their ratings with them, ratings could not be read, or too many were withdrawn to see a fall.
    is_outdated: AtomicBool,
    /// The last reading failed, which was told.
    is_unread: AtomicBool,
}

/// Answers by model, class and account, and when they were counted.
#[derive(Default)]
struct Answered {
    at: Option<Instant>,
    /// Ratings came since.
    is_behind: bool,
    table: Arc<TrafficTable>,
}

impl Answered {
    fn is_old(&self) -> bool {
        self.at.is_none_or(|at| at.elapsed() >= TRAFFIC_AGE)
    }
}

/// What is to become of an answer's ratings.
pub struct RatingChange {
    /// The answer.
    pub answer: RatedAnswer,
    /// What changes.
    pub kind: ChangeKind,
}

/// What changes.
pub enum ChangeKind {
    /// This rating comes.
    Rate(Rating),
    /// Ratings are withdrawn: all, or those of a name, of a source, or of both.
    Withdraw {
        /// Of this name.
        name: Option<Box<str>>,
        /// Of this source.
        source: Option<RatingSource>,
    },
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is recorded, and counts.
    Counted,
    /// It is recorded and counts nowhere; the sentence says why.
    Uncounted(&'static str),
    /// Not recorded: the answer has ten ratings already.
    TooMany,
    /// So many ratings were withdrawn.
    Withdrawn(usize),
}

impl Feedback {
    /// The ratings that the ledger holds. Blocks.
    pub fn open(ledger: Option<&GenerationStore>) -> Feedback {
        let feedback = Feedback::default();
        if let Some(ledger) = ledger {
            feedback.read(ledger);
        }
        feedback
    }

    /// Makes changes, all or none, and gives what became of each. Durable when it returns. Blocks.
    ///
    /// # Errors
    /// The database is closed, or the disk refuses.
    pub fn change(
        &self,
        ledger: &GenerationStore,
        changes: &[RatingChange],
    ) -> Result<(Vec<Outcome>, Vec<FoundDrift>), Fault> {
        let _turn = self.turn.lock();
        let (outcomes, counted) = ledger.change_ratings(|writer| {
            let mut counted = Vec::new();
            let outcomes = changes.iter().map(|change| make(change, writer, &mut counted));
            Ok((outcomes.collect::<Result<Vec<_>, Fault>>()?, counted))
        })?;
        Ok((outcomes, self.count(counted)))
    }

    fn count(&self, counted: Vec<CountedChange>) -> Vec<FoundDrift> {
        let mut sums = self.sums.lock();
        let mut drifts = Vec::new();
        for CountedChange { before, after } in counted {
            for rated in before.iter().filter(|rated| !after.contains(rated)) {
                let is_short = sums.remove(rated);
                self.is_outdated.fetch_or(is_short, Relaxed);
            }
            for rated in after.into_iter().filter(|rated| !before.contains(rated)) {
                let found = sums.add(&rated).filter(|_| !rated.is_judged);
                drifts.extend(found.map(|drift| FoundDrift { model: rated.model, task: rated.task, drift }));
            }
            self.is_changed.store(true, Relaxed);
        }
        drifts
    }

    /// Records were deleted: the sums are read anew soon.
    pub fn forget(&self) {
        self.is_outdated.store(true, Relaxed);
    }

    /// Whoever reads the evidence may have lost it: it is published again soon.
    pub fn publish_again(&self) {
        self.is_changed.store(true, Relaxed);
    }

    /// What the ratings say this moment. May take milliseconds.
    pub fn evidence_now(&self, most_share: f64) -> Evidence {
        let table = Arc::clone(&self.traffic.lock().table);
        self.sums.lock().evidence(today(), &table, most_share)
    }

    /// What the ratings say, as decisions read it: at most some seconds old.
    pub fn published(&self) -> Arc<Evidence> {
        self.published.load_full()
    }

    /// Reads the ratings of the ledger. Blocks.
    fn read(&self, ledger: &GenerationStore) {
        let _turn = self.turn.lock();
        match ledger.counted_ratings() {
            Ok((counted, unreadable)) => {
                if unreadable > 0 {
                    log::warn!("{unreadable} ratings in the ledger cannot be read and count nowhere");
                }
                let mut sums = RatingSums::default();
                for rated in &counted {
                    // Falls of the past were told when they were found.
                    let _ = sums.add(rated);
                }
                *self.sums.lock() = sums;
                self.is_changed.store(true, Relaxed);
                self.is_unread.store(false, Relaxed);
            }
            Err(fault) => {
                self.is_outdated.store(true, Relaxed);
                if !self.is_unread.swap(true, Relaxed) {
                    log::warn!("the ratings in the ledger cannot be read, and are tried again every second: {fault}");
                }
            }
        }
    }

    /// What is to be done: whether the ledger is to be read anew, and whether there is something to publish.
    pub fn take_changes(&self) -> (bool, bool) {
        let is_recount_due = {
            let answered = self.traffic.lock();
            answered.is_behind && answered.is_old()
        };
        (self.is_outdated.swap(false, Relaxed), self.is_changed.swap(false, Relaxed) || is_recount_due)
    }

    /// What the ratings say now, which is published from now on; `anew` from what the ledger holds. Blocks.
    pub fn publish(&self, ledger: &GenerationStore, most_share: f64, anew: bool) -> Arc<Evidence> {
        if anew {
            self.read(ledger);
            self.is_changed.store(false, Relaxed);
        }
        if !self.sums.lock().is_empty() {
            self.count_answers(ledger);
        }
        let evidence = Arc::new(self.evidence_now(most_share));
        self.published.store(Arc::clone(&evidence));
        evidence
    }

    /// Counts the answers of models again, if that was long ago, or else soon.
    fn count_answers(&self, ledger: &GenerationStore) {
        let mut answered = self.traffic.lock();
        answered.is_behind = !answered.is_old();
        if !answered.is_behind {
            let now_ms = clock::unix_millis();
            let since_ms = now_ms.saturating_sub(i64::from(RATE_DAYS) * DAY_MS);
            match ledger.answers_beside_ratings(since_ms, now_ms) {
                Ok(table) => {
                    *answered = Answered { at: Some(Instant::now()), is_behind: false, table: Arc::new(table) }
                }
                Err(fault) => log::debug!("the answers of models cannot be counted: {fault}"),
            }
        }
    }
}

/// A fall that a rating revealed.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundDrift {
    /// Catalog id of the model.
    pub model: Arc<str>,
    /// Class of the tasks.
    pub task: Task,
    /// The fall.
    pub drift: Drift,
}

/// What an answer added to the sums, and what it adds now.
struct CountedChange {
    before: Vec<Rated>,
    after: Vec<Rated>,
}

fn make(
    RatingChange { answer, kind }: &RatingChange,
    writer: &mut RatingWriter<'_>,
    counted: &mut Vec<CountedChange>,
) -> Result<Outcome, Fault> {
    let mut ratings = writer.of(answer.id)?;
    let before: Vec<Rated> = answer.counted(&ratings).collect();
    let outcome = match kind {
        ChangeKind::Rate(new) => {
            let is_repeated = ratings.iter().any(|old| new.token.is_some() && old.token == new.token)
                || effective(&ratings).any(|old| is_same(old, new));
            if !is_repeated {
                if ratings.len() >= MOST_RATINGS {
                    return Ok(Outcome::TooMany);
                }
                writer.add(answer, new)?;
                ratings.push(new.clone());
            }
            uncounted(answer, new, &ratings).map_or(Outcome::Counted, Outcome::Uncounted)
        }
        ChangeKind::Withdraw { name, source } => {
            let is_meant = |rating: &&Rating| {
                name.as_ref().is_none_or(|name| rating.name == *name)
                    && source.is_none_or(|source| rating.source == source)
            };
            let meant: Vec<(Box<str>, RatingSource)> =
                effective(&ratings).filter(is_meant).map(|rating| (rating.name.clone(), rating.source)).collect();
            for (name, source) in &meant {
                writer.withdraw(answer.id, name, *source)?;
                let these = ratings.iter_mut().filter(|rating| (&rating.name, rating.source) == (name, *source));
                these.for_each(|rating| rating.is_withdrawn = true);
            }
            Outcome::Withdrawn(meant.len())
        }
    };
    let after: Vec<Rated> = answer.counted(&ratings).collect();
    if before != after {
        counted.push(CountedChange { before, after });
    }
    Ok(outcome)
}

fn is_same(old: &Rating, new: &Rating) -> bool {
    let said = |rating: &Rating| (rating.name.clone(), rating.source, rating.rater, rating.value, rating.weight);
    said(old) == said(new)
}

/// Why a rating counts towards no quality.
fn uncounted(answer: &RatedAnswer, new: &Rating, ratings: &[Rating]) -> Option<&'static str> {
    if &*new.name != ACCEPTED {
        return Some("only ratings called 'accepted' count");
    }
    if answer.served.is_none() {
        return Some("no endpoint served this call, or it is no chat");
    }
    let of_user = |rating: &Rating| rating.source == RatingSource::User && &*rating.name == ACCEPTED;
    match new.source {
        RatingSource::Judge => Some("ratings of judges are shown apart and steer nothing"),
        RatingSource::Program if effective(ratings).any(of_user) => Some("the rating of a user counts in its place"),
        RatingSource::User | RatingSource::Program => {
            let holds = effective(ratings).any(|rating| is_same(rating, new));
            (!holds).then_some("its idempotency key was sent before, and this is not the rating that holds")
        }
    }
}

/// The day of now, since 1970, in UTC.
pub(super) fn today() -> i32 {
    i32::try_from(clock::unix_millis().div_euclid(DAY_MS)).unwrap_or_default()
}
