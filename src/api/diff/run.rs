//! Makes recorded decisions again: one pass in which each must come out as it was made, and one under the other configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use pointsman_base::clock;
use pointsman_config::ExploreConfig;
use pointsman_domain::{EndpointId, Source, grouped};
use pointsman_ledger::{
    fault::Fault,
    traffic::{Exported, Reading, Sample, Traffic, TrafficRecord, Wanted},
};
use pointsman_routing::{
    decide::ALGORITHM,
    explain::{
        diff::{
            Admitted, Answerable, Calibration, Change, Comparison, Grade, LoadAdjusted, LoadSample, Nearness, OpenLoop,
            Redecided, SelfTest, Tally,
        },
        estimate::{Position, Sample as Observed},
    },
};

use super::{
    break_even,
    comparisons::Comparisons,
    configuration::ComparedConfiguration,
    limit::Limit,
    recorded::{ExplorationBody, Recorded},
};
use crate::base::background::processor_time;

/// What a command on another machine tells the exit code 3 by.
pub(crate) const SELF_TEST_FAILED: &str = "self test failed";
/// Decisions of which the load is modelled, about: their records stay in memory, and are made again up to six times.
const LOADED: u64 = 5_000;

/// What is compared, and over which records.
pub(crate) struct DiffRequest {
    /// `None`: the configuration of each decision.
    pub before: Option<ComparedConfiguration>,
    pub after: ComparedConfiguration,
    pub wanted: Wanted,
    pub limits: Vec<Limit>,
    pub strict: bool,
    /// Whether only decisions count whose choice follows from the record.
    pub exact_only: bool,
    pub examples: usize,
    /// Whether what would have happened is estimated, too.
    pub estimate: bool,
    /// Whether keys that work over time are answered by running the recorded attempts through other statistics.
    pub open_loop: bool,
    pub threads: usize,
    pub pace: Pace,
}

/// How much of its threads a comparison takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// All.
    Full,
    /// A tenth: beside requests that are served.
    Background,
}

/// Time after which a job in the background rests. Its work empties the caches that requests use: few long bursts disturb fewer of
/// them than many short ones.
const BURST: Duration = Duration::from_millis(5);
/// How much longer it rests than it worked.
const REST: u32 = 9;
/// Longest rest, after which a cancelled job ends.
const LONGEST_REST: Duration = Duration::from_millis(200);

/// Rests after every burst of work.
pub(super) struct Pacer {
    pace: Pace,
    since: Instant,
    /// Processor time of the thread when the burst began.
    used: Option<Duration>,
}

impl Pacer {
    pub(super) fn new(pace: Pace) -> Pacer {
        let used = if pace == Pace::Background { processor_time() } else { None };
        Pacer { pace, since: Instant::now(), used }
    }

    pub(super) fn step(&mut self) {
        if self.pace == Pace::Background && self.since.elapsed() >= BURST {
            let used = processor_time();
            thread::sleep(self.rest(used));
            *self = Pacer { pace: self.pace, since: Instant::now(), used };
        }
    }

    /// How long the thread rests that has used so much processor time: while others go before it, it does not work.
    fn rest(&self, used: Option<Duration>) -> Duration {
        let used = used.zip(self.used).map(|(now, before)| now.saturating_sub(before));
        (used.unwrap_or_else(|| self.since.elapsed()) * REST).min(LONGEST_REST)
    }
}

/// Samples by the number of their configuration.
type Samples = BTreeMap<usize, RecordedSample>;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The records cannot be read.
    Unreadable(Fault),
    /// There are no records, or none that meet the conditions.
    Empty,
    /// All records were made by another version of the algorithm.
    OtherAlgorithm(u64),
    /// These changes need an open loop over the recorded attempts, which was not asked for.
    OpenLoop(Vec<String>),
    /// The change of stickiness keeps conversations that no record tells of.
    OtherConversations,
    /// In the open loop, too little comes out as it was recorded under the same constants.
    Far(Nearness),
    /// A review would keep more than so much of what was known of endpoints.
    TooMuchKnown(usize),
    /// It was cancelled.
    Stopped,
    /// Decisions do not come out as they were made.
    SelfTest { decisions: u64, different: u64, first: String },
}

