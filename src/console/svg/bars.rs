//! Bars that stand beside each other, each of pieces on top of each other, with an axis of values.

use maud::{Markup, html};

use super::{Caption, percent, ticks};

/// A piece of a bar. Its title is shown on hover.
#[derive(Debug, Clone)]
pub(in crate::console) struct Piece {
    pub(in crate::console) class: &'static str,
    pub(in crate::console) value: f64,
    pub(in crate::console) title: String,
    /// Where a click leads.
    pub(in crate::console) address: Option<String>,
}

/// One bar, its lowest piece first.
#[derive(Debug, Clone)]
pub(in crate::console) struct Bar {
    pub(in crate::console) label: String,
    pub(in crate::console) pieces: Vec<Piece>,
}

/// Part of its place that a bar fills.
const FILLED: f64 = 0.78;
/// Most labels below the bars.
const MOST_LABELS: usize = 10;

/// The bars from left to right. `shown` writes a value of the axis.
pub(in crate::console) fn stacked_bars(caption: Caption<'_>, bars: &[Bar], shown: impl Fn(f64) -> String) -> Markup {
    let height = |bar: &Bar| bar.pieces.iter().map(|piece| piece.value.max(0.0)).sum::<f64>();
    let most = bars.iter().map(height).fold(0.0, f64::max) * 1.05;
    let places = bars.len().max(1) as f64;
    let every = bars.len().div_ceil(MOST_LABELS).max(1);
    html! {
        svg.bars role="group" aria-label=(caption.title) width="100%" height="180" {
            desc { (caption.description) }
            @for tick in ticks(most) {
                line.grid y1=(percent(most - tick, most)) y2=(percent(most - tick, most)) x1="0" x2="100%" {}
            }
            @for (place, bar) in bars.iter().enumerate() { (pieces(bar, place as f64, places, most)) }
            @for tick in ticks(most).into_iter().filter(|tick| *tick > 0.0) {
                text.tick x="0" y=(percent(most - tick, most)) dx="2" dy="-3" { (shown(tick)) }
            }
        }
        svg.ticks height="16" width="100%" aria-hidden="true" {
            @for (place, bar) in bars.iter().enumerate().filter(|(place, _)| place % every == 0) {
                text x=(percent(place as f64 + 0.5, places)) y="12" text-anchor="middle" { (bar.label) }
            }
        }
    }
}

fn pieces(bar: &Bar, place: f64, places: f64, most: f64) -> Markup {
    let mut base = 0.0;
    let placed = bar.pieces.iter().map(|piece| {
        let from = base;
        base += piece.value.max(0.0);
        (from, base, piece)
    });
    let placed: Vec<(f64, f64, &Piece)> = placed.collect();
    let rect = |from: f64, to: f64, piece: &Piece| {
        html! {
            rect class=(piece.class) x=(percent(place + (1.0 - FILLED) / 2.0, places)) width=(percent(FILLED, places))
                y=(percent(most - to, most)) height=(percent(to - from, most)) data-v=(piece.value) { title { (piece.title) } }
        }
    };
    html! {
        @for (from, to, piece) in placed {
            @match &piece.address {
                // The table has the same links: those who use a keyboard need not pass every piece.
                Some(address) => { a href=(address) tabindex="-1" aria-label=(piece.title) { (rect(from, to, piece)) } },
                None => { (rect(from, to, piece)) },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_stand_on_each_other_and_tell_their_values() {
        let piece = |class, value, address: Option<&str>| Piece {
            class,
            value,
            title: format!("<{value}>"),
            address: address.map(str::to_owned),
        };
        let bars = [
            Bar {
                label: "11-20".to_owned(),
                pieces: vec![piece("t1", 1.0, Some("decisions?a=1&b=2")), piece("t2", 3.0, None)],
            },
            Bar { label: "11-21".to_owned(), pieces: Vec::new() },
        ];
        let caption = Caption { title: "T", description: "D" };
        let chart = stacked_bars(caption, &bars, |value| format!("${value}")).into_string();
        assert!(chart.contains("class=\"t1\" x=\"5.5%\" width=\"39%\" y=\"76.19%\" height=\"23.81%\""), "{chart}");
        assert!(chart.contains("class=\"t2\" x=\"5.5%\" width=\"39%\" y=\"4.76%\" height=\"71.43%\""), "{chart}");
        assert!(chart.contains("href=\"decisions?a=1&amp;b=2\"") && chart.contains("&lt;3&gt;"), "{chart}");
        assert!(chart.contains(">11-21<") && chart.contains(">$2<") && !chart.contains("style="), "{chart}");
        assert!(!stacked_bars(caption, &[], |_| String::new()).into_string().contains("NaN"));
    }
}
