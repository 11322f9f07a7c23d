//! What shadow policies would choose beside what serves, and whether each may be tried.

use actix_web::HttpResponse;
use maud::{Markup, html};

use super::{
    answer, form, format,
    layout::{Nav, api_line, data_table},
    visit::Visit,
};
use crate::{
    api::{
        admin::promotion::{CheckBody, judged},
        diff::text::signed_dollars,
        health::shadows::{PredictedBody, ShadowBody, ShadowMoveBody, observed},
        number::Figure,
    },
    base::error::ApiError,
};

/// A shadow for the file.
const EXAMPLE: &str = "[[shadow]]\nname = \"thrifty\"\n\n[shadow.overrides]\nrouting.objective = \"cheapest\"\n";

/// Shows all shadows of the configuration.
///
/// # Errors
/// None.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let shadows = observed(worker);
    let content = html! {
        h1 { "Shadows" }
        p.lead { "What other configurations would choose for the same requests, while this one serves. Nobody is called for them: all figures are predictions of the gateway, corrected by what was measured." }
        @if shadows.is_empty() {
            p.empty { "There is no shadow. These lines in the file make one that chooses the cheapest endpoint:" }
            (form::to_copy(EXAMPLE))
        }
        @for shadow in &shadows { (card(shadow, &judged(worker, &shadow.shadow))) }
        p.muted { "What would have happened is another question: " code { "pointsman estimate --config" } " answers it from the records, where chance sent some requests the other way." }
        (api_line("/api/v1/health/shadows"))
    };
    Ok(answer::page(frame.page("Shadows", Some(Nav::Shadows), content)))
}

fn card(shadow: &ShadowBody, checks: &[CheckBody]) -> Markup {
    html! {
        article.card {
            header {
                h2 { (shadow.shadow) }
                @if !shadow.decides { span.tag { "ended" } }
                span.muted { code { (format::plain_name(&shadow.overrides, 200)) } }
            }
            p { (agreement(shadow)) " since " (format::time(&shadow.since)) @if shadow.skipped > 0 { "; " (format::count(shadow.skipped)) " were skipped" } "." }
            (data_table(html! { "Expected figures of the shadow " (shadow.shadow) },
                html! { th scope="col" { "Choices" } th.r scope="col" { "Cost" } th.r scope="col" { "First token" } th.r scope="col" { "Failure" } },
                html! { (figures("that served", &shadow.serving)) (figures("of the shadow", &shadow.predicted)) }))
            (data_table(html! { "Whether the shadow " (shadow.shadow) " may be tried" },
                html! { th scope="col" { "Limit" } th scope="col" { "" } th scope="col" { "Figures" } },
                html! { @for check in checks { (light(check)) } }))
            @if !shadow.moves.is_empty() {
                (data_table(html! { "Requests that the shadow " (shadow.shadow) " would move" },
                    html! { th scope="col" { "From" } th scope="col" { "To" } th.r scope="col" { "Requests" } th.r scope="col" { "Cost" } },
                    html! { @for moved in &shadow.moves { (row(moved)) } }))
            }
            p.muted { code { "pointsman promote " (shadow.shadow) " --share 0.05 --expect " (shadow.fingerprint) } " prints the lines that try it." }
        }
    }
}

fn agreement(shadow: &ShadowBody) -> Markup {
    html! {
        @match shadow.agreement {
            Some(share) => { "It agrees in " (format::share(Some(share.value()))) " of " (format::count(shadow.decisions)) " requests" }
            None => "It has decided no request",
        }
    }
}

fn figures(of: &str, predicted: &PredictedBody) -> Markup {
    html! {
        tr {
            th scope="row" { (of) }
            td.r { (format::estimate(predicted.cost.map(Figure::value))) }
            td.r { (format::millis(predicted.first_token_ms.map(Figure::value))) }
            td.r { (format::share(predicted.failure.map(Figure::value))) }
        }
    }
}

fn light(check: &CheckBody) -> Markup {
    let (tone, said) = if check.ok { ("good", "kept") } else { ("bad", "not kept") };
    html! { tr { th scope="row" { (check.check) } td { span.tag.(tone) { (said) } } td { (check.sentence) } } }
}

fn row(moved: &ShadowMoveBody) -> Markup {
    let endpoint = |name: Option<&str>| html! { @match name { Some(name) => (format::name(name, 60)), None => span.muted { "no endpoint" } } };
    html! {
        tr {
            th scope="row" { (endpoint(moved.from.as_deref())) }
            td { (endpoint(moved.to.as_deref())) }
            td.r { (format::count(moved.decisions)) }
            td.r { (signed_dollars(moved.cost.value())) }
        }
    }
}