/// The answer, before it is put into words.
pub(crate) struct Compared {
    pub tally: Tally,
    pub self_tested: u64,
    pub other_algorithm: u64,
    pub unreadable: u64,
    pub window_ms: Option<[i64; 2]>,
    pub exported: Option<Exported>,
    pub changes: Vec<Change>,
    pub names: BTreeMap<EndpointId, String>,
    /// Providers that count as on although their keys are not on this machine.
    pub assumed_on: BTreeSet<String>,
    /// How near an open loop comes to the records; `None` if single decisions answer everything.
    pub open_loop: Option<Nearness>,
    /// Figures with the load that moves bring about; `None` without moves, and in an open loop.
    pub load: Option<LoadAdjusted>,
    /// What the higher share of choices at random costs, if it is higher.
    pub exploration: Option<ExplorationBody>,
    /// Arithmetic of the cascades that change.
    pub cascades: Vec<String>,
    /// The records as a sample of what would have happened, a sample for each configuration that made them, the latest last.
    /// Empty unless that was asked for.
    pub samples: Vec<RecordedSample>,
}

/// Records that were made under one configuration.
#[derive(Default)]
pub(crate) struct RecordedSample {
    pub sample: Observed,
    pub window_ms: Option<[i64; 2]>,
}

impl RecordedSample {
    fn merge(&mut self, other: RecordedSample) {
        self.sample.merge(other.sample);
        self.window_ms = joined(self.window_ms, other.window_ms);
    }
}

impl Compared {
    /// Changes that no record answers, because they take effect after the choice.
    pub(crate) fn uncovered(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.answerable == Answerable::AfterChoice)
    }
}

fn joined(one: Option<[i64; 2]>, other: Option<[i64; 2]>) -> Option<[i64; 2]> {
    match (one, other) {
        (Some([a, b]), Some([c, d])) => Some([a.min(c), b.max(d)]),
        (one, other) => one.or(other),
    }
}

/// What the first pass finds.
#[derive(Default)]
struct Tested {
    calibration: Calibration,
    identical: u64,
    different: u64,
    other_algorithm: u64,
    /// The first one by name.
    first: Option<String>,
    /// Objectives of decisions whose requests, aliases and keys name none.
    default_objectives: BTreeSet<&'static str>,
    window_ms: Option<[i64; 2]>,
    recorded: Recorded,
}

impl Tested {
    fn add(&mut self, comparisons: &Comparisons<'_>, explore: &ExploreConfig, record: &TrafficRecord) {
        let generation = &record.generation;
        match comparisons.of(generation).self_test(&generation.decision) {
            SelfTest::Identical => self.identical += 1,
            SelfTest::OtherAlgorithm => {
                self.other_algorithm += 1;
                return;
            }
            SelfTest::Different => {
                self.different += 1;
                if self.first.as_ref().is_none_or(|first| record.name < *first) {
                    self.first = Some(record.name.clone());
                }
            }
        }
        let objective = generation.decision.objective;
        if objective.source == Source::Default {
            self.default_objectives.insert(objective.value.as_str());
        }
        self.calibration.add(generation);
        self.recorded.add(generation, explore);
        self.window_ms = joined(self.window_ms, Some([generation.created_ms; 2]));
    }

    fn merge(mut self, other: Tested) -> Tested {
        self.calibration.merge(&other.calibration);
        self.recorded.merge(other.recorded);
        self.default_objectives.extend(&other.default_objectives);
        self.identical += other.identical;
        self.different += other.different;
        self.other_algorithm += other.other_algorithm;
        self.first = self.first.into_iter().chain(other.first).min();
        self.window_ms = joined(self.window_ms, other.window_ms);
        self
    }
}

