//! What the generation cost, and what was expected.

use maud::{Markup, html};
use pointsman_domain::Usd;

use crate::{
    api::{decisions::explain_view::ExplainBody, number::Figure},
    console::{format, layout::data_table},
};

pub(super) fn section(body: &ExplainBody<'_>) -> Markup {
    let spent = &body.spent;
    let chosen =
        body.candidates.iter().find(|candidate| candidate.actual.as_ref().is_some_and(|actual| actual.cost.is_some()));
    let amount = |cost: Option<crate::api::number::Dollars>| format::money(cost.map(|cost| cost.0));
    html! {
        h2 { "Money" }
        div.columns {
            (data_table("Parts of the cost of the answer",
                html! { th scope="col" { "Part of the answer" } th.r scope="col" { "Cost" } },
                html! {
                    @for (name, cost) in parts(body) { tr { th scope="row" { (name) } td.r { (format::money(Some(cost))) } } }
                    tr.sum { th scope="row" { "Answer" } td.r { (amount(body.total_cost)) } }
                }))
            (data_table("All that was spent, and what was expected",
                html! { th scope="col" { "Spent" } th.r scope="col" { "Cost" } },
                html! {
                    tr { th scope="row" { "Answer" } td.r { (amount(body.total_cost)) } }
                    tr { th scope="row" { "Hedges that lost" } td.r { (amount(spent.hedge_cost)) } }
                    tr { th scope="row" { "Failed attempts" } td.r { (amount(spent.failed_cost)) } }
                    tr.sum { th scope="row" { "Charged to the key" } td.r { (amount(spent.ledger_cost)) } }
                    @if let Some(reported) = body.reported_cost {
                        tr { th scope="row" { "Reported by the provider, not billed" } td.r { (amount(Some(reported))) } }
                    }
                    @if let Some(candidate) = chosen {
                        tr { th scope="row" { "Expected by the decision" } td.r { (format::estimate(candidate.predicted.cost.map(Figure::value))) } }
                        @if let Some(saving) = &candidate.saving {
                            tr {
                                th scope="row" { "Expected saving by the prompt cache, " (saving.cached_tokens) " tokens" }
                                td.r { (format::estimate(Some(saving.saving_usd.value()))) }
                            }
                        }
                    }
                }))
        }
        @if let Some(tier) = &body.price_tier {
            p.muted { "Prices of prompts above " (format::count(tier.above_prompt_tokens)) " tokens." }
        }
        @if body.usage.estimated { p.muted { "The provider reported no tokens: tokens and cost are the gateway's estimate." } }
    }
}

/// The parts that are not zero.
fn parts(body: &ExplainBody<'_>) -> Vec<(&'static str, Usd)> {
    let Some(cost) = &body.cost_breakdown else { return Vec::new() };
    let all = [
        ("Prompt", cost.prompt),
        ("Completion", cost.completion),
        ("Reasoning", cost.reasoning),
        ("Cache read", cost.cache_read),
        ("Cache write", cost.cache_write),
        ("Cache write, 1 hour", cost.cache_write_1h),
        ("Audio", cost.audio),
        ("Audio output", cost.audio_output),
        ("Per request", cost.request),
        ("Images", cost.image),
        ("Web searches", cost.web_search),
    ];
    all.into_iter().map(|(name, cost)| (name, cost.0)).filter(|(_, cost)| !cost.is_zero()).collect()
}
