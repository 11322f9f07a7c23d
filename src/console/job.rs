//! The comparison or review that the address of a page names: how far it is, and what was entered for it.

use std::sync::Arc;

use maud::{Markup, html};

use super::{form::Entered, visit::Visit};
use crate::{
    api::admin::diff_job::{FAILED, JobReport, find},
    state::diff_job::{DiffJob, DiffState},
};

/// Seconds between two looks at a job that runs.
const REFRESH: u32 = 2;

/// The job that the address of a page names.
pub(super) enum Found {
    /// It names none.
    None,
    /// It is no longer kept.
    Gone,
    /// It is this one.
    Job(Arc<DiffJob>),
}

impl Found {
    /// The job, and the fields with what was entered for it; without one those of the address.
    pub(super) fn of<R: JobReport>(visit: &Visit) -> (Found, Entered) {
        let query = Entered::of_query(visit.request.query_string());
        let found = match query.get("id") {
            "" => Found::None,
            id => find::<R>(&visit.worker, id).map_or(Found::Gone, Found::Job),
        };
        let entered = match &found {
            Found::Job(job) => entered_for(job),
            Found::Gone | Found::None => query,
        };
        (found, entered)
    }

    /// How far the job is; of a report that is done what `result` shows of it.
    pub(super) fn section(&self, doing: &str, result: impl FnOnce(&[u8]) -> Option<Markup>) -> Markup {
        match self {
            Found::None => html! {},
            Found::Gone => html! {
                p.empty { "This one is no longer kept: only the last comparison or review is, until the gateway is restarted." }
            },
            Found::Job(job) => progress(job, doing, result),
        }
    }
}

fn entered_for(job: &DiffJob) -> Entered {
    let mut entered = Entered::default();
    for (name, value) in &job.entered {
        entered.add(name, value);
    }
    entered
}

fn progress(job: &DiffJob, doing: &str, result: impl FnOnce(&[u8]) -> Option<Markup>) -> Markup {
    match job.state() {
        DiffState::Running => html! {
            div #comparison data-refresh=(REFRESH) aria-live="polite" {
                h2 { (doing) }
                p { "Each decision is made again, beside the calls that are served. " a href="" { "Look again" } }
            }
        },
        DiffState::Cancelled => html! { div #comparison { p.verdict.warn { "It was cancelled." } } },
        DiffState::NoAnswer(why) => {
            html! { div #comparison { h2 { "No answer" } p.verdict.warn { (why) } } }
        }
        DiffState::Failed => html! { div #comparison { h2 { "No answer" } p.verdict.bad { (FAILED) "." } } },
        DiffState::Done(report) => {
            let unreadable = || html! { p.verdict.bad { "The report cannot be read." } };
            html! { div #comparison { (result(report.as_bytes()).unwrap_or_else(unreadable)) } }
        }
    }
}
