//! Bars, lanes and whiskers of tables, as SVG. Positions are percentages: each has the width of its box, and its text stays as it is.
//!
//! Each has a title and a description, and stands beside a table with the same numbers. Colours are classes of the
//! stylesheet, because the pages allow no inline style.

use maud::{Markup, html};

/// What a chart says to people who do not see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caption<'a> {
    pub(super) title: &'a str,
    pub(super) description: &'a str,
}

/// A part of a bar: its class and its length in the unit of the chart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) class: &'a str,
    pub(super) value: f64,
    pub(super) title: &'a str,
}

/// A part of a lane: from `start` to `end`.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) class: &'static str,
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) title: String,
}

/// A prediction and what became of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whisker {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) actual: Option<f64>,
}

/// Percent of `most`, with two decimals, for an attribute.
fn percent(value: f64, most: f64) -> String {
    format!("{}%", number(if most > 0.0 { (value / most).clamp(0.0, 1.0) * 100.0 } else { 0.0 }))
}

/// The width of a part, of which only what lies within the whole width is drawn.
fn width(start: f64, end: f64, most: f64) -> String {
    percent(end.min(most) - start.clamp(0.0, most), most)
}

/// A coordinate: two decimals at most.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Ticks from 0 in steps of 1, 2 or 5 times a power of ten: four to eight of them.
pub(super) fn ticks(most: f64) -> Vec<f64> {
    if !(most.is_finite() && most > 0.0) {
        return vec![0.0];
    }
    let power = 10_f64.powf((most / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).rfind(|step| most / step >= 4.0);
    let step = step.unwrap_or(power);
    (0..).map(|n| f64::from(n) * step).take_while(|tick| *tick <= most * 1.000_001).collect()
}

/// A horizontal bar of parts. `most` is the length of the whole width; a longer bar is cut there, and says so.
pub(super) fn bar(caption: Caption<'_>, segments: &[Segment<'_>], most: f64) -> Markup {
    let mut at = 0.0;
    let placed: Vec<(f64, &Segment<'_>)> = segments
        .iter()
        .map(|segment| {
            let start = at;
            at += segment.value.max(0.0);
            (start, segment)
        })
        .collect();
    html! {
        svg.score role="img" height="16" width="100%" {
            (described(caption))
            @for (start, segment) in placed {
                rect class=(segment.class) x=(percent(start, most)) width=(width(start, start + segment.value, most)) y="1" height="14"
                    data-v=(segment.value) {
                    title { (segment.title) }
                }
            }
            @if at > most * 1.000_001 { svg x="100%" width="1" height="16" { path.cut d="M-9 18l5-20M-5 18l5-20" {} } }
        }
    }
}

/// A predicted median with a whisker to the 95th percentile, and a dot for what happened.
pub(super) fn whisker(caption: Caption<'_>, whisker: Whisker, most: f64) -> Markup {
    // A value that is not finite stands at the end.
    let place = |value: f64| percent(if value.is_finite() { value } else { most }, most);
    let (p50, p95) = (place(whisker.p50), place(whisker.p95));
    html! {
        svg.whisker role="img" height="16" width="100%" {
            (described(caption))
            line.axis x1="0" x2="100%" y1="15.5" y2="15.5" {}
            line.range x1=(p50) x2=(p95) y1="8" y2="8" {}
            line.median x1=(p50) x2=(p50) y1="3" y2="13" {}
            line.end x1=(p95) x2=(p95) y1="5" y2="11" {}
            @if let Some(actual) = whisker.actual { circle.actual cx=(percent(actual, most)) cy="8" r="3.5" {} }
        }
    }
}

/// A small whisker, for a legend.
pub(super) fn whisker_key() -> Markup {
    html! { svg.whisker.key aria-hidden="true" { line.median x1="4" x2="4" y1="2" y2="10" {} line.range x1="4" x2="16" y1="6" y2="6" {} } }
}

/// A small dot, for a legend.
pub(super) fn dot_key() -> Markup {
    html! { svg aria-hidden="true" viewBox="0 0 12 12" { circle.actual cx="6" cy="6" r="4" {} } }
}

/// Spans of time in one lane. `markers` are vertical lines with their classes.
pub(super) fn lane(caption: Caption<'_>, spans: &[Span], markers: &[(&str, f64)], most: f64) -> Markup {
    html! {
        svg.lane role="img" height="22" width="100%" {
            (described(caption))
            @for tick in ticks(most) { line.grid x1=(percent(tick, most)) x2=(percent(tick, most)) y1="0" y2="22" {} }
            @for span in spans {
                rect class=(span.class) x=(percent(span.start, most)) width=(width(span.start, span.end, most))
                    y="4" height="14" data-start=(span.start) data-end=(span.end) {
                    title { (span.title) }
                }
            }
            @for (class, at) in markers { line class=(class) x1=(percent(*at, most)) x2=(percent(*at, most)) y1="0" y2="22" {} }
        }
    }
}

/// The labels of the ticks of an axis.
pub(super) fn axis(most: f64, label: impl Fn(f64) -> String) -> Markup {
    let ticks = ticks(most);
    html! {
        svg.ticks height="16" width="100%" aria-hidden="true" {
            @for tick in &ticks {
                @let anchor = if *tick == 0.0 { "start" } else if *tick > most * 0.95 { "end" } else { "middle" };
                text x=(percent(*tick, most)) y="12" text-anchor=(anchor) { (label(*tick)) }
            }
        }
    }
}

fn described(caption: Caption<'_>) -> Markup {
    html! { title { (caption.title) } desc { (caption.description) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTION: Caption<'_> = Caption { title: "T <1>", description: "D & d" };

    #[test]
    fn ticks_are_steps_of_1_2_and_5() {
        assert_eq!(ticks(10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(2_104.0), [0.0, 500.0, 1_000.0, 1_500.0, 2_000.0]);
        assert_eq!(ticks(4.0), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ticks(0.0), [0.0]);
        assert_eq!(ticks(f64::NAN), [0.0]);
        for most in [0.003, 0.7, 1.0, 9.9, 33.0, 12_345.0] {
            assert!((5..=10).contains(&ticks(most).len()), "{most} {:?}", ticks(most));
        }
    }

    #[test]
    fn a_chart_describes_itself_and_escapes_its_words() {
        let segment = Segment { class: "a", value: 1.0, title: "<b>" };
        let chart = bar(CAPTION, &[segment], 4.0).into_string();
        assert!(chart.contains("role=\"img\""), "{chart}");
        assert!(chart.contains("<title>T &lt;1&gt;</title><desc>D &amp; d</desc>"), "{chart}");
        assert!(chart.contains("width=\"25%\"") && chart.contains("&lt;b&gt;"), "{chart}");
        assert!(!chart.contains("style="), "{chart}");
    }

    #[test]
    fn parts_of_a_bar_stand_one_behind_the_other() {
        let segment = |value| Segment { class: "a", value, title: "" };
        let chart = bar(CAPTION, &[segment(1.0), segment(2.0)], 4.0).into_string();
        assert!(chart.contains("x=\"0%\" width=\"25%\"") && chart.contains("x=\"25%\" width=\"50%\""), "{chart}");
        assert!(!chart.contains("cut"), "{chart}");
        let long = bar(CAPTION, &[segment(1.0), segment(9.0), segment(1.0)], 4.0).into_string();
        assert!(long.contains("x=\"25%\" width=\"75%\"") && long.contains("x=\"100%\" width=\"0%\""), "{long}");
        assert!(long.contains("cut"), "longer than the whole width");
    }

    #[test]
    fn nothing_that_is_not_finite_becomes_a_coordinate() {
        let whiskers = whisker(CAPTION, Whisker { p50: f64::NAN, p95: f64::INFINITY, actual: None }, 0.0).into_string();
        assert!(!whiskers.contains("NaN") && !whiskers.contains("inf"), "{whiskers}");
    }
}