/// Makes the wanted decisions again. Blocks, and keeps `request.threads` threads busy.
///
/// # Errors
/// There is no answer.
pub(crate) fn run(traffic: &Traffic, request: &DiffRequest, stop: &AtomicBool) -> Result<Compared, NoAnswer> {
    let comparisons = Comparisons::new(request.before.as_ref(), &request.after);
    let (tested, reading) = self_test(traffic, request, &comparisons, stop)?;
    let mut changes = comparisons.changes();
    // Without a configuration before, the records tell what the default was.
    let is_same = |[_, after]: &[String; 2]| tested.default_objectives.iter().all(|before| *before == after.as_str());
    changes.retain(|change| !change.is_recorded_objective() || !change.values.as_ref().is_some_and(is_same));
    let is_open = is_open_loop(&changes, request, &comparisons)?;
    let pass = SecondPass { traffic, request, comparisons: &comparisons, tested: &tested, changes: &changes, stop };
    let Passed { tally, samples, open_loop, load } = if is_open { pass.in_open_loop()? } else { pass.decide()? };
    let ids = tally.moves.keys().flat_map(|(from, to)| [*from, *to]);
    let ids = ids.chain(tally.examples.iter().flat_map(|example| [example.from, example.to])).flatten();
    let ids = ids.chain(samples.iter().flat_map(|one| one.sample.shifts.growing(1)).map(|shift| shift.endpoint));
    let ids = ids.chain(tally.unmeasured.keys().copied());
    let sampled = sampled(request.wanted.sample, traffic.exported());
    let share_before = request.before.as_ref().map(|before| before.explore.exploration.share);
    Ok(Compared {
        exploration: tested.recorded.exploration(share_before, &request.after.explore, sampled),
        cascades: changed_cascades(&changes, &comparisons, &tested.recorded),
        names: ids.filter_map(|id| Some((id, comparisons.name(id)?))).collect(),
        assumed_on: comparisons.assumed_on(),
        tally,
        self_tested: tested.identical,
        other_algorithm: tested.other_algorithm,
        unreadable: reading.unreadable,
        window_ms: tested.window_ms,
        exported: traffic.exported().cloned(),
        changes,
        open_loop,
        load,
        samples,
    })
}

/// Share of the records that are read: a sample, of an export that may be a sample itself.
fn sampled(sample: Option<Sample>, exported: Option<&Exported>) -> f64 {
    let exported = exported.map_or(1.0, |one| one.records as f64 / one.drawn_from.max(1) as f64);
    exported * sample.map_or(1.0, |sample| sample.most as f64 / u64::MAX as f64)
}

/// The arithmetic of each cascade that is new or changes.
fn changed_cascades(changes: &[Change], comparisons: &Comparisons<'_>, recorded: &Recorded) -> Vec<String> {
    let catalog = comparisons.catalog_after().unwrap_or_default();
    let lines = break_even::lines(&catalog, &recorded.acceptances, clock::today(), |alias| {
        changes.iter().any(|change| change.key == format!("alias {alias}.cascade"))
    });
    lines.into_iter().skip(1).collect()
}

/// Whether keys change that work over time.
fn is_open_loop(changes: &[Change], request: &DiffRequest, comparisons: &Comparisons<'_>) -> Result<bool, NoAnswer> {
    let keys = changes.iter().filter(|change| change.answerable == Answerable::OpenLoop);
    let keys: Vec<String> = keys.map(ToString::to_string).collect();
    match keys.is_empty() {
        true => Ok(false),
        false if !request.open_loop => Err(NoAnswer::OpenLoop(keys)),
        false if comparisons.keep_other_conversations() => Err(NoAnswer::OtherConversations),
        false => Ok(true),
    }
}

/// What the second pass finds.
struct Passed {
    tally: Tally,
    samples: Vec<RecordedSample>,
    open_loop: Option<Nearness>,
    load: Option<LoadAdjusted>,
}

/// Of one thread of it.
struct Part {
    tally: Tally,
    samples: Samples,
    load: LoadSample,
    pacer: Pacer,
}

