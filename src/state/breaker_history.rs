//! How circuit breakers moved in the last hour: for the console, the status and the live feed.
//!
//! A worker enters each move when it happens, which is rare. Nothing here decides: the breakers themselves are on the
//! live board. Memory is bounded by `MOST_SUBJECTS` and `MOST_MOVES`. Times are arguments.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use pointsman_domain::{Catalog, Circuit, FailureCause, Tick};
use pointsman_routing::stats::{BreakerChange, Gate, GateChange};

/// How far back the phases reach.
pub const SPAN: Duration = Duration::from_secs(3_600);
/// Most breakers with a history; the one that moved longest ago makes room.
const MOST_SUBJECTS: usize = 256;
/// Most moves that are kept of one breaker: a change every minute for an hour.
const MOST_MOVES: usize = 64;

/// What a breaker guards: an endpoint, or a whole provider.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Slug of the provider.
    pub provider: Arc<str>,
    /// Id of the model at it; `None` for the breaker of the whole provider.
    pub model: Option<Arc<str>>,
}

/// One move of a breaker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BreakerMove {
    /// Counted from 1 over all breakers.
    pub number: u64,
    /// When.
    pub at: Tick,
    /// From where to where.
    pub change: GateChange,
    /// The failure that caused it; `None` after a successful probe.
    pub cause: Option<FailureCause>,
}

/// A state and how long it lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// The state.
    pub circuit: Circuit,
    /// When it began, or the begin of the hour.
    pub from: Tick,
    /// When it ended, or now.
    pub until: Tick,
}

/// The history. One per process.
#[derive(Debug, Default)]
pub struct BreakerHistory(Mutex<HistoryState>);

#[derive(Debug, Default)]
struct HistoryState {
    last: u64,
    subjects: BTreeMap<Subject, Moves>,
}

#[derive(Debug, Default)]
struct Moves {
    kept: VecDeque<BreakerMove>,
    /// Whether earlier moves had to make room.
    is_cut: bool,
}

impl BreakerHistory {
    /// Enters a change that happened at `now`. Positions are those of `catalog`.
    pub fn record(&self, catalog: &Catalog, change: &BreakerChange, now: Tick) {
        let Some(endpoint) = catalog.endpoint(change.index) else { return };
        let Some(provider) = catalog.provider_of(endpoint) else { return };
        let slug: Arc<str> = provider.slug.as_str().into();
        let model = catalog.model_of(endpoint).map(|model| Arc::from(model.id.as_str()));
        let of_endpoint = change.endpoint_gate.map(|gate| (model, gate));
        let of_provider = change.provider_gate.map(|gate| (None, gate));
        let mut state = self.0.lock();
        for (model, gate) in of_endpoint.into_iter().chain(of_provider) {
            state.enter(Subject { provider: Arc::clone(&slug), model }, gate, change.cause, now);
        }
    }

    /// Number of the last move; 0 before the first.
    pub fn last(&self) -> u64 {
        self.0.lock().last
    }

    /// The kept moves after that of this number, in their order.
    pub fn after(&self, number: u64) -> Vec<(Subject, BreakerMove)> {
        let state = self.0.lock();
        let all = state.subjects.iter().flat_map(|(subject, moves)| moves.kept.iter().map(move |one| (subject, one)));
        let mut later: Vec<_> =
            all.filter(|(_, one)| one.number > number).map(|(subject, one)| (subject.clone(), *one)).collect();
        later.sort_by_key(|(_, one)| one.number);
        later
    }

    /// The phases of the last hour of each breaker of a provider that moved within it, that of the whole provider first.
    /// Nothing is known before `started`.
    pub fn phases(&self, provider: &str, started: Tick, now: Tick) -> Vec<(Subject, Vec<Phase>)> {
        let state = self.0.lock();
        let own = state.subjects.iter().filter(|(subject, _)| &*subject.provider == provider);
        let moved = own.filter(|(_, moves)| moves.is_recent(now));
        moved.map(|(subject, moves)| (subject.clone(), moves.phases(started, now))).collect()
    }
}

impl HistoryState {
    fn enter(&mut self, subject: Subject, change: GateChange, cause: Option<FailureCause>, now: Tick) {
        if !self.subjects.contains_key(&subject) && self.subjects.len() >= MOST_SUBJECTS {
            let oldest = self.subjects.iter().min_by_key(|(_, moves)| moves.kept.back().map(|one| one.number));
            let oldest = oldest.map(|(subject, _)| subject.clone());
            oldest.and_then(|subject| self.subjects.remove(&subject));
        }
        self.last += 1;
        let moves = self.subjects.entry(subject).or_default();
        if moves.kept.len() >= MOST_MOVES {
            moves.kept.pop_front();
            moves.is_cut = true;
        }
        moves.kept.push_back(BreakerMove { number: self.last, at: now, change, cause });
    }
}

impl Moves {
    fn is_recent(&self, now: Tick) -> bool {
        let last = self.kept.back();
        // An endpoint that nobody calls stays open or half-open without a move.
        last.is_some_and(|last| now.since(last.at) < SPAN || !last.change.to.is_passing())
    }

    fn phases(&self, started: Tick, now: Tick) -> Vec<Phase> {
        let Some(first) = self.kept.front() else { return Vec::new() };
        let hour_ago = now.0.saturating_sub(u64::try_from(SPAN.as_micros()).unwrap_or(u64::MAX));
        // Of what was before the moves that are kept, only the state just before them is known.
        let known = if self.is_cut { first.at } else { started };
        let begin = Tick(hour_ago).max(known);
        let mut phases = Phases { begin, list: Vec::new() };
        let (mut gate, mut since) = (first.change.from, begin);
        for one in &self.kept {
            phases.add(gate, since, one.at);
            (gate, since) = (one.change.to, one.at);
        }
        phases.add(gate, since, now);
        phases.list
    }
}

