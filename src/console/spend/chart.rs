//! Bars of the cost of each day or hour, divided among the dearest names.

use std::collections::BTreeMap;

use chrono::DateTime;
use maud::{Markup, html};
use pointsman_base::clock;
use pointsman_dialect::percent::encoded;
use pointsman_domain::{Usd, shown_dollars};
use pointsman_ledger::activity::grouping::Dimension;

use crate::{
    api::{
        generations::activity::view::{ActivityBody, RowBody},
        models::measurements::rfc_3339,
    },
    console::{
        chart::{self, Chart, Kind, Series},
        format,
    },
};

/// Colours of the dearest names, in order. What is left is [`OTHER`].
const TONES: [&str; 8] = ["t1", "t2", "t3", "t4", "t5", "t7", "t8", "t9"];
const OTHER: &str = "t6";
/// Most bars.
const MOST_BARS: usize = 100;

/// The chart with its legend; nothing where there is no second bar. `link`: the address of all decisions that are counted.
pub(super) fn bars(dimension: Dimension, body: &ActivityBody<'_>, link: &str) -> Markup {
    let is_hourly = body.group_by.as_deref().unwrap_or_default().contains(&"hour");
    let step = if is_hourly { 3_600_000 } else { 86_400_000 };
    let millis = |time: &str| DateTime::parse_from_rfc3339(time).map(|time| time.timestamp_millis()).ok();
    let latest = body.data.iter().filter_map(|row| millis(row.start.as_deref()?)).max();
    let (Some(latest), Some(since), Some(until)) = (latest, millis(&body.since), millis(&body.until)) else {
        return Markup::default();
    };
    // Days and hours follow each other without a gap: a time zone is a fixed number of minutes here.
    let start = latest - (latest - since).div_euclid(step) * step;
    let start = if start > since { start - step } else { start };
    let places = usize::try_from((until - 1 - start).div_euclid(step) + 1).unwrap_or(0);
    if !(2..=MOST_BARS).contains(&places) {
        return Markup::default();
    }
    let unnamed = format!("no {}", dimension.as_str());
    let name = |row: &RowBody<'_>| row.name(dimension).unwrap_or(&unnamed).to_owned();
    let mut sums: BTreeMap<String, Usd> = BTreeMap::new();
    body.data.iter().for_each(|row| *sums.entry(name(row)).or_default() += row.cost.0);
    let mut ranked: Vec<(String, Usd)> = sums.into_iter().filter(|(_, cost)| !cost.is_zero()).collect();
    ranked.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.femto()));
    if ranked.is_empty() {
        return Markup::default();
    }
    let rank = |name: &str| ranked.iter().take(TONES.len()).position(|(other, _)| other == name);
    let mut costs = vec![vec![Usd::ZERO; places]; ranked.len().min(TONES.len())];
    let (mut others, mut days) = (vec![Usd::ZERO; places], vec![(Usd::ZERO, 0); places]);
    for row in &body.data {
        let at = row.start.as_deref().and_then(millis).map(|at| (at - start).div_euclid(step));
        let Some(place) = at.and_then(|place| usize::try_from(place).ok()) else { continue };
        let column = rank(&name(row)).and_then(|rank| costs.get_mut(rank)).unwrap_or(&mut others);
        column.get_mut(place).into_iter().for_each(|sum| *sum += row.cost.0);
        days.get_mut(place).into_iter().for_each(|(cost, requests)| {
            *cost += row.cost.0;
            *requests += row.requests;
        });
    }
    let drawn = |column: &[Usd]| column.iter().map(|cost| Some(cost.to_f64())).collect::<Vec<_>>();
    let labelled = |name: &str, cost: Usd| format!("{} {}", format::plain_name(name, 30), shown_dollars(cost));
    let is_filtered = link.split(['?', '&']).filter_map(|pair| pair.split_once('='));
    let is_filtered = is_filtered.map(|(name, _)| name).any(|name| name == dimension.as_str());
    let mut series: Vec<Series> = ranked
        .iter()
        .zip(&costs)
        .zip(TONES)
        .map(|(((name, cost), column), tone)| {
            let is_named = body.data.iter().any(|row| row.name(dimension) == Some(name));
            let filter = if is_filtered { String::new() } else { format!("{}={}", dimension.as_str(), encoded(name)) };
            Series {
                filter: is_named.then_some(filter),
                ..Series::new(&labelled(name, *cost), tone, "", drawn(column))
            }
        })
        .collect();
    if ranked.len() > TONES.len() {
        series.push(Series { filter: None, ..Series::new("others", OTHER, "", drawn(&others)) });
    }
    let word = if is_hourly { "an hour" } else { "a day" };
    let described = format!("by {}, dearest lowest", dimension.as_str());
    let chart = Chart {
        kind: Kind::Bars,
        unit: "$",
        x: (0..places as i64).map(|place| ((start + place * step) / 1_000) as f64).collect(),
        step: step / 1_000,
        offset: Some(body.tz_offset_minutes),
        running: until >= clock::unix_millis(),
        series,
        link: Some(link.to_owned()),
        ..Chart::default()
    };
    html! {
        (chart::figure("plot-spend", &format!("Cost {word}"), &described, &chart))
        details.twin {
            summary { "The same as numbers" }
            div.scroll tabindex="0" {
                table {
                    caption.visually-hidden { "Cost " (word) ", latest first" }
                    thead { tr { th scope="col" { "From, " (format::zone()) } th.r scope="col" { "Cost" } th.r scope="col" { "Requests" } } }
                    tbody {
                        @for (place, (cost, requests)) in days.iter().enumerate().rev().filter(|(_, (_, requests))| *requests > 0) {
                            @let from = start + place as i64 * step;
                            tr {
                                th scope="row" { a href=(timed(link, from, from + step)) { (format::short_time(&rfc_3339(from))) } }
                                td.r { (format::money(Some(*cost))) } td.r { (format::count(*requests)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn timed(link: &str, since: i64, until: i64) -> String {
    let sign = if link.contains('?') { '&' } else { '?' };
    format!("{link}{sign}since={since}&until={until}")
}
