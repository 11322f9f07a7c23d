//! The ledger: state, size and age of the records, and the check that reads them all.

use actix_web::HttpResponse;
use maud::{Markup, html};
use pointsman_dialect::percent;

use super::{
    answer,
    form::Entered,
    format,
    layout::{Frame, Nav, api_line, data_table},
    svg::{self, Caption, Segment},
    visit::Visit,
};
use crate::{
    api::{
        admin::{
            keys,
            ledger::{self, LedgerBody, OwnerBody},
        },
        health::{ledger_health::LedgerHealthBody, ledger_verification::VerificationBody},
    },
    base::error::ApiError,
};

/// Accounts shown at once.
const MOST_OWNERS: usize = 100;

/// Shows the ledger.
///
/// # Errors
/// 503 when the ledger does not answer.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    page(&visit, None).await
}

/// Reads every record, compares the sums with them, and shows what was found.
///
/// # Errors
/// As `GET /admin/ledger/verification`, 403 for a form of another session.
pub(super) async fn verify(visit: Visit, _: Entered) -> Result<HttpResponse, ApiError> {
    let found = ledger::verification(&visit.worker).await?;
    page(&visit, Some(&found)).await
}

async fn page(visit: &Visit, found: Option<&VerificationBody>) -> Result<HttpResponse, ApiError> {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let size = keys::ledger_size(worker).await?;
    let (body, health) = (LedgerBody::new(worker, &size), LedgerHealthBody::now(worker));
    let content = html! {
        h1 { "Ledger" }
        (state(&health))
        @if let Some(found) = found { (verification(found)) }
        div.columns {
            section { h2 { "Records" } (facts(&body, &health)) }
            section { h2 { "Check" } (check(frame, &body)) }
        }
        (owners(&body.by_key))
        (api_line("/api/v1/admin/ledger"))
    };
    Ok(answer::page(frame.page("Ledger", Some(Nav::Ledger), content)))
}

fn state(health: &LedgerHealthBody) -> Markup {
    html! {
        @match health.state {
            "ok" => p.verdict { "Records are on disk and written as calls end." },
            "memory" => p.verdict.warn { strong { "Note:" } " Records are kept in memory only. They end with the process; " code { "ledger.data_dir" } " and " code { "ledger.durability" } " store them." },
            _ => p.verdict.bad {
                strong { "Critical:" } " The disk of the ledger fails"
                @if let Some(since) = &health.since { " since " (format::time(since)) } ". "
                (format::count(health.queued as u64)) " records wait in memory. The reason is in the log."
            },
        }
        @if health.dropped > 0 { p.alert { (format::count(health.dropped)) " records were lost since the start, because neither disk nor memory had room." } }
        @if health.set_aside { p.alert { "An earlier ledger was moved to a folder of its own since the start: what it knows counts against no spending limit." } }
    }
}

fn facts(body: &LedgerBody, health: &LedgerHealthBody) -> Markup {
    html! {
        dl.facts {
            dt { "Records" } dd { (format::count(body.records as u64)) @if let Some(most) = body.capacity { span.muted { " of at most " (format::count(most as u64)) } } }
            @if let (Some(bytes), Some(most)) = (body.bytes, body.max_bytes) {
                dt { "On disk" } dd {
                    (format::bytes(bytes)) span.muted { " of " (format::bytes(most)) ", then the oldest are dropped" }
                    @let said = format!("{} of {}", format::bytes_text(bytes), format::bytes_text(most));
                    div.track { (svg::bar(Caption { title: "Size of the ledger", description: &said }, &[Segment { class: "t1", value: bytes as f64, title: &said }], most as f64)) }
                }
            }
            dt { "Kept for" } dd { (format::seconds(body.max_age_secs)) }
            dt { "Oldest" } dd { @match &body.oldest_at { Some(at) => (format::time(at)), None => span.muted { "no records" } } }
            dt { "Newest" } dd { @match &body.newest_at { Some(at) => (format::time(at)), None => span.muted { "no records" } } }
            @if health.queued > 0 { dt { "Not in the database yet" } dd { (format::count(health.queued as u64)) } }
        }
    }
}

fn check(frame: &Frame, body: &LedgerBody) -> Markup {
    html! {
        @if body.capacity.is_some() {
            p.muted { "Records in memory need no check." }
        } @else {
            p { "Reads every record and compares it with the sums of the spending and with what the limits count. Takes about a minute per GB; calls go on meanwhile." }
            form.inline method="post" action={ (frame.root) "ledger/verify" } { (frame.token()) button.primary type="submit" { "Verify the records" } }
            p.muted { "In a terminal: " code { "pointsman ledger verify --url ADMIN-ADDRESS" } ". Export: " code { "pointsman ledger export" } "." }
        }
    }
}

fn verification(found: &VerificationBody) -> Markup {
    let tone = if found.fault_count == 0 { "good" } else { "bad" };
    html! {
        section #verified role="status" {
            h2 { "Verified" }
            p { span.tag.(tone) { @if found.fault_count == 0 { "no faults" } @else { (found.fault_count) " faults" } } " "
                (format::count(found.records)) " records in " (format::count(found.blocks)) " groups, " (format::count(found.slots_compared)) " quarters of an hour compared"
                @if found.slots_left_out > 0 { ", " (format::count(found.slots_left_out)) " left out" }
                @if let Some(spending) = found.spending_compared { ", " (format::count(spending)) " sums of spending limits compared" } "."
            }
            @if !found.faults.is_empty() { pre tabindex="0" { @for fault in &found.faults { (fault) "\n" } } }
        }
    }
}

fn owners(owners: &[OwnerBody]) -> Markup {
    html! {
        @if !owners.is_empty() {
            h2 { "Whose records " span.muted { (owners.len()) } }
            (data_table("Records by account",
                html! { th scope="col" { "A key of the account" } th scope="col" { "Number of the account" } th.r scope="col" data-sort { "Records" } },
                html! {
                    @for owner in owners.iter().take(MOST_OWNERS) {
                        tr data-row {
                            th scope="row" { a href={ "decisions?owner=" (percent::encoded(&owner.owner)) } { @match &owner.key { Some(key) => (format::name(key, 48)), None => "removed" } } }
                            td { code { (owner.owner) } }
                            td.r { (format::count(owner.records as u64)) }
                        }
                    }
                }))
            @if owners.len() > MOST_OWNERS { p.muted { "and " (owners.len() - MOST_OWNERS) " more" } }
        }
    }
}