/// The pass under the other configuration.
struct SecondPass<'r> {
    traffic: &'r Traffic,
    request: &'r DiffRequest,
    comparisons: &'r Comparisons<'r>,
    tested: &'r Tested,
    changes: &'r [Change],
    stop: &'r AtomicBool,
}

impl SecondPass<'_> {
    /// Each decision alone, in any order.
    fn decide(&self) -> Result<Passed, NoAnswer> {
        let SecondPass { traffic, request, comparisons, tested, stop, .. } = self;
        let (places, most_drawn) = (self.places(), self.most_drawn());
        let new = || Part {
            tally: Tally::new(request.examples),
            samples: Samples::new(),
            load: LoadSample::default(),
            pacer: Pacer::new(request.pace),
        };
        let step = |part: &mut Part, record: TrafficRecord| {
            part.pacer.step();
            let generation = &record.generation;
            let (comparison, group) = comparisons.with_group(generation);
            if request.estimate && generation.decision.algorithm == ALGORITHM {
                let of_group = part.samples.entry(group).or_default();
                let position = Position { draw: record.draw, cluster: record.cluster };
                of_group.sample.observe(&comparison, generation, &tested.calibration, position);
                of_group.window_ms = joined(of_group.window_ms, Some([generation.created_ms; 2]));
            }
            let Some(made) = comparison.decide(generation, &tested.calibration) else { return };
            if request.exact_only && made.grade == Grade::Partial {
                part.tally.count(made.grade);
                return;
            }
            if record.draw <= most_drawn && !comparison.changes().is_empty() {
                part.load.add(generation, &comparison, record.draw, record.cluster);
            }
            add(&mut part.tally, made, &record, &comparison, &places);
        };
        let parts = traffic.fold(&request.wanted, request.threads, stop, new, step);
        let (parts, _) = parts.map_err(NoAnswer::Unreadable)?;
        if stop.load(Relaxed) {
            return Err(NoAnswer::Stopped);
        }
        let mut samples = Samples::new();
        let (tally, load) =
            parts.into_iter().fold((Tally::new(request.examples), LoadSample::default()), |all, part| {
                let (mut tally, mut load) = all;
                tally.merge(part.tally);
                load.merge(part.load);
                part.samples.into_iter().for_each(|(group, sample)| samples.entry(group).or_default().merge(sample));
                (tally, load)
            });
        let mut pacer = Pacer::new(request.pace);
        let goes_on = || {
            pacer.step();
            !stop.load(Relaxed)
        };
        let load = Some(load).filter(|_| tally.moved > 0);
        let load = load.and_then(|load| load.adjusted(&tested.calibration, tally.decisions, goes_on));
        if stop.load(Relaxed) {
            return Err(NoAnswer::Stopped);
        }
        let mut samples: Vec<RecordedSample> = samples.into_values().collect();
        samples.sort_by_key(|sample| sample.window_ms);
        let ratings = if request.estimate { traffic.ratings().map_err(NoAnswer::Unreadable)? } else { BTreeMap::new() };
        for sample in &mut samples {
            sample.sample.sort();
            sample.sample.rate(&ratings);
            let settled = load.iter().filter(|load| load.is_settled());
            settled.for_each(|load| sample.sample.shifts.adjust(&load.loads));
        }
        Ok(Passed { tally, samples, open_loop: None, load })
    }

    /// Up to which hash of its id a decision is one of those of which the load is modelled.
    fn most_drawn(&self) -> u64 {
        let most = self.request.wanted.sample.map_or(u64::MAX, |sample| sample.most);
        Sample::of(LOADED, self.tested.identical).map_or(most, |loaded| (most >> 32) * (loaded.most >> 32))
    }

    /// All of them in the order of admission, with what follows from the attempts before.
    fn in_open_loop(&self) -> Result<Passed, NoAnswer> {
        let SecondPass { traffic, request, comparisons, tested, stop, .. } = self;
        let places = self.places();
        let (mut tally, mut pacer) = (Tally::new(request.examples), Pacer::new(request.pace));
        let mut open_loop = OpenLoop::new();
        let step = |record: TrafficRecord| {
            pacer.step();
            let generation = &record.generation;
            if generation.decision.algorithm != ALGORITHM {
                return;
            }
            let comparison = comparisons.of(generation);
            let caller = if record.key == 0 { generation.owner } else { u64::from(record.key) };
            let admitted = Admitted { generation, caller, is_wanted: request.wanted.admits(&record) };
            let made = open_loop.step(admitted, &comparison, &tested.calibration);
            made.into_iter().for_each(|made| add(&mut tally, made, &record, &comparison, &places));
        };
        traffic.in_order(&request.wanted, request.threads, stop, step).map_err(NoAnswer::Unreadable)?;
        if stop.load(Relaxed) {
            return Err(NoAnswer::Stopped);
        }
        let nearness = *open_loop.nearness();
        match nearness.is_near() {
            true => Ok(Passed { tally, samples: Vec::new(), open_loop: Some(nearness), load: None }),
            false => Err(NoAnswer::Far(nearness)),
        }
    }

    /// The changes by their texts, with their bits.
    fn places(&self) -> BTreeMap<String, u32> {
        (0..).zip(self.changes).map(|(at, change)| (change.to_string(), at)).collect()
    }
}

