//! What recorded requests say of keys that no decision made again answers: what `[routing.explore]` would cost, and how many first
//! answers cascades accept.

use pointsman_config::ExploreConfig;
use pointsman_domain::Generation;
use pointsman_routing::explain::{Acceptances, ExplorationPrice, PricedExploration};
use serde::{Deserialize, Serialize};

use super::text::{percent, short, signed, signed_dollars, signed_percent, thousands};
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
        let priced = self.price.priced(after.exploration);
        let span = self.window_ms.map_or(0.0, |[from, until]| (until - from) as f64);
        let per_day = priced.filter(|_| span >= HOUR_MS).map(|of| of.decisions as f64 / sampled / span * DAY_MS);
        Some(ExplorationBody {
            before,
            after: share,
            spend_per_1000: priced.map(|priced| priced.extra * PER),
            spend_per_day: priced.zip(per_day).map(|(priced, per_day)| priced.extra * per_day),
            requests_needed: priced.and_then(|priced| priced.needed),
            sentence: sentence(share, priced, per_day),
        })
    }
}

/// What a share of choices at random costs and tells, by recorded requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ExplorationBody {
    /// The share before.
    pub before: f64,
    /// The share after.
    pub after: f64,
    /// Additional dollars per 1,000 requests; `null` without records.
    pub spend_per_1000: Option<f64>,
    /// Additional dollars a day at the rate of the records; `null` if they cover less than an hour.
    pub spend_per_day: Option<f64>,
    /// Requests after which the cost of another choice is known to ± 4 %; `null` if too little is known.
    pub requests_needed: Option<f64>,
    pub sentence: String,
}

fn sentence(share: f64, priced: Option<PricedExploration>, per_day: Option<f64>) -> String {
    let chosen = format!("routing.explore.share = {share}: ");
    let Some(priced) = priced else {
        return format!(
            "{chosen}what it costs is not known, for there is no record of a request. It buys the cost of another choice to ± 4 % \
             after about {} requests, if the standard deviation of costs is their mean",
            rounded(UNIT_REQUESTS / share)
        );
    };
    let PricedExploration { decisions, drawable, endpoints, drawn, extra, relative, later, allowed, needed } = priced;
    if drawable == 0 {
        return format!(
            "{chosen}draws nothing, for none of {} recorded requests had two endpoints that are safe to try, or may be drawn",
            thousands(decisions)
        );
    }
    let a_day = per_day.map_or(String::new(), |rate| format!(", {} a day", signed_dollars(extra * rate)));
    let paused = match allowed {
        allowed if allowed < 1.0 => {
            format!(" max_extra_cost lets through {} of the draws, and the figures count these.", percent(allowed))
        }
        _ => String::new(),
    };
    let bought = match (needed, per_day) {
        (None, _) => "How many requests it takes to know the cost of another choice is not known yet".to_owned(),
        (Some(needed), per_day) => {
            let days = per_day.map_or(String::new(), |rate| format!(", {} days", short(needed / rate)));
            format!("It buys the cost of another choice to ± 4 % after about {} requests{days}", rounded(needed))
        }
    };
    format!(
        "{chosen}{} per 1,000 requests ({} of expected spending){a_day}, by {} recorded requests. {} of the requests are drawn, from \
         {endpoints:.1} endpoints each; their first token: {} s.{paused} {bought}",
        signed_dollars(extra * PER),
        signed_percent(relative),
        thousands(decisions),
        percent(drawn),
        signed(&format!("{later:+.2}")),
    )
}

/// Requests at a share of 1 where the standard deviation of costs is their mean: (1.96 ÷ 0.04)².
const UNIT_REQUESTS: f64 = 2_401.0;

/// A number with two digits that are not 0.
fn rounded(number: f64) -> String {
    let unit = 10.0_f64.powf(number.max(1.0).log10().floor() - 1.0).max(1.0);
    // Casts saturate: beyond this nobody waits.
    thousands(((number / unit).round() * unit) as u64)
}
