//! Attempt after attempt until one gives what was asked for, or two side by side when the first one is late.
//!
//! A race has two lanes at most and is run once per request: the first that has something to show wins, the other
//! one's connection is closed at once. One that fails while the other runs simply leaves it running. Everything is
//! inside one future: dropping it, as happens when the client leaves, drops both.

use std::{
    cell::RefCell,
    future::Future,
    pin::{Pin, pin},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::future::{Either, select};
use pointsman_actors::actors::router::Routed;

use crate::{
    base::error::ApiError,
    proxy::dispatch::{
        RequestedWork,
        attempt::Attempt,
        call::Target,
        draft::GenerationDraft,
        walk::{AfterFailure, PlanRun},
    },
    state::gateway::Worker,
    upstream::UpstreamError,
};

/// How one endpoint is asked, plain or streamed.
pub(super) trait AttemptRunner {
    /// What wins a race.
    type Got;

    /// Asks `target` until it has something to show.
    async fn ask(&self, target: &Target<'_>, body: Bytes, lane: AttemptHandle<'_>) -> Result<Self::Got, UpstreamError>;
}

/// One attempt, as whoever asks sees it.
#[derive(Clone, Copy)]
pub(super) struct AttemptHandle<'a> {
    /// Where its progress is noted. Borrowed between two waits only.
    pub draft: &'a RefCell<GenerationDraft>,
    /// Its number.
    pub n: u32,
    /// When a plain answer must have ended.
    pub deadline: Instant,
    /// How long a stream's first byte may take.
    pub first_byte: Duration,
}

impl AttemptHandle<'_> {
    /// Notes something of the attempt.
    pub(super) fn note(&self, what: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = self.draft.borrow_mut().attempt(self.n) {
            what(attempt);
        }
    }
}

/// A race, or a walk, about to begin.
pub(super) struct Race<'a, A> {
    pub worker: &'a Worker,
    pub work: &'a RequestedWork,
    pub draft: &'a RefCell<GenerationDraft>,
    pub ask: &'a A,
}

/// How one round ended: one attempt, or two side by side.
enum RaceOutcome<T> {
    /// The attempt of this number has something to show.
    Won(u32, T),
    /// Whoever ran has failed.
    Failed,
    /// The client is told this.
    Stopped(ApiError),
}

/// An attempt that was begun.
#[derive(Clone, Copy)]
struct StartedAttempt<'a> {
    lane: AttemptHandle<'a>,
    position: usize,
}

impl<'a, A: AttemptRunner> Race<'a, A> {
    /// Walks the plan until an attempt has something to show. Gives its number too; it still runs.
    ///
    /// # Errors
    /// What the client is told when none has; the record then says so too.
    pub(super) async fn run(&self, walk: &mut PlanRun) -> Result<(u32, A::Got), ApiError> {
        // Two attempts read the plan while the walk looks for the second one.
        let routed = walk.routed.clone();
        loop {
            let Some(attempt) = walk.next().await else { return Err(self.give_up(walk.give_up())) };
            match self.round(walk, &routed, attempt).await {
                RaceOutcome::Won(n, got) => {
                    self.draft.borrow_mut().won(n);
                    return Ok((n, got));
                }
                RaceOutcome::Failed => {}
                RaceOutcome::Stopped(error) => return Err(self.give_up(error)),
            }
        }
    }

