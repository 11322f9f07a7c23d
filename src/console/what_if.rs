//! What another configuration would have chosen for recorded traffic: the comparison of `POST /admin/diff`, as a form.

use std::{collections::BTreeMap, sync::Arc};

use actix_web::HttpResponse;
use maud::{Markup, html};
use pointsman_dialect::percent;
use pointsman_domain::Catalog;

use super::{
    answer,
    form::{Entered, Fields, Kind},
    format,
    job::Found,
    layout::{Nav, data_table},
    svg::{self, Caption, Segment},
    visit::Visit,
};
use crate::{
    api::{
        admin::diff::{DiffBody, begin_job, changed},
        diff::{
            report::{DiffReport, ExampleBody, MoveBody},
            text,
        },
    },
    base::error::ApiError,
    state::{diff_job::DiffJob, setup::Setup},
};

/// Examples that are shown.
const EXAMPLES: usize = 10;
/// Providers whose prices have a field.
const MOST_PROVIDERS: usize = 24;
/// Sections whose set keys are named as a beginning.
const DECIDING: [&str; 4] = ["routing.", "aliases[", "timeouts.", "models["];
/// Keys that are named so, at most.
const MOST_KEYS: usize = 40;

/// The fields that are always there.
const FIELDS: [&str; 6] = ["changes", "objective", "latency", "cost", "since", "limits"];
/// Name of a field before the slug of a provider.
const FACTOR: &str = "factor.";
const OBJECTIVES: [(&str, &str); 5] = [
    ("", "as it is"),
    ("balanced", "balanced"),
    ("cheapest", "cheapest"),
    ("fastest", "fastest"),
    ("reliable", "reliable"),
];
const WINDOWS: [(&str, &str); 4] =
    [("24", "the last day"), ("1", "the last hour"), ("168", "the last week"), ("", "all records")];

/// Shows the form, and the comparison that its address names with what was entered for it.
///
/// # Errors
/// None.
pub(super) async fn show(visit: Visit) -> Result<HttpResponse, ApiError> {
    let (found, entered) = Found::of::<DiffReport>(&visit);
    Ok(answer::page(page(&visit, &entered, &found, None)))
}

/// Begins a comparison, and leads to its page.
///
/// # Errors
/// 403 for a form of another session. What `POST /admin/diff` refuses is shown on the page.
pub(super) async fn compare(visit: Visit, entered: Entered) -> Result<HttpResponse, ApiError> {
    match begin(&visit, &entered) {
        Ok(job) => Ok(answer::redirect(&format!("what-if?id={}", percent::encoded(&job.id)))),
        Err(error) => Ok(answer::refused(&error, page(&visit, &entered, &Found::None, Some(&error)))),
    }
}

fn begin(visit: &Visit, entered: &Entered) -> Result<Arc<DiffJob>, ApiError> {
    let factors = factors(&visit.worker.setup.catalog, entered)?;
    let after = changed(&visit.worker, &toml(entered), &factors)?;
    let hours = entered.get("since").parse::<i64>().ok();
    let limits = entered.get("limits").split([',', '\n']).map(str::trim).filter(|limit| !limit.is_empty());
    let body = DiffBody::of_hours(hours, limits.map(str::to_owned).collect(), EXAMPLES);
    begin_job(visit, after, &body, filled(&visit.worker.setup.catalog, entered))
}

/// The changed keys as TOML: first those of the fields, then those that were written.
fn toml(entered: &Entered) -> String {
    let mut lines = String::new();
    if !entered.get("objective").is_empty() {
        lines.push_str(&format!("\"routing.objective\" = {:?}\n", entered.get("objective")));
    }
    for weight in ["latency", "cost", "quality"] {
        if !entered.get(weight).is_empty() {
            lines.push_str(&format!("\"routing.balanced.{weight}\" = {}\n", entered.get(weight)));
        }
    }
    lines + entered.get("changes")
}

fn factors(catalog: &Catalog, entered: &Entered) -> Result<BTreeMap<String, f64>, ApiError> {
    let mut factors = BTreeMap::new();
    for slug in priced(catalog) {
        let field = format!("{FACTOR}{slug}");
        let text = entered.get(&field);
        if text.is_empty() {
            continue;
        }
        let factor = text.parse::<f64>().ok();
        let factor = factor.ok_or_else(|| ApiError::bad_query(&field, format!("'{text}' is no number.")))?;
        factors.insert(slug.to_owned(), factor);
    }
    Ok(factors)
}

