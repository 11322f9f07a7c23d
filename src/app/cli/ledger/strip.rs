//! `ledger export --strip`: a file of records without names, for comparisons on another machine.

use std::{io::Write, path::Path};

use pointsman_base::clock;
use pointsman_config::Environment;
use pointsman_ledger::{
    entry::Filter,
    fault::Fault,
    traffic::{self, Sample, Traffic, Wanted},
};

use super::{
    super::{CommandOutput, refused},
    ExportArguments, directory, failed,
};
use crate::{api::models::measurements::rfc_3339, app::cli::moment::moment};

pub(super) fn run(
    ExportArguments { place, since, until, sample, .. }: &ExportArguments,
    out: &Path,
    environment: &Environment,
    output: &mut impl Write,
) -> Result<u8, CommandOutput> {
    let (path, _) = directory(place, environment)?;
    let time = |name: &str, text: &Option<String>| {
        let wrong = |text: &str| refused(format!("--{name} {text} is neither a time nor a span such as 24h or 7d"));
        text.as_deref().map(|text| moment(text).ok_or_else(|| wrong(text))).transpose()
    };
    let now_ms = clock::unix_millis();
    let until_ms = time("until", until)?.unwrap_or(now_ms).saturating_sub(1);
    let filter = Filter { since_ms: time("since", since)?, until_ms: Some(until_ms), ..Filter::default() };
    let refused = |fault: Fault| failed(&fault, "export");
    let traffic = Traffic::open(&path).map_err(refused)?;
    let mut wanted = Wanted { filter, ..Wanted::default() };
    if let Some(sample) = *sample {
        wanted.sample = Sample::of(sample, traffic.count(&wanted).map_err(refused)?);
    }
    let exported = traffic::export(&traffic, &wanted, out, now_ms).map_err(refused)?;
    let window = exported
        .window_ms
        .map_or_else(String::new, |[from, until]| format!(", from {} until {}", rfc_3339(from), rfc_3339(until)));
    writeln!(
        output,
        "{}: {} of {} records{window}; SHA-256 {}",
        out.display(),
        exported.records,
        exported.drawn_from,
        exported.sha256
    )?;
    Ok(0)
}
