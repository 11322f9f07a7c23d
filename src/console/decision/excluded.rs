//! Excluded endpoints, grouped by reason.

use maud::{Markup, html};

use super::{candidates::endpoint, why_not::ask_why_not};
use crate::{
    api::{
        decisions::{explain_view::ExplainBody, route_view::ExcludedBody},
        number::Figure,
    },
    console::{format, words},
};

/// Endpoints shown of all reasons together, at least [`LEAST_OF_A_REASON`] of each; further ones are counted.
const MOST: usize = 90;
const LEAST_OF_A_REASON: usize = 3;

pub(super) fn section(body: &ExplainBody<'_>) -> Markup {
    html! {
        h2 { "Excluded " span.muted { (body.excluded_total) } }
        @if body.excluded.is_empty() {
            p.muted { "No endpoint was excluded: every endpoint of the requested models was a candidate." }
        } @else {
            div.scroll.hide-caption tabindex="0" {
                table {
                    caption { "Endpoints that could not be chosen, by reason" }
                    thead { tr { th scope="col" { "Reason" } th scope="col" { "Endpoint" } th scope="col" { "Detail" } th.r scope="col" { "Opens in" } th.r scope="col" { "Reserve" } } }
                    @let groups = by_reason(&body.excluded);
                    @let most = (MOST / groups.len().max(1)).max(LEAST_OF_A_REASON);
                    @for (reason, group) in &groups { (rows(reason, group, most)) }
                }
            }
        }
    }
}

fn rows(reason: &str, group: &[&ExcludedBody<'_>], most: usize) -> Markup {
    let shown = group.len().min(most);
    let hidden = group.len() - shown;
    html! {
        tbody {
            @for (n, excluded) in group.iter().take(shown).enumerate() {
                tr {
                    @if n == 0 { th.reason scope="rowgroup" rowspan=(shown + usize::from(hidden > 0)) { (words::spaced(reason)) " " span.muted { (group.len()) } } }
                    td { (endpoint(&excluded.endpoint)) (ask_why_not(&excluded.endpoint)) }
                    td { (format::name(&excluded.detail.0.to_string(), 160)) }
                    td.r { (format::millis(excluded.opens_in_ms.map(Figure::value))) }
                    td.r { @if let Some(place) = excluded.standby { (place) } @else { (format::none()) } }
                }
            }
            @if hidden > 0 { tr { td.muted colspan="4" { "and " (hidden) " more, all of them in the record" } } }
        }
    }
}

/// The groups in the order of their first endpoints.
fn by_reason<'a, 'b>(excluded: &'a [ExcludedBody<'b>]) -> Vec<(&'static str, Vec<&'a ExcludedBody<'b>>)> {
    let mut groups: Vec<(&'static str, Vec<&ExcludedBody<'b>>)> = Vec::new();
    for excluded in excluded {
        match groups.iter_mut().find(|(reason, _)| *reason == excluded.reason) {
            Some((_, group)) => group.push(excluded),
            None => groups.push((excluded.reason, vec![excluded])),
        }
    }
    groups
}
