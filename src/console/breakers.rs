//! The last hour of circuit breakers: a strip for each breaker that moved, and a table with the same times.

use maud::{Markup, html};

use super::{
    format,
    layout::data_table,
    svg::{self, Caption, Span},
    words,
};
use crate::api::admin::breakers_view::{BreakerBody, PhaseBody};

/// Width of a strip, in minutes.
const MINUTES: f64 = 60.0;

/// The breakers of the provider of this name that moved.
pub(super) fn last_hour(provider: &str, breakers: &[BreakerBody]) -> Markup {
    html! {
        @if !breakers.is_empty() {
            section.strips-of-breakers {
                h3 { "Circuit breakers in the last hour" }
                ul.legend {
                    @for (class, label) in [("closed", "closed"), ("half_open", "half open"), ("open", "open"), ("cooldown", "cooldown")] {
                        li { svg.lane aria-hidden="true" viewBox="0 0 12 22" { rect class=(class) width="12" y="4" height="14" {} } (label) }
                    }
                }
                dl {
                    @for breaker in breakers { dt { (subject(breaker)) } dd { (strip(provider, breaker)) } }
                    dt.visually-hidden { "Minutes ago" }
                    dd { (svg::axis(MINUTES, |minute| if minute < MINUTES { format!("−{:.0} min", MINUTES - minute) } else { "now".to_owned() })) }
                }
                details.twin { summary { "The same as a table" } (table(breakers)) }
            }
        }
    }
}

fn subject(breaker: &BreakerBody) -> Markup {
    html! { @if let Some(model) = &breaker.model { (format::name(model, 56)) } @else { "the whole provider" } }
}

fn strip(provider: &str, breaker: &BreakerBody) -> Markup {
    let said: Vec<String> = breaker.phases.iter().map(sentence).collect();
    let span = |phase: &PhaseBody| Span {
        class: class(phase.circuit),
        start: MINUTES - phase.ago.0 / 60.0,
        end: MINUTES - phase.ago.1 / 60.0,
        title: sentence(phase),
    };
    let spans: Vec<Span> = breaker.phases.iter().map(span).collect();
    let title = match &breaker.model {
        Some(model) => format!("Breaker of {model} at {provider}"),
        None => format!("Breaker of {provider}"),
    };
    svg::lane(Caption { title: &title, description: &said.join(", ") }, &spans, &[], MINUTES)
}

/// The class of a state in the stylesheet.
fn class(circuit: &str) -> &'static str {
    match circuit {
        "closed" => "closed",
        "half_open" => "half_open",
        "cooldown" => "cooldown",
        _ => "open",
    }
}

/// A phase, such as `open for 12 s`.
fn sentence(phase: &PhaseBody) -> String {
    format!("{} for {}", words::spaced(phase.circuit), format::duration((phase.ago.0 - phase.ago.1).max(0.0) * 1e3))
}

fn table(breakers: &[BreakerBody]) -> Markup {
    html! {
        (data_table("States of circuit breakers in the last hour",
            html! { th scope="col" { "Breaker" } th scope="col" { "State" } th scope="col" { "From " (format::zone()) } th scope="col" { "Until" } },
            html! {
                @for breaker in breakers {
                    @for phase in &breaker.phases {
                        tr {
                            th scope="row" { (subject(breaker)) }
                            td { (words::spaced(phase.circuit)) }
                            td.t { (format::clock(&phase.from)) }
                            td.t { (format::clock(&phase.until)) }
                        }
                    }
                }
            }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(circuit: &'static str, ago: (f64, f64)) -> PhaseBody {
        let time = |ago: f64| format!("2026-11-23T12:{:02}:00.000Z", 59 - (ago / 60.0) as u32);
        PhaseBody { circuit, from: time(ago.0), until: time(ago.1), ago }
    }

    #[test]
    fn a_strip_ends_now_and_its_table_has_the_same_states() {
        let phases = vec![phase("closed", (1_800.0, 900.0)), phase("open", (900.0, 0.0))];
        let shown = last_hour("Acme", &[BreakerBody { model: Some("acme/<b>".to_owned()), phases }]).into_string();
        assert!(shown.contains("class=\"closed\" x=\"50%\" width=\"25%\""), "{shown}");
        assert!(shown.contains("class=\"open\" x=\"75%\" width=\"25%\""), "{shown}");
        assert!(shown.contains("<desc>closed for 15 min, open for 15 min</desc>"), "{shown}");
        assert!(shown.contains("12:29:00") && shown.contains("acme/&lt;b&gt;") && !shown.contains("<b>"), "{shown}");
        assert_eq!(last_hour("Acme", &[]).into_string(), "");
    }
}
