//! What shadow policies would have chosen for the request, beside what served it.

use maud::{Markup, html};

use super::candidates::endpoint;
use crate::{
    api::decisions::{explain_view::ExplainBody, shadow_view::ShadowChoiceBody},
    console::{format, layout::data_table},
};

/// The section; nothing where no shadow decided.
pub(super) fn section(body: &ExplainBody<'_>) -> Markup {
    html! {
        @if !body.shadows.is_empty() {
            h2 #shadows { "Shadows" }
            p.muted { "What other configurations would have chosen for this request, decided with it. Nobody was called for them; their figures are predictions." }
            (data_table("What shadow policies would have chosen",
                html! {
                    th scope="col" { "Shadow" } th scope="col" { "Choice" } th.r scope="col" { "The choice that served scores worse by" }
                    th.r scope="col" { "Cost" } th.r scope="col" { "First token" } th.r scope="col" { "Failure" }
                },
                html! { @for choice in &body.shadows { (row(choice)) } }))
        }
    }
}

fn row(choice: &ShadowChoiceBody<'_>) -> Markup {
    html! {
        tr {
            th scope="row" { (choice.shadow) }
            td {
                @match &choice.choice { Some(names) => (endpoint(names)), None => span.muted { "no endpoint" } }
                @if choice.agrees { " " span.tag.good { "the same" } }
            }
            @if choice.choice.is_some() {
                td.r { @match choice.score_gap { Some(gap) => (format::figure(Some(gap.value()), 4)), None => span.muted { "could not be chosen" } } }
                td.r { (format::estimate(Some(choice.expected_cost.value()))) }
                td.r { (format::millis(Some(choice.expected_first_token_ms.value()))) }
                td.r { (format::share(Some(choice.failure_probability.value()))) }
            } @else { td.r { (format::none()) } td.r { (format::none()) } td.r { (format::none()) } td.r { (format::none()) } }
        }
    }
}