/// Adds a decision, with the bits of its reason as `places` has them.
fn add(
    tally: &mut Tally,
    mut made: Redecided,
    record: &TrafficRecord,
    comparison: &Comparison,
    places: &BTreeMap<String, u32>,
) {
    let bits = comparison.changes().iter().take(64).enumerate().filter(|(bit, _)| made.reason >> bit & 1 == 1);
    let bits = bits.filter_map(|(_, change)| places.get(&change.to_string())).filter(|place| **place < u64::BITS);
    made.reason = bits.fold(0, |all, place| all | 1 << place);
    let objective = record.generation.decision.objective.value.as_str();
    tally.add(&made, record.cluster, &record.name, objective);
}

fn self_test(
    traffic: &Traffic,
    request: &DiffRequest,
    comparisons: &Comparisons<'_>,
    stop: &AtomicBool,
) -> Result<(Tested, Reading), NoAnswer> {
    let new = || (Tested::default(), Pacer::new(request.pace));
    let step = |(tested, pacer): &mut (Tested, Pacer), record: TrafficRecord| {
        pacer.step();
        tested.add(comparisons, &request.after.explore, &record);
    };
    let parts = traffic.fold(&request.wanted, request.threads, stop, new, step);
    let (parts, reading) = parts.map_err(NoAnswer::Unreadable)?;
    if stop.load(Relaxed) {
        return Err(NoAnswer::Stopped);
    }
    let tested = parts.into_iter().map(|(part, _)| part).fold(Tested::default(), Tested::merge);
    let decisions = tested.identical + tested.different;
    match decisions {
        _ if tested.different > 0 => {
            Err(NoAnswer::SelfTest { decisions, different: tested.different, first: tested.first.unwrap_or_default() })
        }
        0 if tested.other_algorithm > 0 => Err(NoAnswer::OtherAlgorithm(tested.other_algorithm)),
        0 => Err(NoAnswer::Empty),
        _ => Ok((tested, reading)),
    }
}

