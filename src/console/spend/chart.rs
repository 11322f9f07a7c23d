//! Bars of the cost of each day or hour, divided among the dearest names.

use std::collections::BTreeMap;

use chrono::DateTime;
use maud::{Markup, html};
use pointsman_domain::{Usd, shown_dollars};
use pointsman_ledger::activity::grouping::Dimension;

use crate::{
    api::generations::activity::view::{ActivityBody, RowBody},
    console::{
        format,
        svg::{
            Caption,
            bars::{Bar, Piece, stacked_bars},
        },
    },
};

/// Classes of the dearest names, in order. What is left is [`OTHER`].
const CLASSES: [&str; 8] = ["t1", "t2", "t3", "t4", "t5", "t7", "t8", "t9"];
const OTHER: &str = "t6";
/// Most bars.
const MOST_BARS: usize = 100;

/// The chart with its legend; nothing where there is no second bar. `decisions` gives the address of what a row counts.
pub(super) fn bars(
    dimension: Dimension,
    body: &ActivityBody<'_>,
    decisions: impl Fn(&RowBody<'_>) -> Option<String>,
) -> Markup {
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
    let name = |row: &RowBody<'_>| row.name(dimension).unwrap_or("none").to_owned();
    let mut sums: BTreeMap<String, Usd> = BTreeMap::new();
    body.data.iter().for_each(|row| *sums.entry(name(row)).or_default() += row.cost.0);
    let mut ranked: Vec<(String, Usd)> = sums.into_iter().filter(|(_, cost)| !cost.is_zero()).collect();
    ranked.sort_by_key(|(_, cost)| std::cmp::Reverse(cost.femto()));
    if ranked.is_empty() {
        return Markup::default();
    }
    let has_other = ranked.len() > CLASSES.len();
    let rank = |name: &str| ranked.iter().take(CLASSES.len()).position(|(other, _)| other == name);
    let date = |at: i64| {
        let local = DateTime::from_timestamp_millis(at + body.tz_offset_minutes * 60_000).unwrap_or_default();
        local.format(if is_hourly { "%m-%d %H:%M" } else { "%m-%d" }).to_string()
    };
    let places = (0..places as i64).map(|place| start + place * step);
    let bars: Vec<Bar> = places
        .map(|at| {
            let of_time = body.data.iter().filter(|row| row.start.as_deref().and_then(millis) == Some(at));
            let mut pieces: Vec<(usize, Piece)> = Vec::new();
            let mut rest = Usd::ZERO;
            for row in of_time {
                let Some(rank) = rank(&name(row)) else {
                    rest += row.cost.0;
                    continue;
                };
                let title = format!(
                    "{}, {}: {}, {} requests",
                    date(at),
                    format::plain_name(&name(row), 60),
                    shown_dollars(row.cost.0),
                    row.requests
                );
                let class = CLASSES.get(rank).copied().unwrap_or(OTHER);
                pieces.push((rank, Piece { class, value: row.cost.0.to_f64(), title, address: decisions(row) }));
            }
            pieces.sort_by_key(|(rank, _)| *rank);
            let mut pieces: Vec<Piece> = pieces.into_iter().map(|(_, piece)| piece).collect();
            if !rest.is_zero() {
                let title = format!("{}, others: {}", date(at), shown_dollars(rest));
                pieces.push(Piece { class: OTHER, value: rest.to_f64(), title, address: None });
            }
            Bar { label: date(at), pieces }
        })
        .collect();
    let word = if is_hourly { "hour" } else { "day" };
    let described = format!(
        "{} bars, one a {word}, oldest first, divided by {}. The sums stand in the table below.",
        bars.len(),
        dimension.as_str()
    );
    html! {
        figure.card.bars {
            figcaption { "Cost a " (word) ", by " (dimension.as_str()) }
            (stacked_bars(Caption { title: "Cost", description: &described }, &bars, format::estimated_dollars))
            ul.legend {
                @for ((name, cost), class) in ranked.iter().zip(CLASSES) { (swatch(class, &format!("{} {}", format::plain_name(name, 30), shown_dollars(*cost)))) }
                @if has_other { (swatch(OTHER, "others")) }
            }
        }
    }
}

fn swatch(class: &str, text: &str) -> Markup {
    html! { li { svg aria-hidden="true" viewBox="0 0 12 12" { rect class=(class) width="12" height="12" rx="2" {} } (text) } }
}
