//! What a request wants beyond its answer: to find its conversation's cached prompt, and its first token in time.
//!
//! [`PreferenceMemory`] is what the process remembers for that; [`RequestPreferences`] goes with one request from its question, which it
//! completes, to its end, which it takes note of. A preview completes its question alike and ends without a note.

use std::{sync::Arc, time::Duration};

use pointsman_actors::{
    dialect::ChatRequest,
    domain::{
        AttemptRecord, Catalog, FailureKind, Generation, GenerationStatus, Objective, Preference, Query, RoutingPolicy,
        Sourced, Target, Tick,
    },
    stats::{ConversationStart, ConversationTurn, FirstTokenWait, LatencyTargets, RequestedTarget, Sessions},
};

use crate::{base::error::ApiError, state::setup::Setup};

/// What is remembered of conversations and latency targets. One per process; survives a change of configuration.
pub struct PreferenceMemory {
    sessions: Sessions,
    /// Whether latency targets were met.
    pub targets: LatencyTargets,
}

impl PreferenceMemory {
    /// Nothing is remembered yet. Names of conversations are made with this secret.
    #[must_use]
    pub fn new(secret: [u64; 4]) -> PreferenceMemory {
        PreferenceMemory { sessions: Sessions::new(secret), targets: LatencyTargets::default() }
    }

    /// The intent of a chat request of `owner`, in that conversation if it names one; completes the question with what
    /// is remembered. Changes nothing that is remembered.
    #[must_use]
    pub fn of(
        &self,
        setup: &Setup,
        chat: &ChatRequest,
        owner: u64,
        session_id: Option<&str>,
        query: &mut Query,
        now: Tick,
    ) -> RequestPreferences {
        let policy = &setup.policy;
        let name = first_name(&setup.catalog, query);
        let speaker = ConversationStart {
            owner,
            target: name,
            session_id: session_id.filter(|id| !id.is_empty()),
            opening: chat.opening,
            prompt_tokens: chat.prompt_tokens,
        };
        let turn = self.sessions.turn(&policy.sticky, &speaker);
        query.sticky = turn.as_ref().and_then(|turn| self.sessions.sticky(&policy.sticky, turn, now));
        let aim = Aim::of(query, name);
        query.latency_margin = aim.as_ref().map_or(1.0, |aim| self.targets.margin(&aim.wish(), now));
        RequestPreferences { policy: Arc::clone(policy), turn, aim }
    }
}

/// What one chat request wants.
pub struct RequestPreferences {
    policy: Arc<RoutingPolicy>,
    turn: Option<ConversationTurn>,
    aim: Option<Aim>,
}

/// A latency target of a stream. A plain answer shows no first token, so it is not counted.
struct Aim {
    name: Box<str>,
    objective: Objective,
    preference: Sourced<Preference>,
}

impl Aim {
    fn of(query: &Query, name: &str) -> Option<Aim> {
        let preference = query.routing.preferred_max_latency.filter(|_| query.streamed)?;
        Some(Aim { name: name.into(), objective: query.objective.value, preference })
    }

    fn wish(&self) -> RequestedTarget<'_> {
        RequestedTarget { name: &self.name, objective: self.objective, preference: self.preference }
    }
}

impl RequestPreferences {
    /// The request was refused before anybody was asked: a miss if that was for lack of capacity.
    pub fn refused(&self, intents: &PreferenceMemory, error: &ApiError, now: Tick) {
        if error.is_for_want_of_capacity() {
            self.waited(intents, FirstTokenWait::Failed(Duration::ZERO), now);
        }
    }

    /// The request ended as recorded, `elapsed` after it was accepted.
    pub fn ended(&self, intents: &PreferenceMemory, record: &Generation, elapsed: Duration, now: Tick) {
        let first_token = record.latency_ms.map(Duration::from_millis);
        match record.status {
            GenerationStatus::Completed => {
                self.waited(intents, FirstTokenWait::FirstToken(first_token.unwrap_or(elapsed)), now);
                self.served(intents, record, now);
            }
            GenerationStatus::Failed | GenerationStatus::Truncated if is_clients_mistake(record) => {}
            GenerationStatus::Failed | GenerationStatus::Truncated => {
                self.waited(intents, FirstTokenWait::Failed(first_token.unwrap_or(elapsed)), now)
            }
            GenerationStatus::Cancelled => {
                self.waited(
                    intents,
                    first_token.map_or(FirstTokenWait::Left(elapsed), FirstTokenWait::FirstToken),
                    now,
                );
                // Whoever sent content has read the prompt.
                self.served(intents, record, now);
            }
            GenerationStatus::Running => {}
        }
    }

    fn waited(&self, intents: &PreferenceMemory, waited: FirstTokenWait, now: Tick) {
        if let Some(aim) = &self.aim {
            intents.targets.observe(&aim.wish(), waited, &self.policy.targets, now);
        }
    }

    fn served(&self, intents: &PreferenceMemory, record: &Generation, now: Tick) {
        let Some(turn) = &self.turn else { return };
        let served = record.attempts.iter().rfind(|attempt| attempt.served);
        let endpoint = served.and_then(|served| {
            let mut plan = record.decision.plan();
            plan.find(|candidate| candidate.index == served.endpoint).map(|candidate| candidate.endpoint)
        });
        if let Some(endpoint) = endpoint {
            intents.sessions.served(&self.policy.sticky, turn, endpoint, &record.usage, now);
        }
    }
}

/// The alias or model that was asked for first, by its canonical name.
fn first_name<'c>(catalog: &'c Catalog, query: &Query) -> &'c str {
    let name = query.targets.first().and_then(|target| match *target {
        Target::Alias(position) => catalog.alias(position).map(|alias| alias.id.as_str()),
        Target::Model(position) => catalog.model(position).map(|model| model.id.as_str()),
    });
    name.unwrap_or_default()
}

/// Whether it failed because of what the client sent: no endpoint could have kept a target.
fn is_clients_mistake(record: &Generation) -> bool {
    use FailureKind::{BadRequest, ContextLength, TooLarge, Unprocessable};
    let told = record.attempts.iter().rfind(|attempt| attempt.error_type.as_deref() != Some(AttemptRecord::LOST_RACE));
    let last = told.and_then(|attempt| attempt.error_type.as_deref());
    last.is_some_and(|error| {
        [BadRequest, ContextLength, TooLarge, Unprocessable].iter().any(|kind| kind.as_str() == error)
    })
}