struct Phases {
    begin: Tick,
    list: Vec<Phase>,
}

impl Phases {
    /// Adds the time during which a gate was not moved. It becomes half-open by itself.
    fn add(&mut self, gate: Gate, from: Tick, until: Tick) {
        let turn = match gate {
            Gate::Cooling { until: end } | Gate::Open { until: end } | Gate::ConfigFault { until: end } => {
                end.max(from).min(until)
            }
            Gate::Passing | Gate::HalfOpen { .. } | Gate::Probing { .. } => until,
        };
        self.push(circuit_of(gate), from, turn);
        self.push(Circuit::HalfOpen, turn, until);
    }

    fn push(&mut self, circuit: Circuit, from: Tick, until: Tick) {
        let from = from.max(self.begin);
        if from >= until {
            return;
        }
        match self.list.last_mut() {
            Some(last) if last.circuit == circuit => last.until = until,
            _ => self.list.push(Phase { circuit, from, until }),
        }
    }
}

/// The state that is shown: unlike [`Gate::circuit`], a cooldown is a state of its own.
pub fn circuit_of(gate: Gate) -> Circuit {
    if matches!(gate, Gate::Cooling { .. }) { Circuit::Cooldown } else { gate.circuit() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Tick = Tick(400 * 86_400_000_000);

    fn at(minutes: u64) -> Tick {
        START.plus(Duration::from_secs(60 * minutes))
    }

    fn subject(model: Option<&str>) -> Subject {
        Subject { provider: "acme".into(), model: model.map(Arc::from) }
    }

    fn enter(history: &BreakerHistory, model: &str, (from, to): (Gate, Gate), minute: u64) {
        history.0.lock().enter(subject(Some(model)), GateChange { from, to }, None, at(minute));
    }

    /// The phases of the only breaker, such as `closed 0-10`, in minutes since the start.
    fn told(history: &BreakerHistory, now: u64) -> Vec<String> {
        let minutes = |tick: Tick| tick.since(START).as_secs() / 60;
        let all = history.phases("acme", START, at(now));
        let phases = all.first().map(|(_, phases)| phases.clone()).unwrap_or_default();
        let told =
            |phase: &Phase| format!("{} {}-{}", phase.circuit.as_str(), minutes(phase.from), minutes(phase.until));
        phases.iter().map(told).collect()
    }

    #[test]
    fn an_open_breaker_becomes_half_open_by_itself_and_closes_after_a_probe() {
        let history = BreakerHistory::default();
        assert_eq!(told(&history, 5), Vec::<String>::new());
        let open = Gate::Open { until: at(20) };
        enter(&history, "small", (Gate::Passing, open), 10);
        assert_eq!(told(&history, 15), ["closed 0-10", "open 10-15"]);
        assert_eq!(told(&history, 25), ["closed 0-10", "open 10-20", "half_open 20-25"]);
        enter(&history, "small", (Gate::Probing { since: at(20) }, Gate::Passing), 30);
        assert_eq!(told(&history, 40), ["closed 0-10", "open 10-20", "half_open 20-30", "closed 30-40"]);
        assert_eq!(told(&history, 75), ["open 15-20", "half_open 20-30", "closed 30-75"]);
        assert_eq!(told(&history, 95), Vec::<String>::new(), "it has not moved for an hour");
        assert!(history.phases("other", START, at(40)).is_empty());
    }

    #[test]
    fn a_cooldown_is_told_apart_and_a_breaker_that_stays_open_is_shown_after_an_hour() {
        let history = BreakerHistory::default();
        enter(&history, "small", (Gate::Passing, Gate::Cooling { until: at(12) }), 10);
        assert_eq!(told(&history, 14), ["closed 0-10", "cooldown 10-12", "half_open 12-14"]);
        assert_eq!(told(&history, 100), ["half_open 40-100"]);
    }

    #[test]
    fn moves_are_bounded_and_what_made_room_is_not_made_up() {
        let history = BreakerHistory::default();
        for minute in 0..100 {
            let open = Gate::Open { until: at(minute + 50) };
            let change = if minute % 2 == 0 { (Gate::Passing, open) } else { (open, Gate::Passing) };
            enter(&history, "small", change, 10);
        }
        assert_eq!(history.after(0).len(), MOST_MOVES);
        assert_eq!(told(&history, 20), ["closed 10-20"]);
        for model in 0..MOST_SUBJECTS {
            enter(&history, &format!("model-{model}"), (Gate::Passing, Gate::Passing), 11);
        }
        assert_eq!(history.0.lock().subjects.len(), MOST_SUBJECTS);
        assert!(!history.0.lock().subjects.contains_key(&subject(Some("small"))), "it moved longest ago");
    }

    #[test]
    fn moves_are_told_once_in_their_order() {
        let history = BreakerHistory::default();
        for model in ["b", "a", "c"] {
            enter(&history, model, (Gate::Passing, Gate::Open { until: at(9) }), 1);
        }
        let models: Vec<_> = history.after(1).into_iter().filter_map(|(subject, _)| subject.model).collect();
        assert_eq!(models, ["a".into(), "c".into()].map(|model: Box<str>| Arc::<str>::from(model)));
        assert!(history.after(history.last()).is_empty());
    }
}