/// The providers whose prices have a field.
fn priced(catalog: &Catalog) -> impl Iterator<Item = &str> {
    let on = catalog.providers.iter().filter(|provider| provider.is_on());
    on.map(|provider| provider.slug.as_str()).take(MOST_PROVIDERS)
}

/// The fields of the form that are not empty. They are kept with the comparison: in the address they would be too long,
/// and they would stay in the history of the browser.
fn filled(catalog: &Catalog, entered: &Entered) -> Vec<(String, String)> {
    let factors = priced(catalog).map(|slug| format!("{FACTOR}{slug}"));
    let names = FIELDS.iter().map(|name| (*name).to_owned()).chain(factors);
    let fields = names.map(|name| (entered.get(&name).to_owned(), name));
    fields.filter(|(value, _)| !value.is_empty()).map(|(value, name)| (name, value)).collect()
}

fn page(visit: &Visit, entered: &Entered, found: &Found, error: Option<&ApiError>) -> Markup {
    let (frame, worker) = (&visit.frame, &visit.worker);
    let fields = Fields { entered, error };
    let content = html! {
        h1 { "What if" }
        p.lead { "What another configuration would have chosen for the calls in the ledger, and what that would have cost. Nothing is sent and nothing is changed." }
        @if worker.shared.records.ledger.is_none() {
            p.empty { "Records are kept in memory only, so there is nothing to compare with: " code { "ledger.data_dir" } " and " code { "ledger.durability" } " store them." }
        } @else {
            (fields.general(&[("changes", Kind::Text)]))
            form.playground method="post" action={ (frame.root) "what-if" } {
                (frame.token())
                (sliders(fields, &worker.setup))
                (editor(fields, &worker.setup))
                div.actions { button.primary type="submit" { "Compare" } }
            }
            (found.section("Comparing", |report| Some(result(&serde_json::from_slice(report).ok()?))))
        }
        p.api { "The same as JSON: " code { "POST /api/v1/admin/diff" } ", or " code { "pointsman diff" } }
    };
    frame.page("What if", Some(Nav::WhatIf), content)
}

fn sliders(fields: Fields<'_>, setup: &Setup) -> Markup {
    let balanced = setup.policy.balanced;
    let value = |name: &str| fields.entered.get(name).to_owned();
    let number = |name: &str, label: &str, now: f64, range: &str| {
        html! { label { (label) input name=(name) value=(value(name)) inputmode="decimal" autocomplete="off" placeholder=(now.to_string()) data-slider=(range); } }
    };
    let choice = |name: &str, label: &str, options: &[(&str, &str)]| {
        html! { label { (label) select name=(name) { @for (option, shown) in options { option value=(option) selected[value(name) == *option] { (shown) } } } } }
    };
    html! {
        fieldset {
            legend { "Change" }
            p.wide.muted { "An empty field changes nothing." }
            (choice("objective", "Objective of calls that name none", &OBJECTIVES))
            (number("latency", "Weight of time", balanced.latency, "0 1 0.05"))
            (number("cost", "Weight of cost", balanced.cost, "0 1 0.05"))
            (number("quality", "Weight of quality", balanced.quality, "0 1 0.05"))
            @for slug in priced(&setup.catalog) {
                (number(&format!("{FACTOR}{slug}"), &format!("Prices of {}, times", format::plain_name(slug, 40)), 1.0, "0 4 0.05"))
            }
            (choice("since", "Calls of", &WINDOWS))
            label { "Limits" input name="limits" value=(value("limits")) autocomplete="off" spellcheck="false" placeholder="spend > +5%, failures > +0.2pp"; }
        }
    }
}

fn editor(fields: Fields<'_>, setup: &Setup) -> Markup {
    let written = if fields.entered.get("changes").is_empty() { beginning(setup) } else { String::new() };
    html! {
        fieldset {
            legend { "Other keys" }
            div.wide {
                @let fault = fields.error.filter(|error| error.param() == Some("changes"));
                label for="changes" { "Keys of the configuration with other values, as TOML" }
                textarea #changes name="changes" rows="12" spellcheck="false" maxlength="16384" aria-invalid=[fault.map(|_| "true")] {
                    (fields.entered.get("changes")) (written)
                }
                @if let Some(fault) = fault { pre.fault role="alert" { (fault.message()) } }
            }
        }
    }
}

/// The keys that are set, as comments: a change is one of them without its mark and with another value.
fn beginning(setup: &Setup) -> String {
    let values = setup.written.iter().flat_map(|written| written.values(&setup.config.source));
    let is_shown = |(key, value): &(&str, &str)| {
        DECIDING.iter().any(|section| key.starts_with(section))
            && !value.ends_with('…')
            && !value.starts_with("(not shown")
    };
    let lines = values.filter(is_shown).take(MOST_KEYS).map(|(key, value)| format!("# '{key}' = {value}\n"));
    let lines: String = lines.collect();
    if lines.is_empty() { "# \"routing.exploration\" = 0\n".to_owned() } else { lines }
}

