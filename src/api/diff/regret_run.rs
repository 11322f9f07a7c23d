//! Reviews recorded decisions: one pass collects what was known of endpoints and when, one makes each decision again, as it was and
//! with less in its way.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use pointsman_domain::EndpointId;
use pointsman_ledger::{
    entry::Filter,
    traffic::{Traffic, TrafficRecord, Wanted},
};
use pointsman_routing::explain::{
    diff::SelfTest,
    estimate::Position,
    regret::{FORESIGHT_MS, Hindsight, Observed, Regret, Regrets, Timeline},
};

use super::{
    comparisons::BySetup,
    run::{NoAnswer, Pace, Pacer},
};

/// Which records, and how they are told apart.
pub(crate) struct RegretRequest {
    pub wanted: Wanted,
    pub by_day: bool,
    pub threads: usize,
    pub pace: Pace,
    /// Most that is kept of what was known of endpoints ([`Timeline::kept`]); beyond it there is no answer.
    pub most_kept: usize,
}

/// What the records say, before it is put into words.
pub(crate) struct RegretReview {
    /// The group with most requests first, each with its days behind it.
    pub regrets: Vec<Regret>,
    pub self_tested: u64,
    /// Requests that no endpoint could serve.
    pub unserved: u64,
    pub other_algorithm: u64,
    pub unreadable: u64,
    pub names: BTreeMap<EndpointId, String>,
}

/// What one thread finds.
#[derive(Default)]
struct Part {
    regrets: Regrets,
    identical: u64,
    different: u64,
    unserved: u64,
    other_algorithm: u64,
    /// The first one by name that does not come out as it was made.
    first: Option<String>,
}

impl Part {
    fn add(&mut self, hindsight: &Hindsight, record: &TrafficRecord, timeline: &Timeline) {
        let generation = &record.generation;
        let outcome = match hindsight.self_test(&generation.decision) {
            SelfTest::OtherAlgorithm => {
                self.other_algorithm += 1;
                return;
            }
            SelfTest::Different => Observed::Different,
            SelfTest::Identical => {
                let position = Position { draw: record.draw, cluster: record.cluster };
                self.regrets.observe(hindsight, generation, timeline, position)
            }
        };
        match outcome {
            Observed::Counted => self.identical += 1,
            Observed::Unserved => (self.identical, self.unserved) = (self.identical + 1, self.unserved + 1),
            Observed::Different => {
                self.different += 1;
                self.first = self.first.take().into_iter().chain([record.name.clone()]).min();
            }
        }
    }

    fn merge(mut self, other: Part) -> Part {
        self.regrets.merge(other.regrets);
        self.identical += other.identical;
        self.different += other.different;
        self.unserved += other.unserved;
        self.other_algorithm += other.other_algorithm;
        self.first = self.first.into_iter().chain(other.first).min();
        self
    }
}

/// Reviews the wanted records. Blocks, and keeps `request.threads` threads busy.
///
/// # Errors
/// There is no answer.
pub(crate) fn run(traffic: &Traffic, request: &RegretRequest, stop: &AtomicBool) -> Result<RegretReview, NoAnswer> {
    let timeline = timeline(traffic, request, stop)?;
    let hindsights = BySetup::new();
    let new = || (Part::default(), Pacer::new(request.pace));
    let step = |(part, pacer): &mut (Part, Pacer), record: TrafficRecord| {
        pacer.step();
        let generation = &record.generation;
        let hindsight = |_: &[_]| Arc::new(Hindsight::new(&generation.catalog, &generation.policy));
        part.add(&hindsights.of(generation, hindsight), &record, &timeline);
    };
    let folded = traffic.fold(&request.wanted, request.threads, stop, new, step);
    let (parts, reading) = folded.map_err(NoAnswer::Unreadable)?;
    if stop.load(Relaxed) {
        return Err(NoAnswer::Stopped);
    }
    let whole = parts.into_iter().map(|(part, _)| part).fold(Part::default(), Part::merge);
    let decisions = whole.identical + whole.different;
    match decisions {
        _ if whole.different > 0 => {
            let first = whole.first.unwrap_or_default();
            return Err(NoAnswer::SelfTest { decisions, different: whole.different, first });
        }
        0 if whole.other_algorithm > 0 => return Err(NoAnswer::OtherAlgorithm(whole.other_algorithm)),
        0 => return Err(NoAnswer::Empty),
        _ => {}
    }
    let mut pacer = Pacer::new(request.pace);
    let goes_on = || {
        pacer.step();
        !stop.load(Relaxed)
    };
    let regrets = whole.regrets.groups_while(request.by_day, goes_on).ok_or(NoAnswer::Stopped)?;
    let endpoints = |one: &Regret| {
        let best = one.fixed.best.as_ref().map(|best| best.endpoint);
        let crowded = one.refusals.iter().map(|(id, _)| *id);
        one.fixed.refused.keys().copied().chain(best).chain(crowded).collect::<Vec<_>>()
    };
    let name = |id| hindsights.all().iter().find_map(|one| one.value.name(id));
    let names = regrets.iter().flat_map(endpoints).filter_map(|id| Some((id, name(id)?))).collect();
    Ok(RegretReview {
        regrets,
        self_tested: whole.identical,
        unserved: whole.unserved,
        other_algorithm: whole.other_algorithm,
        unreadable: reading.unreadable,
        names,
    })
}

/// What all records knew, whoever asked, also those just before and after the wanted ones.
fn timeline(traffic: &Traffic, request: &RegretRequest, stop: &AtomicBool) -> Result<Timeline, NoAnswer> {
    let Filter { since_ms, until_ms, .. } = request.wanted.filter;
    let filter = Filter {
        since_ms: since_ms.map(|since| since.saturating_sub(FORESIGHT_MS)),
        until_ms: until_ms.map(|until| until.saturating_add(FORESIGHT_MS)),
        ..Filter::default()
    };
    let ends = AtomicBool::new(false);
    let new = || (Timeline::default(), Pacer::new(request.pace));
    let step = |(timeline, pacer): &mut (Timeline, Pacer), record: TrafficRecord| {
        pacer.step();
        if stop.load(Relaxed) || timeline.kept() > request.most_kept {
            ends.store(true, Relaxed);
        } else {
            timeline.add(&record.generation, record.draw);
        }
    };
    let wanted = Wanted { filter, ..Wanted::default() };
    let folded = traffic.fold(&wanted, request.threads, &ends, new, step);
    let (parts, _) = folded.map_err(NoAnswer::Unreadable)?;
    let merged = parts.into_iter().map(|(part, _)| part).reduce(|mut whole, part| {
        whole.merge(part);
        whole
    });
    let whole = merged.unwrap_or_default();
    match whole.kept() > request.most_kept {
        true => Err(NoAnswer::TooMuchKnown(request.most_kept)),
        false => Ok(whole),
    }
}
