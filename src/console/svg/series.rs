//! Charts over time and of calibration: lines, stacked areas and points.

use maud::{Markup, html};

use super::{Caption, described, number, percent, ticks};

/// A point of a scatter chart.
#[derive(Debug, Clone)]
pub(in crate::console) struct Point {
    pub(in crate::console) class: &'static str,
    pub(in crate::console) x: f64,
    pub(in crate::console) y: f64,
    pub(in crate::console) title: String,
    /// An upright line beside the point, from and to.
    pub(in crate::console) interval: Option<(f64, f64)>,
}

/// Lines over the same places, each with its class. Gaps are values that are not known; the top is the greatest value.
pub(in crate::console) fn lines(caption: Caption<'_>, series: &[(&str, &[Option<f64>])]) -> Markup {
    let most = series.iter().flat_map(|(_, values)| values.iter().flatten()).copied().fold(0.0, f64::max);
    let places = series.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let width = places.saturating_sub(1).max(1);
    html! {
        svg.chart role="img" viewBox={ "0 0 " (width) " 100" } preserveAspectRatio="none" {
            (described(caption))
            @for (class, values) in series { path class=(class) d=(line_path(values, most)) {} }
        }
    }
}

fn line_path(values: &[Option<f64>], most: f64) -> String {
    let mut path = String::new();
    let mut is_drawing = false;
    for (x, value) in values.iter().enumerate() {
        if let Some(value) = value {
            let y = if most > 0.0 { 100.0 - value / most * 98.0 } else { 100.0 };
            path.push_str(&format!("{}{x} {}", if is_drawing { "L" } else { "M" }, number(y)));
            if !is_drawing {
                // A single value is a short stroke.
                path.push_str("h.01");
            }
        }
        is_drawing = value.is_some();
    }
    path
}

/// Areas over the same places, stacked in their order, each with its class.
pub(in crate::console) fn stacked_areas(caption: Caption<'_>, series: &[(&str, &[f64])]) -> Markup {
    let places = series.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let mut totals = vec![0.0; places];
    let mut stacks: Vec<(&str, Vec<f64>, Vec<f64>)> = Vec::new();
    for (class, values) in series {
        let base = totals.clone();
        for (total, value) in totals.iter_mut().zip(*values) {
            *total += value;
        }
        stacks.push((class, base, totals.clone()));
    }
    let most = totals.iter().copied().fold(0.0, f64::max);
    html! {
        svg.chart role="img" viewBox={ "0 0 " (places.max(1)) " 100" } preserveAspectRatio="none" {
            (described(caption))
            @for (class, base, top) in &stacks { path class=(class) d=(area_path(base, top, most)) {} }
        }
    }
}

/// Steps along the top and back along the base; places without height are left out.
fn area_path(base: &[f64], top: &[f64], most: f64) -> String {
    let y = |value: f64| number(if most > 0.0 { 100.0 - value / most * 98.0 } else { 100.0 });
    let mut path = String::new();
    for (x, (base, top)) in base.iter().zip(top).enumerate().filter(|(_, (base, top))| top > base) {
        path.push_str(&format!("M{x} {}V{}h1V{}z", y(*base), y(*top), y(*base)));
    }
    path
}

/// Points between 0 and `most` on both axes, with the diagonal on which both are equal. `label` names a place on an axis.
pub(in crate::console) fn scatter(
    caption: Caption<'_>,
    points: &[Point],
    most: f64,
    label: impl Fn(f64) -> String,
) -> Markup {
    let ticks = ticks(most);
    html! {
        svg.scatter role="img" width="100%" height="260" {
            (described(caption))
            @for tick in &ticks {
                line.grid x1=(percent(*tick, most)) x2=(percent(*tick, most)) y1="0" y2="100%" {}
                line.grid y1=(percent(most - tick, most)) y2=(percent(most - tick, most)) x1="0" x2="100%" {}
                @if *tick > 0.0 { text.tick x="0" y=(percent(most - tick, most)) dx="4" dy="-3" { (label(*tick)) } }
                @if *tick > 0.0 && *tick < most * 0.97 { text.tick x=(percent(*tick, most)) y="100%" dx="3" dy="-4" { (label(*tick)) } }
            }
            line.diagonal x1="0" y1="100%" x2="100%" y2="0" {}
            @for point in points {
                @if let Some((low, high)) = point.interval {
                    line.interval x1=(percent(point.x, most)) x2=(percent(point.x, most)) y1=(percent(most - low, most)) y2=(percent(most - high, most))
                        data-low=(low) data-high=(high) {}
                }
                circle class=(point.class) cx=(percent(point.x, most)) cy=(percent(most - point.y, most)) r="4"
                    data-x=(point.x) data-y=(point.y) {
                    title { (point.title) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTION: Caption<'_> = Caption { title: "T", description: "D" };

    #[test]
    fn a_line_has_gaps_where_nothing_is_known() {
        assert_eq!(line_path(&[Some(1.0), Some(2.0), None, Some(2.0)], 2.0), "M0 51h.01L1 2M3 2h.01");
        assert_eq!(line_path(&[None, None], 0.0), "");
    }

    #[test]
    fn areas_are_stacked_and_empty_places_cost_nothing() {
        assert_eq!(area_path(&[0.0, 0.0], &[1.0, 0.0], 2.0), "M0 100V51h1V100z");
        let chart = stacked_areas(CAPTION, &[("ok", &[1.0, 0.0]), ("bad", &[1.0, 0.0])]).into_string();
        assert!(chart.contains("class=\"bad\" d=\"M0 51V2h1V51z\""), "{chart}");
    }

    #[test]
    fn points_and_lines_stand_where_their_numbers_say() {
        let point = Point { class: "thin", x: 0.25, y: 0.75, title: "p".to_owned(), interval: Some((0.5, 1.0)) };
        let chart = scatter(CAPTION, &[point], 1.0, |tick| tick.to_string()).into_string();
        assert!(chart.contains("cx=\"25%\" cy=\"25%\""), "{chart}");
        assert!(chart.contains("x1=\"25%\" x2=\"25%\" y1=\"50%\" y2=\"0%\""), "{chart}");
        let chart = lines(CAPTION, &[("p50", &[Some(1.0), Some(2.0)])]).into_string();
        assert!(chart.contains("class=\"p50\" d=\"M0 51h.01L1 2\""), "{chart}");
    }
}
