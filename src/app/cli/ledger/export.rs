//! `ledger export`: records as lines, newest first. Holds one page in memory.

use std::{io::Write, time::Duration};

use pointsman_config::Environment;
use pointsman_ledger::{entry::Filter, generations::GenerationStore, page::Query};
use serde::Deserialize;

use super::{
    super::{CommandOutput, EXIT_DIFFERENT, refused},
    ExportArguments, ExportFormat, Progress, directory, failed, note,
    remote::Remote,
};
use crate::{
    access::keys::KeyTable,
    api::{
        csv::Csv,
        generations::{generation_row::GenerationRow, ledger_query::Selection},
    },
};

/// Records of a page that is read from a directory: some blocks, so that few are read twice.
const PAGE: usize = 4096;
/// Timeout of a page of a gateway.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The members of a page that are used.
#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    data: Vec<GenerationRow<'a>>,
    next: Option<String>,
    #[serde(default)]
    unreadable_records: usize,
    #[serde(default)]
    damaged_blocks: usize,
}

/// Writes rows as they come.
struct Rows<'w, W> {
    output: &'w mut W,
    format: ExportFormat,
    written: u64,
    unreadable: usize,
    damaged_blocks: usize,
    progress: Progress,
}

pub(super) fn run(
    ExportArguments { place, format, since, until, status, .. }: &ExportArguments,
    environment: &Environment,
    output: &mut impl Write,
) -> Result<u8, CommandOutput> {
    let given = [("since", since), ("until", until), ("status", status)];
    let pairs: Vec<(&str, &str)> = given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let filter = Selection::filter_of(&pairs).map_err(|fault| refused(fault.message()))?;
    let mut rows =
        Rows { output, format: *format, written: 0, unreadable: 0, damaged_blocks: 0, progress: Progress::new() };
    match &place.url {
        Some(url) => {
            let remote = Remote::new(url, place.key_env.as_deref(), environment)?;
            rows.head()?;
            actix_web::rt::System::new().block_on(from_gateway(&remote, &filter, &mut rows))?;
        }
        None => {
            let (path, keys) = directory(place, environment)?;
            let store = GenerationStore::inspect(&path).map_err(|fault| failed(&fault, "export"))?;
            rows.head()?;
            from_directory(&store, filter, keys.as_ref(), &mut rows)?;
        }
    }
    rows.end()
}

async fn from_gateway(remote: &Remote, filter: &Filter, rows: &mut Rows<'_, impl Write>) -> Result<(), CommandOutput> {
    // Of digits and known words only: nothing has to be escaped.
    let since = filter.since_ms.map(|since| format!("&since={since}"));
    let until = filter.until_ms.map(|last| format!("&until={}", last.saturating_add(1)));
    let statuses = filter.labels.iter().map(|(_, statuses)| format!("&status={}", statuses.join(",")));
    let conditions: String = since.into_iter().chain(until).chain(statuses).collect();
    let query = format!("limit=200{conditions}");
    let mut path = format!("generations?{query}");
    loop {
        let body = remote.page(&path, TIMEOUT).await?;
        let page: Page<'_> = serde_json::from_slice(&body)
            .map_err(|error| refused(format!("the answer of the gateway cannot be read: {error}")))?;
        rows.skipped(page.unreadable_records, page.damaged_blocks);
        for row in page.data {
            rows.row(row)?;
        }
        rows.progress.tell(rows.written);
        // A cursor is of letters, digits, '-' and '_'.
        let Some(next) = page.next else { return Ok(()) };
        path = format!("generations?{query}&after={next}");
    }
}

fn from_directory(
    store: &GenerationStore,
    filter: Filter,
    keys: Option<&KeyTable>,
    rows: &mut Rows<'_, impl Write>,
) -> Result<(), CommandOutput> {
    let mut query = Query { filter, after: None, limit: PAGE, blocks: usize::MAX };
    loop {
        let page = store.page(&query).map_err(|fault| failed(&fault, "export"))?;
        rows.skipped(page.unreadable, page.damaged_blocks);
        for generation in &page.generations {
            let names = keys.map(|keys| keys.names_of(generation.owner, generation.key)).unwrap_or_default();
            rows.row(GenerationRow::new(generation, &names))?;
        }
        rows.progress.tell(rows.written);
        query.after = page.next;
        if query.after.is_none() {
            return Ok(());
        }
    }
}

impl<W: Write> Rows<'_, W> {
    fn head(&mut self) -> Result<(), CommandOutput> {
        if self.format == ExportFormat::Csv {
            let mut csv = Csv::default();
            GenerationRow::write_head(&mut csv);
            self.output.write_all(csv.into_text().as_bytes())?;
        }
        Ok(())
    }

    fn row(&mut self, row: GenerationRow<'_>) -> Result<(), CommandOutput> {
        let line = match self.format {
            ExportFormat::Csv => {
                let mut csv = Csv::default();
                row.write(&mut csv);
                csv.into_text()
            }
            ExportFormat::Jsonl => {
                let line = serde_json::to_string(&row.with_exact_cost());
                line.map_err(|error| CommandOutput { code: EXIT_DIFFERENT, ..refused(error) })? + "\n"
            }
        };
        self.output.write_all(line.as_bytes())?;
        self.written += 1;
        Ok(())
    }

    fn skipped(&mut self, unreadable: usize, damaged_blocks: usize) {
        self.unreadable += unreadable;
        // Neighbouring pages may meet the same group.
        self.damaged_blocks = self.damaged_blocks.max(damaged_blocks);
    }

    fn end(self) -> Result<u8, CommandOutput> {
        self.output.flush()?;
        if self.unreadable == 0 && self.damaged_blocks == 0 {
            return Ok(0);
        }
        note(&format!(
            "{} records were written; {} cannot be read (damaged groups of records: at least {}); 'pointsman ledger verify' \
             names them",
            self.written, self.unreadable, self.damaged_blocks
        ));
        Ok(EXIT_DIFFERENT)
    }
}
