//! What earlier requests say about the next one: where a conversation was served last, how often latency targets were met, and what
//! was spent against the pace of an alias.
//!
//! [`RequestHistory`] holds the state. At the start of a request it adds the sticky endpoint, the latency margin and the price of
//! quality to the query and returns [`RequestIntent`], which records the result when the request ends. A preview uses only the
//! first half, so it records nothing.

use std::{sync::Arc, time::Duration};

use pointsman_dialect::ChatRequest;
use pointsman_domain::{
    Alias, AttemptReason, Catalog, Decision, Generation, GenerationStatus, Objective, Preference, Query, RoutingPolicy,
    Sourced, TaskClass, TaskClassSource, Tick, Usage, Usd,
};
use pointsman_routing::{
    spend_pace::{CallEnd, SpendPaces},
    stats::{FirstTokenWait, LatencyTargets, RequestedTarget, SessionStart, SessionTurn, Sessions},
};

use crate::{base::error::ApiError, state::setup::Setup};

/// State of conversations, latency targets and spend paces. One per process; it survives a reload of the configuration.
pub struct RequestHistory {
    sessions: Sessions,
    /// How often latency targets were met.
    pub targets: LatencyTargets,
    /// What was spent against the paces of aliases. The routing memory saves them.
    pub paces: Arc<SpendPaces>,
}

impl RequestHistory {
    /// One with these paces. Ids of conversations are hashed with `secret`.
    pub fn new(secret: [u64; 4], paces: Arc<SpendPaces>) -> RequestHistory {
        RequestHistory { sessions: Sessions::new(secret), targets: LatencyTargets::default(), paces }
    }

    /// Sets the sticky endpoint, the latency margin and the price of quality in the query of a chat request, and returns what is
    /// needed to record its result. `owner` is the owner of the key. Changes nothing.
    pub fn apply(
        &self,
        setup: &Setup,
        chat: &ChatRequest,
        owner: u64,
        session_id: Option<&str>,
        query: &mut Query,
        now: Tick,
    ) -> RequestIntent {
        let policy = &setup.policy;
        let name = target_name(&setup.catalog, query);
        let start = SessionStart {
            owner,
            target: name,
            session_id: session_id.filter(|id| !id.is_empty()),
            opening: chat.opening,
            prompt_tokens: chat.prompt_tokens,
        };
        let turn = self.sessions.turn(&policy.sticky, &start);
        query.sticky = turn.as_ref().and_then(|turn| self.sessions.sticky(&policy.sticky, turn, now));
        // A conversation keeps its class, unless the client or the operator names one.
        let found = query.task_class.filter(|class| class.source.is_found());
        if let (Some(found), Some(turn)) = (found, &turn) {
            let kept = self.sessions.task(&policy.sticky, turn, now);
            query.task_class = Some(kept.map_or(found, |kept| TaskClass {
                task: kept.task,
                source: TaskClassSource::Conversation,
                features: found.features,
            }));
        }
        let latency_target = StreamLatencyTarget::requested_by(query, name);
        query.latency_margin =
            latency_target.as_ref().map_or(1.0, |target| self.targets.margin(&target.requested(), now));
        let spending = PacedSpending::of(&setup.catalog, query);
        if let Some(paced) = &spending {
            let pace = self.paces.get(&paced.alias, paced.thousand_calls);
            query.quality_per_dollar = pace.map_or(0.0, |pace| pace.quality_per_dollar());
        }
        RequestIntent { policy: Arc::clone(policy), turn, latency_target, spending }
    }
}

/// The conversation turn, the latency target and the spend pace of one chat request.
pub struct RequestIntent {
    policy: Arc<RoutingPolicy>,
    turn: Option<SessionTurn>,
    latency_target: Option<StreamLatencyTarget>,
    spending: Option<PacedSpending>,
}

/// Spending of a request to an alias with a spend pace.
struct PacedSpending {
    alias: Box<str>,
    thousand_calls: Usd,
    /// What the pace was charged, in dollars; 0 before the decision.
    charged: f64,
}

impl PacedSpending {
    fn of(catalog: &Catalog, query: &Query) -> Option<PacedSpending> {
        let alias = paced_alias(catalog, query)?;
        Some(PacedSpending { alias: alias.id.as_str().into(), thousand_calls: alias.spend_pace?, charged: 0.0 })
    }
}

