//! Spend paces of aliases, as a member of `GET /health/slo` and as gauges.

use pointsman_routing::spend_pace::PacedAlias;
use prometheus::proto::MetricFamily;
use serde::Serialize;

use crate::{
    api::number::{Dollars, Figure},
    base::events::Families,
    state::gateway::GatewayView,
};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct SpendPaceBody<'a> {
    /// The alias.
    pub(crate) alias: &'a str,
    /// Dollars that a thousand chats are to cost on average: `spend_pace` of the alias.
    pub(crate) usd_per_1000: Dollars,
    /// What the last thousand chats or so came to; `null` without any.
    pub(crate) recent_usd_per_1000: Option<Figure>,
    /// Chats since the ceiling changed. A restart goes on counting with `routing.memory`.
    pub(crate) calls: u64,
    /// Quality that the ceiling of one chat has to buy; 0 while money plays no part.
    pub(crate) multiplier: Figure,
    /// Dollars spent beyond the ceilings of all chats; below 0: dollars left.
    pub(crate) owed_usd: Figure,
    /// Whether chats are dearer than the ceiling although price counts as much as it can.
    pub(crate) out_of_reach: bool,
}

impl<'a> SpendPaceBody<'a> {
    pub(crate) fn new(paced: &'a PacedAlias) -> SpendPaceBody<'a> {
        let PacedAlias { alias, thousand_calls, pace } = paced;
        SpendPaceBody {
            alias,
            usd_per_1000: Dollars(*thousand_calls),
            recent_usd_per_1000: (pace.calls() > 0).then(|| Figure::significant(pace.recent_mean() * 1e3)),
            calls: pace.calls(),
            multiplier: Figure::significant(pace.multiplier()),
            owed_usd: Figure::significant(pace.owed()),
            out_of_reach: pace.is_out_of_reach(),
        }
    }
}

/// The paces of all aliases with a ceiling, used or not.
pub(crate) fn paces(worker: &GatewayView) -> Vec<PacedAlias> {
    let paced = |alias: &pointsman_domain::Alias| {
        let thousand_calls = alias.spend_pace?;
        let pace = worker.shared.records.history.paces.get(&alias.id, thousand_calls)?;
        Some(PacedAlias { alias: alias.id.as_str().into(), thousand_calls, pace })
    };
    worker.setup.catalog.aliases.iter().filter_map(paced).collect()
}

/// The gauges; none without an alias with a ceiling.
pub(crate) fn families(worker: &GatewayView) -> Vec<MetricFamily> {
    let paces = paces(worker);
    Families::of(|families| {
        let called = paces.iter().filter(|paced| paced.pace.calls() > 0);
        let ratios = called.map(|paced| ([&*paced.alias], paced.pace.recent_mean() / paced.pace.ceiling()));
        let help = "Mean cost of the last thousand chats by the spend pace; 1: as it is to be; none before the first";
        families.gauges("spend_pace_ratio", help, ["alias"], ratios);
        let multipliers = paces.iter().map(|paced| ([&*paced.alias], paced.pace.multiplier()));
        let help = "Quality that the ceiling of a chat has to buy; 0: money plays no part";
        families.gauges("spend_pace_multiplier", help, ["alias"], multipliers);
        let is_out = |paced: &PacedAlias| f64::from(u8::from(paced.pace.is_out_of_reach()));
        let out_of_reach = paces.iter().map(|paced| ([&*paced.alias], is_out(paced)));
        let help = "1 while chats cost more than the spend pace although price counts as much as it can";
        families.gauges("spend_pace_out_of_reach", help, ["alias"], out_of_reach);
    })
}
