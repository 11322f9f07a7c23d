//! The record of a generation while it is being made, and the attempts that run for it. It reaches the ledger however
//! the request ends: dropped without a verdict, the client has left, or a handler panicked.

mod headers;
mod server_timing;

use std::{sync::Arc, time::Duration};

use pointsman_actors::{
    dialect::Outcome,
    domain::{AttemptReason, AttemptRecord, Generation, GenerationStatus, Tick},
};

use self::server_timing::Waterfall;
use crate::{
    access::admission::{Admitted, RateState},
    base::{
        clock,
        events::{self, HedgeEnd},
    },
    proxy::dispatch::attempt::{Attempt, Names, millis},
    state::{conversations::RequestPreferences, gateway::Worker},
    upstream::UpstreamError,
};

/// Attempts of one request that run at a time: one, and one that races it.
const LANES: usize = 2;

/// A growing record.
pub struct GenerationDraft {
    worker: Worker,
    accepted: Tick,
    /// How long the routing took.
    routing: Duration,
    /// Time spent waiting for upstreams, whether or not anything came of it.
    upstream_time: Duration,
    /// Since when an upstream has kept the client waiting.
    waiting_since: Option<Tick>,
    running: [Option<Running>; LANES],
    /// The phases of the attempt that serves, or of the last that ended.
    latest: Option<Waterfall>,
    /// Shared with the ledger once it was handed in: whatever is entered after that is entered in a copy.
    record: Arc<Generation>,
    posted: bool,
    admitted: Option<Admitted>,
    intent: Option<RequestPreferences>,
    /// Paths of members of the request that had no effect.
    ignored: Vec<String>,
    rate: Option<RateState>,
}

/// An attempt that runs.
struct Running {
    attempt: Attempt,
    /// Parameters its endpoint was not sent.
    dropped: Vec<Arc<str>>,
}

impl GenerationDraft {
    /// The draft of `record`, of a request accepted at `accepted` and just routed.
    pub fn new(worker: &Worker, accepted: Tick, admitted: Admitted, record: Generation) -> GenerationDraft {
        GenerationDraft {
            worker: worker.clone(),
            accepted,
            routing: clock::now() - record.decision.tick,
            upstream_time: Duration::ZERO,
            waiting_since: None,
            running: [None, None],
            latest: None,
            record: Arc::new(record),
            posted: false,
            rate: admitted.rate,
            admitted: Some(admitted),
            intent: None,
            ignored: Vec::new(),
        }
    }

    /// The same, with an intent that hears how it ends.
    #[must_use]
    pub fn minding(mut self, intent: RequestPreferences) -> GenerationDraft {
        self.intent = Some(intent);
        self
    }

    /// The same, of a request whose members at these paths had no effect.
    #[must_use]
    pub fn ignoring(mut self, paths: Vec<String>) -> GenerationDraft {
        self.ignored = paths;
        self
    }

    /// What is known so far.
    #[must_use]
    pub fn record(&self) -> &Generation {
        &self.record
    }

    /// An attempt begins. Unless it races another, it is the one that serves as long as it runs.
    pub fn begin(&mut self, attempt: Attempt, dropped: Vec<Arc<str>>) {
        self.waiting_since.get_or_insert(attempt.started);
        if attempt.turn.reason == AttemptReason::Hedge {
            self.hedge(HedgeEnd::Started);
        } else {
            self.shows(&attempt.names());
            self.entry().dropped_parameters.clone_from(&dropped);
        }
        let free = self.running.iter_mut().find(|lane| lane.is_none());
        debug_assert!(free.is_some(), "no more than two attempts run at a time");
        if let Some(lane) = free {
            *lane = Some(Running { attempt, dropped });
        }
    }

    /// The running attempt of that number.
    pub fn attempt(&mut self, n: u32) -> Option<&mut Attempt> {
        self.running.iter_mut().flatten().map(|running| &mut running.attempt).find(|attempt| attempt.turn.n == n)
    }

