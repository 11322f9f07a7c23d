//! How good the answers of models are: a section of the page about calibration, where something is known.

use std::sync::Arc;

use actix_web::web;
use maud::{Markup, html};
use pointsman_domain::Catalog;
use pointsman_routing::quality::Evidence;

use super::{format, layout::data_table};
use crate::{
    api::{
        health::quality::{BelievedBody, ModelQualityBody, known},
        number::Figure,
    },
    state::gateway::Worker,
};

/// Rows shown at once.
const MOST_ROWS: usize = 100;

/// The section; nothing without scores and ratings.
pub(super) async fn section(worker: &Worker) -> Markup {
    let (evidence, catalog) = (worker.shared.records.feedback.published(), Arc::clone(&worker.setup.catalog));
    web::block(move || table(&catalog, &evidence)).await.unwrap_or_else(|_| html! {})
}

fn table(catalog: &Catalog, evidence: &Evidence) -> Markup {
    let rows: Vec<ModelQualityBody<'_>> = known(catalog, evidence).iter().map(ModelQualityBody::new).collect();
    html! {
        @if !rows.is_empty() {
            h2 { "Quality " span.muted { (rows.len()) } }
            p.muted { "What scores of the configuration and ratings say together: the share of acceptable answers, and what it is nine times of ten at least." }
            (data_table("Quality by model and class of tasks",
                html! {
                    th scope="col" { "Model" } th scope="col" { "Class" } th.r scope="col" { "Quality" } th.r scope="col" { "At least" }
                    th.r scope="col" { "Score" } th.r scope="col" { "Ratings" } th.r scope="col" { "Answers rated" } th scope="col" { "Notes" }
                },
                html! { @for row in rows.iter().take(MOST_ROWS) { (model(row)) } }))
            @if rows.len() > MOST_ROWS { p.muted { "and " (rows.len() - MOST_ROWS) " more" } }
        }
    }
}

fn model(row: &ModelQualityBody<'_>) -> Markup {
    let believed = |figure: fn(&BelievedBody) -> Figure| row.quality.as_ref().map(|quality| figure(quality).value());
    html! {
        tr data-row {
            th scope="row" { (format::name(row.model, 56)) }
            td { (row.task) }
            td.r { (format::figure(believed(|quality| quality.mean), 2)) }
            td.r { (format::figure(believed(|quality| quality.p10), 2)) }
            td.r {
                @match &row.score {
                    Some(score) => span title={ (score.source) ", " (score.date.0) ", of " (score.n) " answers" } { (format::figure(Some(score.score.value()), 2)) },
                    None => (format::none()),
                }
            }
            td.r { (format::count(row.ratings)) }
            td.r { (format::share(row.rating_rate.map(Figure::value))) }
            td {
                @if let Some(drift) = &row.drift {
                    span.warn { "fell from " (format::figure(Some(drift.before.value()), 2)) " to " (format::figure(Some(drift.after.value()), 2)) } " "
                }
                @if row.selective { span title="Answers of this model are rated much more or less often than those of others, so its ratings steer nothing" { "selective" } " " }
                @if row.capped { span title="An account has rated more than counts of it" { "capped" } }
            }
        }
    }
}