impl NoAnswer {
    /// Exit code of the command line.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            NoAnswer::SelfTest { .. } => 3,
            NoAnswer::Far(nearness) if nearness.is_enough() => 3,
            _ => 2,
        }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::Unreadable(fault) => fault.fmt(f),
            NoAnswer::Empty => f.write_str(
                "there is nothing to compare: the ledger is empty, or no record meets the conditions (--since, --until, --where)",
            ),
            NoAnswer::OtherAlgorithm(records) => write!(
                f,
                "all {records} records were made by another version of the routing algorithm, whose choices this version cannot \
                 make again: compare with the version that made them, or wait for new records"
            ),
            NoAnswer::OpenLoop(changes) => write!(
                f,
                "these keys change statistics, breakers or caches over time, so records of single decisions cannot answer them: {}. \
                 --open-loop ('open_loop' over HTTP) runs the recorded attempts through statistics and breakers with these values; \
                 or leave the keys as they were when the records were made (--since selects later ones), and change them in a \
                 step of their own",
                changes.join("; ")
            ),
            NoAnswer::OtherConversations => f.write_str(
                "routing.sticky: an open loop can only say what fewer conversations would have come to ('enabled = false', a higher \
                 'min_prompt_tokens'); records do not tell which others would have been kept. Leave the other keys of \
                 routing.sticky as they were, and try them with a canary",
            ),
            NoAnswer::Far(nearness) if !nearness.is_enough() => write!(
                f,
                "open loop: the records are too few. Of {} decisions {:.0} % chose an endpoint of which the records hold enough \
                 attempts to know it anew, and 30 decisions and 50 % are needed: choose a longer time with --since",
                nearness.decisions,
                nearness.estimated_share() * 100.0
            ),
            NoAnswer::Far(nearness) => write!(
                f,
                "open loop: {SELF_TEST_FAILED}. Under the constants that were running, the recorded attempts lead to the recorded \
                 choice in {:.1} % of {} decisions (80 % are needed), to times that are {:.1} % off (22 %), and to probabilities of \
                 failure that are {:.2} points off (3); so nothing is said about other constants. Records lack what other \
                 replicas and earlier hours taught: choose a longer time with --since, or try the change with a canary",
                nearness.alike_share() * 100.0,
                nearness.decisions,
                nearness.times_apart() * 100.0,
                nearness.failures_apart() * 100.0
            ),
            NoAnswer::TooMuchKnown(most) => write!(
                f,
                "too many endpoints were in use in this time: a review keeps the state of each one every ten seconds, and a gateway \
                 has memory for {} states. Take a shorter time, or run 'pointsman regret' beside the gateway",
                grouped(u128::try_from(*most).unwrap_or(u128::MAX))
            ),
            NoAnswer::Stopped => f.write_str("the comparison was cancelled"),
            NoAnswer::SelfTest { decisions, different, first } => write!(
                f,
                "{SELF_TEST_FAILED}: {different} of {decisions} decisions do not come out of their records as they were made, the \
                 first is {first}; so nothing is said about another configuration. 'pointsman replay {first}' shows one of \
                 them; please report it"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_in_the_background_rests_for_nine_times_as_long_as_it_had_a_processor() {
        let ms = Duration::from_millis;
        let since = Instant::now().checked_sub(BURST).unwrap();
        let rest = |before, now| Pacer { pace: Pace::Background, since, used: before }.rest(now);
        assert_eq!(rest(Some(ms(10)), Some(ms(10))), ms(0), "others went before it");
        assert_eq!(rest(Some(ms(10)), Some(ms(16))), ms(54));
        assert_eq!(rest(Some(ms(10)), Some(ms(900))), LONGEST_REST);
        assert!(rest(None, Some(ms(16))) >= BURST * REST, "only the clock tells");
    }

    #[test]
    fn a_job_in_the_background_rests_after_one_decision_if_that_took_long() {
        let begun = Instant::now();
        Pacer { pace: Pace::Background, since: begun.checked_sub(BURST).unwrap(), used: None }.step();
        assert!(begun.elapsed() >= BURST * REST);
    }

    #[test]
    fn a_sample_of_an_export_is_a_share_of_what_the_export_was_drawn_from() {
        let exported = Exported { records: 500, drawn_from: 2_000, ..Exported::default() };
        let half = Sample::of(250, 500);
        assert_eq!([sampled(None, None), sampled(None, Some(&exported))], [1.0, 0.25]);
        assert!((sampled(half, Some(&exported)) - 0.125).abs() < 1e-9);
        assert!((sampled(half, None) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_review_that_would_keep_too_much_says_how_to_get_figures_all_the_same() {
        let said = NoAnswer::TooMuchKnown(250_000).to_string();
        assert!(said.contains("250,000") && said.contains("Take a shorter time, or run 'pointsman regret'"), "{said}");
    }
}