fn result(report: &DiffReport) -> Markup {
    let (tone, verdict) = match &*report.verdict {
        "broken" => ("bad", "A limit is broken."),
        "no_answer" if report.limits.is_empty() => ("warn", "Too little is answered."),
        "no_answer" => ("warn", "The limits cannot be judged."),
        _ if report.limits.is_empty() => ("good", "Compared."),
        _ => ("good", "Every limit is kept."),
    };
    let is_table = |label: &str| ["moves", "examples", ""].contains(&label);
    html! {
        h2 { "Comparison" }
        p.verdict.(tone) { (verdict) }
        (facts(text::lines(report)))
        (data_table("Figures before and after",
            html! { th scope="col" { "Figure" } th.r scope="col" { "Before" } th.r scope="col" { "After" } th.r scope="col" { "Change" } th.r scope="col" { "95 % interval" } th scope="col" { "How" } },
            html! {
                @for figure in text::figures(report) {
                    @let [before, after, change, interval] = text::row(figure);
                    tr { th scope="row" { (text::name(figure)) } td.r { (before) } td.r { (after) } td.r { strong { (change) } } td.r { (interval) } td { (text::how(figure)) } }
                }
            }))
        (facts(text::after_figures(report).into_iter().filter(|(label, _)| !is_table(label)).collect()))
        @if !report.moves.is_empty() { h2 { "Moves" } (moves(report)) }
        @if !report.examples.is_empty() { h2 { "Examples" } (examples(&report.examples)) }
    }
}

fn facts(lines: Vec<(&str, String)>) -> Markup {
    html! { dl.facts { @for (label, text) in lines { dt { (label) } dd { (text) } } } }
}

/// From where to where, each with its share of what moves.
fn moves(report: &DiffReport) -> Markup {
    let most = report.moves.iter().map(|one| one.decisions).max().unwrap_or_default();
    let row = |one: &MoveBody| {
        let said = format!("{} decisions", one.decisions);
        html! {
            tr {
                th scope="row" { (endpoint(one.from.as_deref())) }
                td { @if one.from == one.to { span.muted { "stays, at other figures" } } @else { (endpoint(one.to.as_deref())) } }
                td.r { (format::count(one.decisions)) }
                td.wide { (svg::bar(Caption { title: "Decisions", description: &said }, &[Segment { class: "t1", value: one.decisions as f64, title: &said }], most as f64)) }
                td.r { (text::signed_dollars(one.cost_usd)) }
            }
        }
    };
    data_table(
        "Moves of decisions",
        html! { th scope="col" { "From" } th scope="col" { "To" } th.r scope="col" { "Decisions" } th.wide scope="col" { "" } th.r scope="col" { "Cost" } },
        html! {
            @for one in &report.moves { (row(one)) }
            @if let Some(others) = &report.other_moves {
                tr { th scope="row" { (others.moves) " other moves" } td {} td.r { (format::count(others.decisions)) } td {} td.r { (text::signed_dollars(others.cost_usd)) } }
            }
        },
    )
}

fn examples(examples: &[ExampleBody]) -> Markup {
    let score = |score: Option<f64>| format::figure(score, 4);
    data_table(
        "Decisions whose cost changes most",
        html! {
            th scope="col" { "Decision" } th scope="col" { "Objective" } th scope="col" { "Before" } th.r scope="col" { "Score" }
            th scope="col" { "After" } th.r scope="col" { "Score" } th.r scope="col" { "Cost" } th.r scope="col" { "First token" }
        },
        html! {
            @for one in examples {
                tr data-row {
                    th scope="row" { a href={ "decisions/" (percent::encoded(&one.record)) } { (format::plain_name(&one.record, 24)) } }
                    td { (one.objective) }
                    td { (endpoint(one.from.as_deref())) } td.r { (score(one.from_score)) }
                    td { (endpoint(one.to.as_deref())) } td.r { (score(one.to_score)) }
                    td.r { (text::signed_dollars(one.cost_usd)) } td.r { (format!("{:+.2} s", one.first_token_s).replace('-', "−")) }
                }
            }
        },
    )
}

fn endpoint(name: Option<&str>) -> Markup {
    html! { @match name { Some(name) => (format::name(name, 60)), None => span.muted { "no endpoint" } } }
}
