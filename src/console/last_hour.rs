//! The figures of the last hour, minute by minute: tiles, charts, and a table with the same numbers.

use maud::{Markup, html};
use pointsman_actors::ledger::series::{Slot, first_output_ms};
use pointsman_base::clock;
use pointsman_domain::Usd;

use super::{
    format,
    svg::{
        Caption,
        series::{lines, stacked_areas},
    },
};
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

/// Milliseconds of a minute.
const MINUTE_MS: i64 = 60_000;
/// Fewest minutes that a chart shows.
const FEWEST_MINUTES: usize = 10;

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
        let refused = worker.shared.refused_calls.count_since(start_ms);
        Ok(LastHour { start_ms, minutes, day: Totals::of(&day), refused })
    }

    /// The figures as entries of a list of tiles.
    pub(super) fn tiles(&self) -> Markup {
        let hour = Totals::of(&self.minutes);
        let last_minute = Totals::of(self.minutes.iter().rev().skip(1).take(1));
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

    /// The minutes that charts show: since the start of the process, when that is less than an hour ago.
    fn charted(&self) -> &[Slot] {
        let minutes = (clock::uptime_seconds() / 60 + 2) as usize;
        let omitted = self.minutes.len().saturating_sub(minutes.max(FEWEST_MINUTES));
        self.minutes.get(omitted..).unwrap_or_default()
    }

    /// Three charts of the hour, and their numbers.
    pub(super) fn strips(&self) -> Markup {
        let charted = self.charted();
        let count = |of: fn(&Slot) -> u32| charted.iter().map(|slot| f64::from(of(slot))).collect::<Vec<_>>();
        let (ok, rescued, failed) = (count(|slot| slot.ok), count(|slot| slot.rescued), count(|slot| slot.failed));
        let cost: Vec<f64> = charted.iter().map(|slot| slot.cost().to_f64()).collect();
        let first = |percent| {
            let of = |slot: &Slot| slot.first_output_ms(percent).map(|millis| millis as f64);
            charted.iter().map(of).collect::<Vec<_>>()
        };
        let (p50, p95) = (first(50), first(95));
        let greatest = |values: &[Option<f64>]| values.iter().flatten().copied().fold(0.0, f64::max);
        let most_calls = self.minutes.iter().map(|slot| slot.ok + slot.rescued + slot.failed).max().unwrap_or(0);
        let dearest = self.minutes.iter().map(Slot::cost).max().unwrap_or(Usd::ZERO);
        let hour = Totals::of(&self.minutes);
        if hour.calls() == 0 {
            return html! { p.empty { "No call ended in the last hour. Charts stand here after the first one." } };
        }
        let requests = format!(
            "{} answered at the first attempt, {} after a failover, {} failed; at most {most_calls} in a minute.",
            hour.ok, hour.rescued, hour.failed,
        );
        let costs =
            format!("{} in all; at most {} in a minute.", format::dollars(hour.spent), format::dollars(dearest));
        let times = format!(
            "p50 at most {}, p95 at most {} in a minute.",
            format::duration(greatest(&p50)),
            format::duration(greatest(&p95)),
        );
        html! {
            div.strips {
                figure {
                    figcaption { "Requests a minute " span.muted { "up to " (most_calls) } }
                    (stacked_areas(Caption { title: "Requests a minute", description: &requests }, &[("ok", &ok), ("rescued", &rescued), ("failed", &failed)]))
                    (span(charted.len()))
                    ul.legend { (legend("ok", "first attempt")) (legend("rescued", "after a failover")) (legend("failed", "failed")) }
                }
                figure {
                    figcaption { "Cost a minute " span.muted { "up to " (format::dollars(dearest)) } }
                    (stacked_areas(Caption { title: "Cost a minute", description: &costs }, &[("cost", &cost)]))
                    (span(charted.len()))
                    ul.legend { (legend("cost", "known cost, failed attempts included")) }
                }
                figure {
                    figcaption { "First token " span.muted { "up to " (format::duration(greatest(&p95))) } }
                    (lines(Caption { title: "Time to the first token", description: &times }, &[("p50", &p50), ("p95", &p95)]))
                    (span(charted.len()))
                    ul.legend { (line_legend("p50", "p50")) (line_legend("p95", "p95")) }
                }
            }
            (self.table())
        }
    }

    /// The minutes with calls, newest first.
    fn table(&self) -> Markup {
        let began = |position: usize| rfc_3339(self.start_ms + position as i64 * MINUTE_MS);
        let busy = self.minutes.iter().enumerate().rev().filter(|(_, slot)| **slot != Slot::default());
        let first = |slot: &Slot, percent| slot.first_output_ms(percent).map(|millis| millis as f64);
        html! {
            details {
                summary { "The hour as numbers" }
                div.scroll tabindex="0" {
                    table {
                        caption.visually-hidden { "Minutes of the last hour in which calls ended, newest first" }
                        thead { tr {
                            th scope="col" { "Minute, " (format::zone()) } th.r scope="col" { "First attempt" } th.r scope="col" { "After a failover" } th.r scope="col" { "Failed" }
                            th.r scope="col" { "Refused" } th.r scope="col" { "Cost" } th.r scope="col" { "Tokens" } th.r scope="col" { "p50" } th.r scope="col" { "p95" }
                        } }
                        tbody {
                            @for (position, slot) in busy {
                                tr {
                                    th scope="row" { (format::clock(&began(position))) }
                                    td.r { (format::count(slot.ok)) } td.r { (format::count(slot.rescued)) } td.r { (format::count(slot.failed)) } td.r { (format::count(slot.shed)) }
                                    td.r { (format::sum(slot.cost(), u64::from(slot.unknown_costs))) } td.r { (format::count(slot.tokens)) }
                                    td.r { (format::millis(first(slot, 50))) } td.r { (format::millis(first(slot, 95))) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A share of all calls, below a number.
fn of_calls(share: Option<f64>) -> Markup {
    html! { @if let Some(share) = share { small { " " (format::percent(share)) " of calls" } } }
}

/// What the width of a chart is.
fn span(minutes: usize) -> Markup {
    html! { p.span aria-hidden="true" { span { (minutes) " min ago" } span { "now" } } }
}

fn legend(class: &str, text: &str) -> Markup {
    html! { li { svg aria-hidden="true" viewBox="0 0 12 12" { rect class=(class) width="12" height="12" rx="2" {} } (text) } }
}

fn line_legend(class: &str, text: &str) -> Markup {
    html! { li { svg aria-hidden="true" viewBox="0 0 12 12" { path class=(class) d="M0 6h12" {} } (text) } }
}
