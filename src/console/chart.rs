//! Charts, which the script draws with uPlot from the JSON in the page. Without a script nothing is drawn: beside each chart
//! stands a table with the same numbers.

use maud::{Markup, html};
use serde::Serialize;

/// What the script draws.
#[derive(Debug, Default, Serialize)]
pub(super) struct Chart {
    pub(super) kind: Kind,
    /// Unit of the values: `$`, `ms`, `%` of 1, or nothing for a count.
    pub(super) unit: &'static str,
    /// Beginnings of the slots of time, Unix seconds; of points their values across.
    pub(super) x: Vec<f64>,
    /// Length of a slot in seconds; 0 where `x` is no time.
    pub(super) step: i64,
    /// Minutes of the zone that times are shown in, whatever zone the page shows.
    pub(super) offset: Option<i64>,
    /// Whether the last slot is not over.
    pub(super) running: bool,
    /// The lowest series first.
    pub(super) series: Vec<Series>,
    /// What happened, and when: Unix seconds.
    pub(super) marks: Vec<(i64, &'static str)>,
    /// The end of both axes of points; of others a line across.
    pub(super) bound: Option<f64>,
    /// Address of what a slot counts, up to its question mark: the filter of the series and the times follow.
    pub(super) link: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// Bars of pieces on top of each other.
    #[default]
    Bars,
    Lines,
    /// Points, with the diagonal on which both values are equal.
    Points,
}

/// One line, or one colour of the bars.
#[derive(Debug, Default, Serialize)]
pub(super) struct Series {
    pub(super) name: String,
    /// A colour of the stylesheet, `t1` to `t9`.
    pub(super) tone: &'static str,
    /// One value for each of `x`. What is not known is a gap.
    pub(super) y: Vec<Option<f64>>,
    /// Query of the link, without the times; `None` where the pieces lead nowhere.
    pub(super) filter: Option<String>,
    /// Names of points, and the range in which the truth lies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ranges: Vec<Option<(f64, f64)>>,
}

impl Series {
    pub(super) fn new(
        name: &str,
        tone: &'static str,
        filter: &str,
        y: impl IntoIterator<Item = Option<f64>>,
    ) -> Series {
        let (name, filter, y) = (name.to_owned(), Some(filter.to_owned()), y.into_iter().collect());
        Series { name, tone, filter, y, ..Series::default() }
    }
}

/// The chart in its frame. `id` keeps it the same while its page is refreshed.
pub(super) fn figure(id: &str, title: &str, description: &str, chart: &Chart) -> Markup {
    let json = serde_json::to_string(chart).unwrap_or_default();
    html! {
        figure.plot #(id) {
            figcaption { (title) " " span.muted { (description) } }
            div role="img" aria-label={ (title) ". " (description) } data-plot=(json) {}
            ul.legend { @for series in &chart.series { (swatch(series.tone, &series.name)) } }
        }
    }
}

/// An entry of a legend.
pub(super) fn swatch(tone: &str, text: &str) -> Markup {
    html! { li { svg aria-hidden="true" viewBox="0 0 12 12" { rect class=(tone) width="12" height="12" rx="2" {} } (text) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_says_its_numbers_and_escapes_its_names() {
        let series = Series::new("<b>\"x\"", "t1", "", [Some(1.5), None]);
        let chart = Chart { unit: "$", x: vec![60.0, 120.0], step: 60, series: vec![series], ..Chart::default() };
        let shown = figure("cost", "Cost <1>", "up to $1.50", &chart).into_string();
        assert!(shown.contains("aria-label=\"Cost &lt;1&gt;. up to $1.50\""), "{shown}");
        assert!(
            shown.contains("&quot;y&quot;:[1.5,null]") && shown.contains("&quot;kind&quot;:&quot;bars&quot;"),
            "{shown}"
        );
        assert!(!shown.contains("<b>") && !shown.contains("style="), "{shown}");
    }
}