    /// The attempt gave the answer, or its beginning: it serves. One that raced it has lost.
    pub fn won(&mut self, n: u32) {
        let now = clock::now();
        let rival = self.running.iter().flatten().map(|running| running.attempt.turn.n).find(|other| *other != n);
        if let Some(lost) = rival.and_then(|rival| self.take(rival)) {
            let hedge_won = lost.attempt.turn.reason != AttemptReason::Hedge;
            self.hedge(if hedge_won { HedgeEnd::Won } else { HedgeEnd::Lost });
            self.push(lost.attempt.lost_race());
        }
        self.waited(now);
        let Some(winner) = self.running.iter_mut().flatten().find(|running| running.attempt.turn.n == n) else {
            return;
        };
        self.latest = Some(Waterfall::of(&winner.attempt));
        let latency = millis(winner.attempt.first_token.unwrap_or(now) - self.accepted);
        let (names, dropped) = (winner.attempt.names(), std::mem::take(&mut winner.dropped));
        self.shows(&names);
        let record = self.entry();
        record.latency_ms = Some(latency);
        record.dropped_parameters = dropped;
    }

    /// The attempt failed before the client saw anything of it: neither its model nor its times are the answer's.
    pub fn failed(&mut self, n: u32, error: &UpstreamError) {
        let Some(failed) = self.take(n) else { return };
        let (was_hedge, raced) = (failed.attempt.turn.reason == AttemptReason::Hedge, self.runs());
        self.latest = Some(Waterfall::of(&failed.attempt));
        let record = failed.attempt.failed(error, self.record.id, None);
        self.push(record);
        if was_hedge {
            self.hedge(HedgeEnd::Failed);
        }
        if !raced {
            self.waited(clock::now());
            self.forget_winner();
        } else if let Some(left) = self.running.iter().flatten().next() {
            let (names, dropped) = (left.attempt.names(), left.dropped.clone());
            self.shows(&names);
            self.entry().dropped_parameters = dropped;
        }
    }

    /// Whatever still runs was asked in vain: another attempt has settled that the request fails.
    pub fn called_off(&mut self) {
        while let Some(running) = self.running.iter_mut().find_map(Option::take) {
            if running.attempt.turn.reason == AttemptReason::Hedge {
                self.hedge(HedgeEnd::Lost);
            }
            self.push(running.attempt.lost_race());
        }
        self.waited(clock::now());
    }

    /// Makes the record readable while the stream still runs.
    pub fn publish_running(&self) {
        self.worker.schedule_flush(self.worker.events.record(Arc::clone(&self.record)));
    }

    /// The whole answer is there: it came of attempt `n`.
    pub fn complete(&mut self, n: u32, outcome: Outcome) {
        if let Some(running) = self.take(n) {
            self.push(running.attempt.completed(&outcome));
        }
        self.adopt(outcome);
        self.post(GenerationStatus::Completed);
    }

    /// Attempt `n` broke after the client had seen this much of it.
    pub fn broke(&mut self, n: u32, error: &UpstreamError, outcome: Outcome) {
        if let Some(running) = self.take(n) {
            self.push(running.attempt.failed(error, self.record.id, Some(&outcome)));
        }
        self.adopt(outcome);
        self.post(GenerationStatus::Failed);
    }

    /// It ended with an error, and nothing of an answer.
    pub fn fail(&mut self) {
        self.called_off();
        self.forget_winner();
        self.post(GenerationStatus::Failed);
    }

    /// The client left after it had seen this much of attempt `n`.
    pub fn cancel(&mut self, n: u32, outcome: Outcome) {
        if let Some(running) = self.take(n) {
            self.push(running.attempt.cancelled(Some(&outcome)));
        }
        self.adopt(outcome);
        self.entry().finish = None;
        self.post(GenerationStatus::Cancelled);
    }

    /// The gateway stopped after the client had seen this much of attempt `n`: that is nobody's failure but ours.
    pub fn stop(&mut self, n: u32, outcome: Outcome) {
        if let Some(running) = self.take(n) {
            self.push(running.attempt.cancelled(Some(&outcome)));
        }
        self.adopt(outcome);
        self.post(GenerationStatus::Failed);
    }

