//! Pointsman's core with its memory of where conversations were served, in front of endpoints whose caches are known block by block.

use std::collections::HashMap;

use pointsman_domain::{RoutingPolicy, Usage};
use pointsman_routing::stats::{SessionStart, SessionTurn, Sessions};

use super::core::{Core, MODEL, Without, tick};
use crate::{
    rule::{Ask, Begin, Calibration, Late, News, Patience, Report, Rule},
    sticky::{Caches, Opening, Trace},
    world::World,
};

/// The core, told before each decision what the server would tell it of the conversation.
pub struct Conversing<'t> {
    core: Core,
    sessions: Sessions,
    trace: &'t Trace,
    openings: &'t [Opening],
    /// Blocks found by requests under way.
    found: HashMap<usize, usize>,
    /// What the endpoints hold.
    pub caches: Caches,
}

impl<'t> Conversing<'t> {
    /// Without any history; `openings` are those of the trace.
    #[must_use]
    pub fn new(world: &World, policy: RoutingPolicy, trace: &'t Trace, openings: &'t [Opening]) -> Conversing<'t> {
        Conversing {
            core: Core::new(world, policy, Without::Nothing),
            sessions: Sessions::new([world.seed; 4]),
            trace,
            openings,
            found: HashMap::new(),
            caches: Caches::default(),
        }
    }

    fn turn(&self, request: usize) -> Option<SessionTurn> {
        let (opening, prompt_tokens) = self.openings[request];
        let start = SessionStart { owner: 1, target: MODEL, session_id: None, opening, prompt_tokens };
        self.sessions.turn(&self.core.policy.sticky, &start)
    }

    /// Its cache should hold the prompt from now on, as the usage of the answer tells.
    fn served(&mut self, report: &Report<'_>, turn: &SessionTurn) {
        let asked = &self.trace.turns[report.request.id];
        let found = self.found.remove(&report.request.id).unwrap_or_default();
        let usage = Usage {
            prompt_tokens: u64::from(asked.prompt),
            completion_tokens: u64::from(asked.answer),
            cached_tokens: u64::from(Caches::tokens(found, asked)),
            ..Usage::default()
        };
        let (policy, endpoint) = (&self.core.policy.sticky, self.core.id(report.endpoint));
        self.sessions.served(policy, turn, endpoint, None, &usage, tick(report.now));
    }
}

impl Rule for Conversing<'_> {
    fn choose(&mut self, ask: &Ask<'_>) -> Vec<usize> {
        let turn = self.turn(ask.request.id);
        let sticky = |turn| self.sessions.sticky(&self.core.policy.sticky, turn, tick(ask.now));
        self.core.query.sticky = turn.as_ref().and_then(sticky);
        self.core.choose(ask)
    }

    fn begin(&mut self, attempt: &Begin<'_>) -> Option<Patience> {
        self.core.begin(attempt)
    }

    fn may_race(&mut self, request: usize, endpoint: usize, attempts: u32, late: Late) -> bool {
        self.core.may_race(request, endpoint, attempts, late)
    }

    fn may_go_on(&self, request: usize, endpoint: usize, attempts: u32) -> bool {
        self.core.may_go_on(request, endpoint, attempts)
    }

    fn heard(&mut self, report: &Report<'_>) {
        let request = report.request.id;
        match report.news {
            News::Began => {
                let found = self.caches.serve(report.endpoint, &self.trace.turns[request]);
                self.found.insert(request, found);
            }
            News::Completed => {
                self.turn(request).iter().for_each(|turn| self.served(report, turn));
            }
            News::FirstToken | News::Failed { .. } | News::Cancelled => {}
        }
        self.core.heard(report);
    }

    fn ended(&mut self, request: usize) {
        self.core.ended(request);
    }

    fn calibration(&self) -> Option<&Calibration> {
        self.core.calibration()
    }
}
