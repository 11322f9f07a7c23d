//! Budgets: what is left of a limit, in words and as a bar.

use maud::{Markup, html};

use super::{
    format,
    svg::{self, Caption, Segment},
};
use crate::api::{
    admin::budget_notices::{NEAR, SPENT},
    number::Dollars,
};

/// What is left of a limit; marked when it is little.
pub(super) fn left(limit: Option<Dollars>, left: Option<Dollars>, period: Option<&str>) -> Markup {
    let (Some(limit), Some(left)) = (limit, left) else { return html! { span.muted { "no limit" } } };
    let tone = match left.0 {
        left if left * SPENT < limit.0 => "bad",
        left if left * NEAR <= limit.0 => "warn",
        _ => "",
    };
    html! {
        span.(tone) { (format::money(Some(left.0))) } span.muted { " of " (format::money(Some(limit.0))) }
        @if let Some(period) = period { " " span.muted { (period) } }
    }
}

/// How much of a limit is spent; a dash without a limit.
pub(super) fn bar(limit: Option<Dollars>, left: Option<Dollars>) -> Markup {
    let Some((limit, left)) = limit.zip(left) else { return format::none() };
    let spent = limit.0 - left.0;
    let title = format!("{} of {} spent", format::dollars(spent), format::dollars(limit.0));
    let class = match left.0 {
        left if left * SPENT < limit.0 => "t4",
        left if left * NEAR <= limit.0 => "t2",
        _ => "t1",
    };
    let segment = Segment { class, value: spent.to_f64(), title: &title };
    html! { div.track { (svg::bar(Caption { title: "Spent of the limit", description: &title }, &[segment], limit.0.to_f64())) } }
}
