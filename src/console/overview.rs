//! The overview: what needs attention, and all endpoints, worst first.

use actix_web::{HttpRequest, HttpResponse};
use maud::{Markup, html};

use super::{
    answer, format,
    layout::{Frame, Nav, api_line},
    measured::{self, Columns},
    visitor::Visitor,
};
use crate::{
    api::{admin::status::StatusBody, ledger_health::LedgerHealthBody, memory::MemoryBody, readings::Readings, stats},
    base::error::ApiError,
    state::gateway::Worker,
};

/// Seconds between two refreshes.
const REFRESH: u32 = 5;

/// Something that needs attention.
struct Notice {
    class: &'static str,
    title: String,
    detail: String,
}

/// Shows the overview.
///
/// # Errors
/// 503 when the statistics actor does not answer in time.
pub(super) async fn show(_: Visitor, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let frame = Frame::of(&request);
    let readings = Readings::now(&worker).await?;
    let status = StatusBody::now(&worker).await;
    let snapshot = worker.setup.published.snapshot();
    let bodies = stats::endpoint_bodies(&snapshot, &readings, None);
    let mut endpoints: Vec<_> = bodies.iter().collect();
    endpoints.sort_by_key(|endpoint| std::cmp::Reverse(measured::trouble(&endpoint.measured)));
    let notices = notices(&status, &LedgerHealthBody::now(&worker), &MemoryBody::now(&worker));
    let content = html! {
        h1 { "Overview" }
        div #overview data-refresh=(REFRESH) {
            (tiles(&status, &endpoints.iter().map(|endpoint| endpoint.measured.state).collect::<Vec<_>>()))
            (shown(&notices))
            h2 { "Endpoints " span.muted { (endpoints.len()) } }
            (measured::endpoint_table(&endpoints, "Endpoints, those in trouble first", Columns::OfAll))
        }
        (api_line("/api/v1/admin/status"))
    };
    Ok(answer::page(frame.page("Overview", Some(Nav::Overview), content)))
}

fn tiles(status: &StatusBody<'_>, states: &[&str]) -> Markup {
    let count = |state: &str| states.iter().filter(|other| **other == state).count();
    html! {
        dl.tiles {
            div { dt { "Endpoints healthy" } dd { (count("healthy")) small { " of " (states.len()) } } }
            div.bad[count("down") > 0] { dt { "Down" } dd { (count("down")) } }
            div.warn[count("degraded") > 0] { dt { "Degraded" } dd { (count("degraded")) } }
            div { dt { "Not called yet" } dd { (count("unknown")) } }
            div { dt { "In flight" } dd { (status.in_flight) @if let Some(most) = status.concurrency { small { " of " (most) } } } }
            div { dt { "Configuration" } dd { "v" (status.config.version) } }
            div { dt { "Up" } dd { (format::seconds(status.process.uptime_secs)) } }
        }
    }
}

fn shown(notices: &[Notice]) -> Markup {
    html! {
        @if !notices.is_empty() {
            ul.notices {
                @for notice in notices { li.(notice.class) { strong { (notice.title) } " " (notice.detail) } }
            }
        }
    }
}

fn notices(status: &StatusBody<'_>, ledger: &LedgerHealthBody, memory: &MemoryBody) -> Vec<Notice> {
    let notice = |class, title: &str, detail: String| Notice { class, title: title.to_owned(), detail };
    let mut notices = Vec::new();
    if status.process.status != "ok" {
        notices.push(notice("warn", "The gateway is shutting down.", "New calls are refused.".to_owned()));
    }
    if let Some(reload) = &status.config.last_reload {
        if let Some(fault) = reload.faults.first() {
            let more = reload.faults.len() - 1;
            let more = if more > 0 { format!(" And {more} more faults.") } else { String::new() };
            notices.push(notice(
                "bad",
                "The configuration on disk is refused.",
                format!("Version {} stays in force. {fault}{more}", status.config.version),
            ));
        }
        for pending in &reload.restart_pending {
            let detail =
                format!("{} is {} until a restart; the file says {}.", pending.key, pending.in_force, pending.wanted);
            notices.push(notice("warn", "A restart is pending.", detail));
        }
    }
    for actor in &status.actors {
        if !actor.ok {
            notices.push(notice(
                "bad",
                "A part of the gateway does not answer.",
                format!("Actor '{}' was silent for 500 ms.", actor.name),
            ));
        }
        if actor.restarts > 0 {
            let detail =
                format!("Actor '{}' was replaced {} times; its panics are in the log.", actor.name, actor.restarts);
            notices.push(notice("warn", "A part of the gateway was restarted.", detail));
        }
    }
    if status.dropped_events + status.dropped_records > 0 {
        let detail =
            format!("{} observations and {} records had no room.", status.dropped_events, status.dropped_records);
        notices.push(notice("warn", "Something was dropped.", detail));
    }
    match ledger.state {
        "degraded" => {
            let since = ledger.since.as_deref().unwrap_or("now");
            let detail =
                format!("Since {since}; {} records wait in memory, {} are lost.", ledger.queued, ledger.dropped);
            notices.push(notice("bad", "The disk of the ledger fails.", detail));
        }
        "memory" => {
            let detail =
                "Decisions cannot be listed. Set ledger.data_dir and ledger.durability to keep them.".to_owned();
            notices.push(notice("info", "Records are kept in memory only.", detail));
        }
        _ => {}
    }
    if memory.state == "failing" {
        let detail = memory.last_error.clone().unwrap_or_default();
        notices.push(notice("warn", "The routing memory cannot be saved.", detail));
    }
    if let Some(why) = &memory.not_restored {
        notices.push(notice("warn", "The routing memory was not restored.", why.clone()));
    }
    notices
}
