//! Sums of the decisions that pass the filters: of those on the page, or on request of the newest thousands.

use maud::{Markup, html};
use pointsman_domain::Usd;

use super::{super::format, Filters};
use crate::{
    access::keys::Caller,
    api::generations::{
        generation_list::{self, MAX_PAGE, PageBody},
        generation_row::GenerationRow,
        ledger_query::Listed,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Most pages that are read for sums.
const MAX_PAGES: usize = 15;

/// Sums over decisions.
#[derive(Debug, Default)]
pub(super) struct Sums {
    calls: u64,
    failed: u64,
    rescued: u64,
    spent: Usd,
    unknown: u64,
    tokens: u64,
    first_ms: Vec<u64>,
    total_ms: Vec<u64>,
    /// Whether older decisions pass the filters that are not in the sums.
    has_more: bool,
}

impl Sums {
    /// Those of the decisions on a page.
    pub(super) fn of(page: &PageBody<'_>) -> Sums {
        let mut sums = Sums { has_more: page.next.is_some(), ..Sums::default() };
        page.data.iter().for_each(|row| sums.add(row));
        sums
    }

    /// Those of the newest decisions that pass the filters, page by page.
    ///
    /// # Errors
    /// As the list.
    pub(super) async fn of_all(worker: &Worker, caller: &Caller, filters: &Filters) -> Result<Sums, ApiError> {
        let listed = Listed::Everybody(worker);
        let (mut sums, mut cursor) = (Sums::default(), None::<String>);
        for _ in 0..MAX_PAGES {
            let mut query = filters.with("limit", &MAX_PAGE.to_string());
            if let Some(cursor) = &cursor {
                query.push_str(&format!("&after={cursor}"));
            }
            let page = generation_list::select(worker, caller, listed, query.trim_start_matches('?')).await?;
            let page = page.body(worker, listed);
            page.data.iter().for_each(|row| sums.add(row));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        sums.has_more = cursor.is_some();
        Ok(sums)
    }

    fn add(&mut self, row: &GenerationRow<'_>) {
        self.calls += 1;
        self.failed += u64::from(row.status == "failed");
        self.rescued += u64::from(row.rescued);
        self.tokens += row.prompt_tokens + row.completion_tokens;
        match row.cost {
            Some(cost) => self.spent += cost.amount(),
            None => self.unknown += 1,
        }
        self.first_ms.extend(row.ttft_ms);
        self.total_ms.extend(row.total_ms);
    }

    /// The tiles. `is_all` if the sums were asked for.
    pub(super) fn tiles(mut self, filters: &Filters, is_all: bool) -> Markup {
        let [first, total] =
            [&mut self.first_ms, &mut self.total_ms].map(|times| (percentile(times, 50), percentile(times, 95)));
        let time = |label: &str, (p50, p95): (Option<f64>, Option<f64>)| {
            html! { div { dt { (label) } dd { (format::millis(p50)) small.below { "95th percentile " (format::millis(p95)) } } } }
        };
        html! {
            section aria-label="Sums" {
                dl.tiles {
                    div { dt { "Decisions" } dd { (format::count(self.calls)) @if self.has_more { small { " newest" } } } }
                    div.bad[self.failed > 0] { dt { "Failed" } dd { (format::count(self.failed)) } }
                    div { dt { "Rescued" } dd { (format::count(self.rescued)) } }
                    div { dt { "Cost" } dd { (format::sum(self.spent, self.unknown)) } }
                    div { dt { "Tokens" } dd { (format::count(self.tokens)) } }
                    (time("First token, median", first))
                    (time("Total, median", total))
                }
                @if self.has_more && !is_all {
                    p.muted { "Of those shown. " a href={ "decisions" (filters.with("sums", "true")) } { "Sum up all that pass the filters" } }
                } @else if self.has_more {
                    p.muted { "Of the newest that pass the filters; older ones are not in it. A time narrows it down." }
                }
            }
        }
    }
}

/// The value below which `percent` of the values lie, or which one of them is; `None` without any.
fn percentile(values: &mut [u64], percent: usize) -> Option<f64> {
    values.sort_unstable();
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).map(|value| *value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let mut values: Vec<u64> = (1..=100).rev().collect();
        assert_eq!((percentile(&mut values, 50), percentile(&mut values, 95)), (Some(50.0), Some(95.0)));
        assert_eq!((percentile(&mut [7], 95), percentile(&mut [], 95)), (Some(7.0), None));
    }
}
