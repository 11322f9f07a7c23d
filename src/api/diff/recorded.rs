//! What recorded requests say of keys that no decision made again answers: what `[routing.explore]` would cost, and how many first
//! answers cascades accept.

use pointsman_config::ExploreConfig;
use pointsman_domain::Generation;
use pointsman_routing::explain::{Acceptances, ExplorationPrice, PricedExploration};
use serde::{Deserialize, Serialize};

use crate::proxy::dispatch::exploration;

/// Shortest time of records from which what a day brings is told, milliseconds.
const HOUR_MS: f64 = 3.6e6;
const DAY_MS: f64 = 24.0 * HOUR_MS;
/// Requests that dollars are shown for.
const PER: f64 = 1_000.0;

/// Sums over the records.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    pub acceptances: Acceptances,
    price: ExplorationPrice,
    /// Highest share of draws that was in force.
    share: f64,
    /// When the oldest and the latest were admitted, Unix milliseconds.
    window_ms: Option<[i64; 2]>,
}

impl Recorded {
    /// Counts a record. `explore`: of the configuration whose price is asked for.
    pub(crate) fn add(&mut self, generation: &Generation, explore: &ExploreConfig) {
        self.acceptances.add(generation);
        let at = generation.created_ms;
        self.window_ms = Some(self.window_ms.map_or([at; 2], |[from, until]| [from.min(at), until.max(at)]));
        self.share = self.share.max(generation.decision.exploration_share);
        if explore.exploration.share > 0.0 {
            self.price.add(generation, exploration(explore, &generation.decision.query()));
        }
    }

    pub(crate) fn merge(&mut self, other: Recorded) {
        self.acceptances.merge(other.acceptances);
        self.price.merge(&other.price);
        self.share = self.share.max(other.share);
        let window = self.window_ms.into_iter().chain(other.window_ms);
        self.window_ms = window.reduce(|[a, b], [c, d]| [a.min(c), b.max(d)]);
    }

    /// What the share of `after` costs, if it is higher than `before`: the share before it, or what was in force. `sampled`: share of
    /// the requests that the records are.
    pub(crate) fn exploration(
        &self,
        before: Option<f64>,
        after: &ExploreConfig,
        sampled: f64,
    ) -> Option<ExplorationBody> {
        let (before, share) = (before.unwrap_or(self.share), after.exploration.share);
        if share <= before {
            return None;
        }
        let span = self.window_ms.map_or(0.0, |[from, until]| (until - from) as f64);
        let price = self.price.priced(after.exploration).map(|priced| {
            let per_day = Some(priced.decisions as f64 / sampled / span * DAY_MS).filter(|_| span >= HOUR_MS);
            ExplorationPriceBody::new(&priced, per_day)
        });
        Some(ExplorationBody { before, after: share, price })
    }
}

/// A higher share of choices at random.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ExplorationBody {
    /// The share before.
    pub before: f64,
    /// The share after.
    pub after: f64,
    /// What it costs and tells, by the records; `null` without any.
    pub price: Option<ExplorationPriceBody>,
}

view! {
    /// What a share of choices at random costs and tells, by recorded requests.
    #[derive(Debug, Clone, Deserialize)]
    pub(crate) struct ExplorationPriceBody {
        /// `per_day`: requests of a day.
        fn new(priced: &PricedExploration, per_day: Option<f64>) {}

        /// Recorded requests.
        pub requests: u64 = priced.decisions,
        /// Requests whose endpoint could be drawn at random: two or more were safe to try.
        pub drawable: u64 = priced.drawable,
        /// Mean number of endpoints that a draw chooses from.
        pub endpoints: f64 = priced.endpoints,
        /// Share of the requests that are drawn, where `max_extra_cost` allows it.
        pub drawn: f64 = priced.drawn,
        /// Share of the draws that `max_extra_cost` allows.
        pub allowed: f64 = priced.allowed,
        /// Additional dollars per 1,000 requests.
        pub spend: f64 = priced.extra * PER,
        /// The same as a share of expected spending.
        pub relative: f64 = priced.relative,
        /// Additional dollars a day at the rate of the records; `null` if they cover less than an hour.
        pub spend_per_day: Option<f64> = per_day.map(|requests| priced.extra * requests),
        /// Seconds by which the first token of a draw is expected later.
        pub later: f64 = priced.later,
        /// Requests after which the cost of another choice is known to ± 4 %; `null` if too few costs are known.
        pub requests_needed: Option<f64> = priced.needed,
        /// Days that so many requests take at the rate of the records.
        pub days_needed: Option<f64> = priced.needed.zip(per_day).map(|(needed, requests)| needed / requests),
    }
}
