//! `/admin/generations` and `/admin/generations.csv`: the generations of all keys, newest first, from the durable ledger.

use actix_web::HttpResponse;

use crate::{
    access::keys::Caller,
    api::{
        answer::uncached,
        auth::Administrator,
        csv::{self, Csv},
        cursor,
        generations::{
            generation_list::{self, MAX_PAGE},
            generation_row::GenerationRow,
            ledger_query::{Listed, Selection},
        },
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Default number of rows of CSV.
const DEFAULT_ROWS: usize = 1_000;
/// Most rows of CSV, about 3 MB.
pub(crate) const MAX_ROWS: usize = 10_000;
/// Most pages that are read for one answer. Of a rare filter, an answer may have few rows and a cursor.
const MAX_PAGES: usize = 100;
/// Header with the cursor of the rows that follow, if any do.
const NEXT: &str = "x-next-cursor";
/// Header with the number of records that cannot be read and are left out, if there are any.
const UNREADABLE: &str = "x-unreadable-records";
/// Header with the number of damaged blocks, which may hold further rows, if there are any.
const DAMAGED: &str = "x-damaged-blocks";

/// Lists the generations of all keys.
///
/// # Errors
/// 400 for a bad filter or cursor, 404 without a durable ledger.
pub(crate) async fn list(by: Administrator) -> Result<HttpResponse, ApiError> {
    let listed = Listed::Everybody(&by.worker);
    Ok(uncached(&generation_list::select(&by.worker, &by.caller, listed, by.query()).await?.body(&by.worker, listed)))
}

/// The same list as CSV, with up to [`MAX_ROWS`] rows.
///
/// # Errors
/// As [`list`].
pub(crate) async fn csv(by: Administrator) -> Result<HttpResponse, ApiError> {
    as_csv(&by.worker, &by.caller, by.query()).await
}

/// The rows that pass the filters of `query`, as CSV.
///
/// # Errors
/// As [`csv`].
pub(crate) async fn as_csv(worker: &Worker, caller: &Caller, query: &str) -> Result<HttpResponse, ApiError> {
    let (ledger, listed) = (generation_list::ledger(worker)?, Listed::Everybody(worker));
    let mut selection = Selection::parse(query, listed, (DEFAULT_ROWS, MAX_ROWS))?;
    let mut csv = Csv::default();
    GenerationRow::write_head(&mut csv);
    let (mut rows_left, mut unreadable, mut damaged) = (selection.limit, 0, 0);
    for _ in 0..MAX_PAGES {
        selection.limit = rows_left.min(MAX_PAGE);
        // Page by page, so that others have their turns in between.
        let page = generation_list::read(worker, caller, &ledger, selection.clone()).await?;
        for generation in &page.generations {
            GenerationRow::new(generation, &worker.setup.keys.names_of(generation.owner, generation.key))
                .write(&mut csv);
        }
        rows_left = rows_left.saturating_sub(page.generations.len());
        unreadable += page.unreadable;
        damaged = damaged.max(page.damaged_blocks);
        selection.after = page.next;
        if page.next.is_none() || rows_left == 0 {
            break;
        }
    }
    let mut answer = csv::file("generations.csv");
    for (name, count) in [(UNREADABLE, unreadable), (DAMAGED, damaged)].into_iter().filter(|(_, count)| *count > 0) {
        answer.insert_header((name, count));
    }
    if let Some(next) = selection.after {
        answer.insert_header((NEXT, cursor::write(&next, listed.owner())));
    }
    Ok(answer.body(csv.into_text()))
}
