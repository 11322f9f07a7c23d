//! What recorded decisions came to beyond better ones: the review of `POST /admin/regret`, as a form.

use actix_web::HttpResponse;
use maud::{Markup, html};
use pointsman_dialect::percent;

use super::{
    answer,
    form::{Entered, Fields},
    format,
    job::Found,
    layout::{Nav, data_table},
    visit::Visit,
    words,
};
use crate::{
    api::{
        admin::regret::{RegretBody, begin_job},
        diff::{
            regret_report::{DifferencesBody, GroupBody, PartBody, RegretReport},
            regret_text::{self, grade, shown},
        },
    },
    base::error::ApiError,
};

const WINDOWS: [(&str, &str); 3] = [("24", "the last day"), ("1", "the last hour"), ("168", "the last week")];
/// Hours, where the form says something else.
const HOURS: i64 = 24;

/// Shows the form, and the review that its address names with what was entered for it.
///
/// # Errors
/// None.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (found, entered) = Found::of::<RegretReport>(&visit);
    Ok(answer::page(page(&visit, &entered, &found, None)))
}

/// Begins a review, and leads to its page.
///
/// # Errors
/// 403 for a form of another session. What `POST /admin/regret` refuses is shown on the page.
pub(super) async fn review(visit: Visit, entered: Entered) -> Result<HttpResponse, ApiError> {
    let hours = entered.get("since").parse::<i64>().unwrap_or(HOURS);
    let alias = Some(entered.get("alias").to_owned()).filter(|alias| !alias.is_empty());
    let body = RegretBody::of_hours(hours, alias, !entered.get("by_day").is_empty());
    let fields = ["since", "alias", "by_day"].map(|name| (name.to_owned(), entered.get(name).to_owned()));
    match begin_job(&visit, &body, fields.to_vec()) {
        Ok(job) => Ok(answer::redirect(&format!("regret?id={}", percent::encoded(&job.id)))),
        Err(error) => Ok(answer::refused(&error, page(&visit, &entered, &Found::None, Some(&error)))),
    }
}

fn page(visit: &Visit, entered: &Entered, found: &Found, error: Option<&ApiError>) -> Markup {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let content = html! {
        h1 { "Regret" }
        p.lead { "What recorded decisions came to beyond better ones, and what exploration, restrictions and ignorance cost of it. Nothing is sent and nothing is changed." }
        @if worker.shared.records.ledger.is_none() {
            p.empty { "Records are kept in memory only, so there is nothing to review: " code { "ledger.data_dir" } " and " code { "ledger.durability" } " store them." }
        } @else {
            (Fields { entered, error }.general(&[]))
            form.playground method="post" action={ (frame.root) "regret" } {
                (frame.token())
                (fields(entered, worker.setup.catalog.aliases.iter().map(|alias| alias.id.as_str())))
                div.actions { button.primary type="submit" { "Review" } }
            }
            (found.section("Reviewing", |report| Some(result(&serde_json::from_slice(report).ok()?))))
        }
        p.api { "The same as JSON: " code { "POST /api/v1/admin/regret" } ", or " code { "pointsman regret" } }
    };
    frame.page("Regret", Some(Nav::Regret), content)
}

fn fields<'a>(entered: &Entered, aliases: impl Iterator<Item = &'a str>) -> Markup {
    html! {
        fieldset {
            legend { "Calls" }
            label { "Of" select name="since" { @for (hours, shown) in WINDOWS { option value=(hours) selected[entered.get("since") == hours] { (shown) } } } }
            label { "Alias" select name="alias" {
                option value="" { "all, and models" }
                @for alias in aliases { option value=(alias) selected[entered.get("alias") == alias] { (format::plain_name(alias, 60)) } }
            } }
            label { "Each day, too" select name="by_day" {
                option value="" { "no" }
                option value="yes" selected[!entered.get("by_day").is_empty()] { "yes" }
            } }
        }
    }
}

fn result(report: &RegretReport) -> Markup {
    let tested = format::count(report.self_tested);
    html! {
        h2 { "Review" }
        p.verdict.(if report.verdict == "answered" { "good" } else { "warn" }) {
            @if report.verdict == "answered" { "Reviewed." } @else { "Too few requests for figures." }
            " " (tested) " of " (tested) " decisions came out of their records as they were made."
        }
        @if !report.warnings.is_empty() { ul.notices { @for warning in &report.warnings { li.warn { (words::capitalised(warning)) "." } } } }
        @for group in &report.groups { (self::group(group)) }
    }
}

fn group(group: &GroupBody) -> Markup {
    let name = group.alias.as_deref().unwrap_or("fixed models");
    html! {
        h2 { (format::name(name, 60)) ", " (group.objective) @if let Some(day) = &group.day { ", " (day) } " " span.muted { (format::count(group.requests as u64)) " requests" } }
        p.muted { (format::time(&group.from)) " to " (format::time(&group.until)) " " (format::zone()) }
        @if let Some(why) = &group.refusal { p.verdict.warn { (why) } } @else { (figures(group)) (said(group)) }
    }
}

fn figures(group: &GroupBody) -> Markup {
    data_table(
        "What the requests came to beyond better ways to decide, with 95 % intervals",
        html! { th scope="col" { "Part" } th scope="col" { "Graded" } th.r scope="col" { "$ per 1,000 requests" } th.r scope="col" { "Seconds" } th.r scope="col" { "Failures, %" } },
        html! {
            (row("as it was", "", regret_text::means(group)))
            @for part in &group.parts { (row(&part.part, &grade(part), shown(&part.figures))) }
            @if let Some(figures) = fixed(group) { (row("best alone", "estimated", shown(figures))) }
            @for one in &group.restrictions { (row(&format!("{} alone", one.restriction), "", shown(&one.figures))) }
        },
    )
}

fn fixed(group: &GroupBody) -> Option<&DifferencesBody> {
    group.fixed.as_ref()?.figures.as_ref()
}

fn row(part: &str, grade: &str, figures: [String; 3]) -> Markup {
    html! { tr data-row { th scope="row" { (part) } td { (grade) } @for figure in figures { td.r { (figure) } } } }
}

/// Every part in words, and why endpoints could not be compared.
fn said(group: &GroupBody) -> Markup {
    let sentences = group.parts.iter().map(|PartBody { sentence, .. }| sentence);
    html! {
        ul.said {
            @for sentence in sentences { li { (sentence) } }
            @if let Some(fixed) = &group.fixed {
                li { (fixed.sentence) }
                @for why in &fixed.refusals { li { "Refused for it: " (why) } }
                @for (endpoint, why) in &fixed.refused { li { "Refused, " (format::name(endpoint, 80)) ": " (why) } }
            }
        }
    }
}