    /// One attempt, and perhaps one that races it. When it returns, whoever did not win is gone from the wire.
    async fn round(&self, walk: &mut PlanRun, routed: &Routed, attempt: Attempt) -> RaceOutcome<A::Got> {
        let position = attempt.turn.position;
        let (moments, started) = (walk.moments(position), Instant::now());
        let Some((first, asking)) = self.begin(walk, routed, attempt) else {
            return RaceOutcome::Stopped(ApiError::internal());
        };
        let mut asking = pin!(asking);
        for (after, late) in moments.into_iter().flatten() {
            if let Ok(result) = tokio::time::timeout_at((started + after).into(), asking.as_mut()).await {
                return self.alone(walk, first, result);
            }
            let at_work = self.draft.borrow_mut().attempt(first.lane.n).is_none_or(|attempt| attempt.at_work);
            let hedge = if at_work { None } else { walk.hedge(position, late) };
            if let Some((second, rival)) = hedge.and_then(|hedge| self.begin(walk, routed, hedge)) {
                // Few are raced: their futures need no room in everybody's.
                return self.raced(walk, (first, asking), (second, Box::pin(rival))).await;
            }
        }
        self.alone(walk, first, asking.await)
    }

    async fn raced(
        &self,
        walk: &mut PlanRun,
        (first, one): (StartedAttempt<'a>, Pin<&mut impl Future<Output = Result<A::Got, UpstreamError>>>),
        (second, other): (StartedAttempt<'a>, Pin<Box<impl Future<Output = Result<A::Got, UpstreamError>>>>),
    ) -> RaceOutcome<A::Got> {
        match select(one, other).await {
            Either::Left((Ok(got), _)) => RaceOutcome::Won(first.lane.n, got),
            Either::Right((Ok(got), _)) => RaceOutcome::Won(second.lane.n, got),
            Either::Left((Err(error), other)) => match self.failed(walk, first, &error, true) {
                AfterFailure::Stop(error) => RaceOutcome::Stopped(error),
                AfterFailure::GoOn => self.alone(walk, second, other.await),
            },
            Either::Right((Err(error), one)) => match self.failed(walk, second, &error, true) {
                AfterFailure::Stop(error) => RaceOutcome::Stopped(error),
                AfterFailure::GoOn => self.alone(walk, first, one.await),
            },
        }
    }

    /// How an attempt without a rival ended.
    fn alone(
        &self,
        walk: &mut PlanRun,
        begun: StartedAttempt<'a>,
        result: Result<A::Got, UpstreamError>,
    ) -> RaceOutcome<A::Got> {
        match result {
            Ok(got) => RaceOutcome::Won(begun.lane.n, got),
            Err(error) => match self.failed(walk, begun, &error, false) {
                AfterFailure::Stop(error) => RaceOutcome::Stopped(error),
                AfterFailure::GoOn => RaceOutcome::Failed,
            },
        }
    }

    fn failed(
        &self,
        walk: &mut PlanRun,
        begun: StartedAttempt<'a>,
        error: &UpstreamError,
        raced: bool,
    ) -> AfterFailure {
        self.draft.borrow_mut().failed(begun.lane.n, error);
        walk.failed(begun.position, error, raced)
    }

    /// Begins an attempt; `None` only if catalog and clients disagreed, which start-up rules out.
    fn begin<'r>(
        &self,
        walk: &PlanRun,
        routed: &'r Routed,
        attempt: Attempt,
    ) -> Option<(StartedAttempt<'a>, impl Future<Output = Result<A::Got, UpstreamError>> + use<'r, 'a, A>)>
    where
        'a: 'r,
    {
        let (n, position, endpoint) = (attempt.turn.n, attempt.turn.position, attempt.endpoint);
        let target = Target::of(self.worker, routed, endpoint)?;
        let outgoing = self.work.upstream_body(&routed.catalog, target.endpoint);
        self.draft.borrow_mut().begin(attempt, outgoing.dropped);
        let (deadline, first_byte) = (walk.plain_deadline(), walk.first_byte_clock(position));
        let lane = AttemptHandle { draft: self.draft, n, deadline, first_byte };
        let ask = self.ask;
        let asking = async move { ask.ask(&target, outgoing.bytes, lane).await };
        Some((StartedAttempt { lane, position }, asking))
    }

    fn give_up(&self, error: ApiError) -> ApiError {
        let mut draft = self.draft.borrow_mut();
        draft.fail();
        draft.told(error)
    }
}
