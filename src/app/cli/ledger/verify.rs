//! `ledger verify`: reads everything, and compares the sums with the records.

use std::{io::Write, time::Duration};

use pointsman_config::Environment;
use pointsman_ledger::{fault::Fault, generations::GenerationStore, recovery::Recovery};
use serde::{Deserialize, Serialize};

use super::{
    super::{CommandOutput, EXIT_DIFFERENT, refused},
    LedgerPlace, Progress, directory, failed, note,
    remote::Remote,
};
use crate::{api::health::ledger_verification::VerificationBody, app::cli::columns::count};

/// Timeout of a verification by a gateway.
const TIMEOUT: Duration = Duration::from_secs(3600);

#[derive(Deserialize)]
struct Answer {
    data: VerificationBody,
}

/// What was verified, and the result.
#[derive(Serialize)]
struct Report {
    /// The directory or the gateway.
    ledger: String,
    #[serde(flatten)]
    found: VerificationBody,
    /// Of a directory: what the journal held.
    #[serde(skip_serializing_if = "Option::is_none")]
    journal: Option<JournalBody>,
}

#[derive(Serialize)]
struct JournalBody {
    segments: u64,
    /// Records that the database lacks; the next start stores them.
    records: u64,
    /// Generations that were running when the gateway ended.
    interrupted: u64,
    /// Segments with a torn last record, as a killed process or a power failure leaves it.
    torn_ends: u64,
}

pub(super) fn run(
    place: &LedgerPlace,
    json: bool,
    environment: &Environment,
    output: &mut impl Write,
) -> Result<u8, CommandOutput> {
    let report = match &place.url {
        Some(url) => of_gateway(url, place, environment)?,
        None => of_directory(place, environment)?,
    };
    if json {
        let text = serde_json::to_string_pretty(&report).map_err(refused)?;
        writeln!(output, "{text}")?;
    } else {
        write_text(&report, output)?;
    }
    Ok(if report.found.fault_count == 0 { 0 } else { EXIT_DIFFERENT })
}

fn of_gateway(url: &str, place: &LedgerPlace, environment: &Environment) -> Result<Report, CommandOutput> {
    let remote = Remote::new(url, place.key_env.as_deref(), environment)?;
    note("the gateway verifies its ledger; this takes about a minute per GB");
    let body = actix_web::rt::System::new().block_on(remote.page("ledger/verification", TIMEOUT))?;
    let Answer { data } = serde_json::from_slice(&body)
        .map_err(|error| refused(format!("the answer of the gateway cannot be read: {error}")))?;
    Ok(Report { ledger: url.to_owned(), found: data, journal: None })
}

fn of_directory(place: &LedgerPlace, environment: &Environment) -> Result<Report, CommandOutput> {
    let (path, _) = directory(place, environment)?;
    let store = GenerationStore::inspect(&path).map_err(|fault| failed(&fault, "verify"))?;
    let mut progress = Progress::new();
    let verified = store.verify(|records| progress.tell(records));
    let mut found = VerificationBody::new(&verified.map_err(|fault| failed(&fault, "verify"))?);
    let mut fault = |text: String| {
        found.fault_count += 1;
        found.faults.push(text);
    };
    let recovery = store.recovery();
    if recovery.damaged > 0 {
        fault(format!("{} segments of the journal are damaged before their end", recovery.damaged));
    }
    match store.check_file() {
        Ok(faults) => faults.into_iter().for_each(|what| fault(format!("the database file: {what}"))),
        Err(Fault::Damaged(what)) => fault(format!("the database file: {what}")),
        Err(other) => return Err(failed(&other, "verify")),
    }
    Ok(Report { ledger: path.display().to_string(), found, journal: Some(JournalBody::new(&recovery)) })
}

impl JournalBody {
    fn new(recovery: &Recovery) -> JournalBody {
        JournalBody {
            segments: recovery.segments,
            records: recovery.entries,
            interrupted: recovery.interrupted,
            torn_ends: recovery.torn,
        }
    }
}

fn write_text(report: &Report, output: &mut impl Write) -> Result<(), CommandOutput> {
    let Report { ledger, found, journal } = report;
    let [records, groups, versions] = [(found.records, "record"), (found.blocks, "group"), (found.versions, "version")]
        .map(|(of, noun)| count(of as usize, noun));
    writeln!(output, "{ledger}: {records} in {groups}, {versions}")?;
    if let Some(journal) = journal.as_ref().filter(|journal| journal.segments > 0) {
        writeln!(
            output,
            "journal: {} of the records, and {} of generations that were running; {} torn ends in {} segments",
            journal.records, journal.interrupted, journal.torn_ends, journal.segments
        )?;
    }
    writeln!(
        output,
        "sums: {} slots of 15 minutes compared with their records; {} left out, whose records aged out or were deleted",
        found.slots_compared, found.slots_left_out
    )?;
    if let Some(compared) = found.spending_compared {
        writeln!(output, "spending: {compared} keys, accounts and teams compared with their sums")?;
    }
    for fault in &found.faults {
        writeln!(output, "fault: {fault}")?;
    }
    match found.fault_count {
        0 => writeln!(output, "No fault.")?,
        1 => writeln!(output, "1 fault.")?,
        count => writeln!(output, "{count} faults.")?,
    }
    Ok(())
}
