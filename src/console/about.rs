//! The page About: version, build and links.

use actix_web::{HttpRequest, HttpResponse};
use maud::html;

use super::{
    answer, format,
    layout::{Frame, Nav, api_line},
};
use crate::{api::health::gateway_health::ProcessBody, base::licenses, state::gateway::Worker};

/// Shows the facts of the process.
pub(super) async fn show(worker: Worker, request: HttpRequest) -> HttpResponse {
    let frame = Frame::of(&request);
    let process = ProcessBody::now(&worker);
    let build = &process.build;
    let facts = [
        ("Commit", build.revision),
        ("Commit date", build.date),
        ("Compiler", build.rustc),
        ("Target", build.target),
        ("Features", build.features),
    ];
    answer::page(frame.page(
        "About",
        Some(Nav::About),
        html! {
            h1 { "About this gateway" }
            dl.facts {
                dt { "Version" } dd { (process.version) }
                dt { "State" } dd { (process.status) }
                dt { "Started" } dd { (format::time(&process.started_at)) ", " (format::seconds(process.uptime_secs)) " ago" }
                @for (name, value) in facts { dt { (name) } dd { code { (value) } } }
                dt { "Licence" } dd { "Apache-2.0; " a href={ (frame.root) "licenses" } { "licences of the code and data in it" } }
            }
            h2 { "Elsewhere on this listener" }
            ul.plain {
                li { a href={ (frame.root) "../docs" } { "Paths of this listener" } ", also " a href={ (frame.root) "../openapi.json" } { "as OpenAPI" } }
                li { a href={ (frame.root) "../metrics" } { "Metrics" } " for Prometheus" }
                li { a href={ (frame.root) "../health" } { "Health" } " as JSON" }
            }
            (api_line("/health"))
        },
    ))
}

/// Shows the licences of what is part of the program, as `pointsman licenses` prints them.
pub(super) async fn licenses(request: HttpRequest) -> HttpResponse {
    let frame = Frame::of(&request);
    let content = html! {
        h1 { "Licences" }
        p.muted { "Of the code and data in this program. " code { "pointsman licenses" } " prints the same." }
        pre tabindex="0" { (licenses::TEXT) }
    };
    answer::page(frame.page("Licences", Some(Nav::About), content))
}
