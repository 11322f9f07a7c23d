//! Reviewed requests by alias and objective.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_domain::{Generation, Weights};

use super::{
    figures::Regret,
    hindsight::{Hindsight, Observed},
    request::{Group, Request},
    scales::Scales,
    timeline::Timeline,
};
use crate::explain::estimate::Position;

const DAY_MS: i64 = 24 * 3_600_000;

/// Requests, with the choices that they could have met.
#[derive(Debug, Clone, Default)]
pub struct Regrets {
    requests: BTreeMap<(Option<Arc<str>>, &'static str), Vec<Request>>,
}

impl Regrets {
    /// Adds a recorded request. Its record must have come out as it was made, and `timeline` hold all records.
    pub fn observe(
        &mut self,
        hindsight: &Hindsight,
        generation: &Generation,
        timeline: &Timeline,
        position: Position,
    ) -> Observed {
        let reviewed = match hindsight.review(generation, timeline) {
            Ok(reviewed) => reviewed,
            Err(outcome) => return outcome,
        };
        let decision = &generation.decision;
        let objective = decision.objective.value;
        let group = (decision.router.as_deref().map(Arc::from), objective.as_str());
        self.requests.entry(group).or_default().push(Request {
            draw: position.draw,
            cluster: position.cluster,
            at_ms: generation.created_ms,
            objective,
            time_share: time_share(decision.weights),
            reviewed,
        });
        Observed::Counted
    }

    /// Adds other requests.
    pub fn merge(&mut self, other: Regrets) {
        for (group, requests) in other.requests {
            self.requests.entry(group).or_default().extend(requests);
        }
    }

    /// What they came to, the group with most requests first; `by_day` adds each day to the whole of its group.
    #[must_use]
    pub fn groups(self, by_day: bool) -> Vec<Regret> {
        self.groups_while(by_day, || true).unwrap_or_default()
    }

    /// The same, while `goes_on`, which is asked before each group and day. `None` if it ends early.
    #[must_use]
    pub fn groups_while(mut self, by_day: bool, mut goes_on: impl FnMut() -> bool) -> Option<Vec<Regret>> {
        let mut groups = Vec::new();
        for ((alias, _), requests) in &mut self.requests {
            requests.sort_by_key(|request| (request.cluster, request.draw));
            let requests: Vec<&Request> = requests.iter().collect();
            let Some(objective) = requests.first().map(|request| request.objective) else { continue };
            let scales = Scales::new(&requests);
            let group = |day_ms| Group { alias: alias.clone(), objective, day_ms };
            let mut regret =
                |day_ms, requests: &[&Request]| goes_on().then(|| Regret::new(group(day_ms), requests, &scales));
            let whole = regret(None, &requests)?;
            let mut days: BTreeMap<i64, Vec<&Request>> = BTreeMap::new();
            for request in requests.iter().filter(|_| by_day) {
                days.entry(request.at_ms.div_euclid(DAY_MS)).or_default().push(request);
            }
            let of_day = |(day, requests): (i64, Vec<&Request>)| regret(Some(day * DAY_MS), &requests);
            let days = days.into_iter().map(of_day).collect::<Option<Vec<_>>>()?;
            groups.push((requests.len(), [whole].into_iter().chain(days).collect::<Vec<_>>()));
        }
        groups.sort_by_key(|(requests, _)| std::cmp::Reverse(*requests));
        Some(groups.into_iter().flat_map(|(_, regrets)| regrets).collect())
    }
}

/// Weight of time beside that of cost, 0 to 1. Quality has no figure here.
fn time_share(Weights { latency, cost, .. }: Weights) -> f64 {
    if latency > 0.0 { latency / (latency + cost) } else { 0.0 }
}