    /// There is no room for what attempt `n` gives: that is nobody's failure but ours, and its client sees nothing of it.
    pub fn find_no_room(&mut self, n: u32) {
        if let Some(running) = self.take(n) {
            self.push(running.attempt.cancelled(None));
        }
        self.forget_winner();
        self.post(GenerationStatus::Failed);
    }

    fn take(&mut self, n: u32) -> Option<Running> {
        let is_it = |lane: &&mut Option<Running>| lane.as_ref().is_some_and(|running| running.attempt.turn.n == n);
        self.running.iter_mut().find(is_it)?.take()
    }

    fn runs(&self) -> bool {
        self.running.iter().any(Option::is_some)
    }

    /// Attempts are told in the order they began, not in that they ended.
    fn push(&mut self, mut attempt: AttemptRecord) {
        attempt.started_ms = attempt.started_ms.saturating_sub(self.accepted.0 / 1000);
        let record = self.entry();
        if attempt.served {
            record.generation_time_ms = Some(attempt.duration_ms);
        }
        let place = record.attempts.partition_point(|earlier| earlier.n < attempt.n);
        record.attempts.insert(place, attempt);
    }

    /// From here on the time is the gateway's own again.
    fn waited(&mut self, until: Tick) {
        if let Some(since) = self.waiting_since.take() {
            self.upstream_time += until - since;
        }
    }

    /// The record, to be written in.
    fn entry(&mut self) -> &mut Generation {
        Arc::make_mut(&mut self.record)
    }

    fn shows(&mut self, names: &Names) {
        let record = self.entry();
        record.model = Some(Arc::clone(&names.model));
        record.provider_name = Some(Arc::clone(&names.provider));
        record.provider_slug = Some(Arc::clone(&names.slug));
    }

    fn forget_winner(&mut self) {
        let record = self.entry();
        record.model = None;
        record.provider_name = None;
        record.provider_slug = None;
        record.latency_ms = None;
        record.generation_time_ms = None;
        record.dropped_parameters = Vec::new();
    }

    fn adopt(&mut self, outcome: Outcome) {
        let record = self.entry();
        record.usage = outcome.usage;
        record.cost = outcome.cost;
        record.finish = outcome.finish;
        record.native_finish_reason = outcome.native_finish;
        record.upstream_id = outcome.upstream_id;
        record.media_completion = outcome.images;
    }

    fn post(&mut self, status: GenerationStatus) {
        if std::mem::replace(&mut self.posted, true) {
            return;
        }
        self.entry().status = status;
        self.admitted = None;
        if let Some(intent) = &self.intent {
            let now = clock::now();
            intent.ended(&self.worker.shared.preferences, &self.record, now - self.accepted, now);
        }
        events::GenerationEnded { generation: &self.record }.emit(&self.worker.shared.metrics);
        self.worker.schedule_flush(self.worker.events.record(Arc::clone(&self.record)));
    }

    fn hedge(&self, end: HedgeEnd) {
        events::Hedged { end }.emit(&self.worker.shared.metrics);
    }

    /// The client left while attempts ran, and had seen nothing of them.
    fn abandon(&mut self) {
        let raced = self.running.iter().all(Option::is_some);
        while let Some(running) = self.running.iter_mut().find_map(Option::take) {
            if raced && running.attempt.turn.reason == AttemptReason::Hedge {
                self.hedge(HedgeEnd::Cancelled);
            }
            let (first, duration) = (running.attempt.first_token, clock::now() - running.attempt.started);
            let latency = first.map(|first| millis(first - self.accepted));
            let record = self.entry();
            record.latency_ms = latency.or(record.latency_ms);
            record.generation_time_ms = Some(millis(duration));
            self.push(running.attempt.cancelled(None));
        }
        self.entry().finish = None;
    }
}

impl Drop for GenerationDraft {
    fn drop(&mut self) {
        if !self.posted {
            self.abandon();
            // Cancelled means that the client left.
            let ours = std::thread::panicking() || self.worker.shared.drain.is_over();
            self.post(if ours { GenerationStatus::Failed } else { GenerationStatus::Cancelled });
        }
    }
}