/// The alias of the request, or the one that it is a part of, if it has a spend pace.
fn paced_alias<'c>(catalog: &'c Catalog, query: &Query) -> Option<&'c Alias> {
    let first = catalog.aliases_among(query.targets.get(..1)?);
    let divided = query.split.as_ref().and_then(|taken| catalog.alias(taken.alias));
    first.chain(divided).find(|alias| alias.spend_pace.is_some())
}

/// The latency target of a streamed request. Plain answers show no first token, so they have no target.
struct StreamLatencyTarget {
    name: Box<str>,
    objective: Objective,
    preference: Sourced<Preference>,
}

impl StreamLatencyTarget {
    fn requested_by(query: &Query, name: &str) -> Option<StreamLatencyTarget> {
        let preference = query.routing.preferred_max_latency.filter(|_| query.streamed)?;
        Some(StreamLatencyTarget { name: name.into(), objective: query.objective.value, preference })
    }

    fn requested(&self) -> RequestedTarget<'_> {
        RequestedTarget { name: &self.name, objective: self.objective, preference: self.preference }
    }
}

impl RequestIntent {
    /// Records a request that was refused before its first attempt: a missed target if capacity was lacking.
    pub fn refused(&self, history: &RequestHistory, error: &ApiError, now: Tick) {
        if error.is_capacity_error() {
            self.record_wait(history, FirstTokenWait::Failed(Duration::ZERO), now);
        }
    }

    /// Charges the spend pace with what the choice is expected to cost.
    pub fn decided(&mut self, history: &RequestHistory, decision: &Decision) {
        if let Some(paced) = &mut self.spending
            && let Some(choice) = decision.plan().next()
        {
            paced.charged = choice.inputs.cost;
            history.paces.charge(&paced.alias, paced.thousand_calls, paced.charged);
        }
    }

    /// Records the end of the request, `elapsed` after it was accepted.
    pub fn ended(&self, history: &RequestHistory, record: &Generation, elapsed: Duration, now: Tick) {
        if let Some(wait) = FirstTokenWait::of(record, elapsed) {
            self.record_wait(history, wait, now);
        }
        if let Some(paced) = &self.spending {
            history.paces.settle(&paced.alias, paced.thousand_calls, paced.charged, call_end(record));
        }
        // The provider of a client that left has cached the prompt if it sent content.
        if matches!(record.status, GenerationStatus::Completed | GenerationStatus::Cancelled) {
            self.record_served(history, record, now);
        }
    }

    fn record_wait(&self, history: &RequestHistory, wait: FirstTokenWait, now: Tick) {
        if let Some(target) = &self.latency_target {
            history.targets.observe(&target.requested(), wait, &self.policy.targets, now);
        }
    }

    fn record_served(&self, history: &RequestHistory, record: &Generation, now: Tick) {
        let Some(turn) = &self.turn else { return };
        // After a cascade later turns begin where this one began.
        let mut began = record.attempts.iter().filter(|attempt| attempt.reason != AttemptReason::Cascade);
        let Some(served) = began.rfind(|attempt| attempt.served || attempt.is_set_aside()) else { return };
        let candidate = record.decision.plan().find(|candidate| candidate.index == served.endpoint);
        // The tokens that another model found in its cache teach nothing about this one.
        let usage = Usage { estimated: record.usage.estimated || !served.served, ..record.usage };
        if let Some(candidate) = candidate {
            history.sessions.served(
                &self.policy.sticky,
                turn,
                candidate.endpoint,
                record.decision.task_class,
                &usage,
                now,
            );
        }
    }
}

/// What a generation came to for a spend pace. One whose cost is known in part counts as expected.
fn call_end(record: &Generation) -> CallEnd {
    match record.spent() {
        Some(spent) if spent.is_zero() && record.status == GenerationStatus::Failed => CallEnd::Unserved,
        Some(spent) => CallEnd::Paid(spent),
        None => CallEnd::Unknown,
    }
}

/// The canonical name of the first alias or model in the query.
fn target_name<'c>(catalog: &'c Catalog, query: &Query) -> &'c str {
    query.targets.first().and_then(|target| catalog.target_id(*target)).unwrap_or_default()
}
