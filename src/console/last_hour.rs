//! The figures of the last hour as tiles.

use maud::{Markup, html};
use pointsman_actors::ledger::series::{Slot, first_output_ms};

use super::format;
use crate::{
    api::{
        admin::{
            series::{self, HOUR_MS},
            series_view::Totals,
        },
        models::measurements::rfc_3339,
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// What happened in the last hour, and what the last day cost.
pub(super) struct LastHour {
    start_ms: i64,
    /// One per minute, oldest first; the last one is not over.
    minutes: Vec<Slot>,
    day: Totals,
    /// Calls that were refused before there was a generation, and whether there were more.
    refused: (usize, bool),
}

impl LastHour {
    /// The hour that ends now.
    ///
    /// # Errors
    /// 503 when the ledger does not answer in time.
    pub(super) async fn now(worker: &Worker) -> Result<LastHour, ApiError> {
        let (start_ms, minutes) = series::minutes(worker, HOUR_MS).await?;
        let (_, day) = series::minutes(worker, 24 * HOUR_MS).await?;
        let refused = worker.shared.records.refused_calls.count_since(start_ms);
        Ok(LastHour { start_ms, minutes, day: Totals::sum(&day), refused })
    }

    /// Whether no call ended, and none was refused, within a day.
    pub(super) fn is_first(&self) -> bool {
        self.day == Totals::default() && self.refused.0 == 0
    }

    /// The figures as entries of a list of tiles.
    pub(super) fn tiles(&self) -> Markup {
        let hour = Totals::sum(&self.minutes);
        let last_minute = Totals::sum(self.minutes.iter().rev().skip(1).take(1));
        let share = |part: u64| (hour.calls() > 0).then(|| part as f64 / hour.calls() as f64);
        let first = |percent| first_output_ms(&self.minutes, percent).map(|millis| millis as f64);
        let (refused, is_more) = self.refused;
        html! {
            div { dt { "Requests" } dd { (format::count(last_minute.calls())) small { " /min" } } }
            div.bad[hour.failed > 0] { dt { "Failures shown" } dd { (self.decisions("status=failed", hour.failed)) (of_calls(share(hour.failed))) } }
            div { dt { "Saved by failover" } dd { (self.decisions("rescued=true", hour.rescued)) (of_calls(share(hour.rescued))) } }
            div { dt { "First token, median" } dd { (format::millis(first(50))) small.below { "95th percentile " (format::millis(first(95))) } } }
            div { dt { "Spent in the hour" } dd {
                (format::sum(hour.spent, hour.unknown_costs))
                small.below { "in 24 hours " (format::sum(self.day.spent, self.day.unknown_costs)) }
            } }
            div.warn[refused > 0] { dt { "Refused" } dd {
                a href="refused" { (format::count(refused as u64)) } @if is_more { "+" }
                @if hour.shed > 0 { small.below { (format::count(hour.shed)) " under load" } }
            } }
        }
    }

    /// A number that leads to the decisions of the hour that it counts.
    fn decisions(&self, filter: &str, number: u64) -> Markup {
        let since = rfc_3339(self.start_ms);
        html! {
            @if number == 0 { (format::count(number)) }
            @else { a href={ "decisions?" (filter) "&since=" (since) } { (format::count(number)) } }
        }
    }
}

/// A share of all calls, below a number.
fn of_calls(share: Option<f64>) -> Markup {
    html! { @if let Some(share) = share { small { " " (format::percent(share)) " of calls" } } }
}
