//! What the durable store costs: records a second, bytes a record, memory, start, look-ups, pages.
//!
//! Writes to a directory below the one given (default: the system's temporary directory) and deletes it at the end.
//! Records are made up: eight candidates of twelve numbers each, and names, 1.5 KB in all.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use lexopt::{Arg, Parser, ValueExt as _};
use pointsman::store::{
    directory::{DATABASE, Directory},
    entry::{Entry, Facts, Filter, Id},
    handle::{Recorder, Store},
    page::Query,
    settings::Settings,
};
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "\
bench-store [--records N] [--rate N] [--directory DIR]
    writes N records (default 1,000,000) and prints what that costs; a rate limits the records a second
";
const PROVIDERS: u64 = 12;
const CANDIDATES: u64 = 8;
const NUMBERS: usize = 12;
/// Wait for the database at the end.
const FLUSH: Duration = Duration::from_secs(600);
const LOOK_UPS: u64 = 1_000;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(io::stderr(), "bench-store: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let (mut records, mut rate, mut parent) = (1_000_000_u64, u64::MAX, std::env::temp_dir());
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("records") => records = parser.value()?.parse()?,
            Arg::Long("rate") => rate = parser.value()?.parse()?,
            Arg::Long("directory") => parent = PathBuf::from(parser.value()?),
            Arg::Long("help") => return Ok(write!(io::stdout(), "{USAGE}")?),
            other => return Err(other.unexpected().into()),
        }
    }
    let path = parent.join(format!("pointsman-bench-store-{}", std::process::id()));
    let result = measure(&path, records.max(1), rate.max(1));
    let _ = std::fs::remove_dir_all(&path);
    result
}

fn measure(path: &Path, records: u64, rate: u64) -> Result<(), Failure> {
    let out = &mut io::stdout();
    let settings = Settings { max_bytes: u64::MAX, max_age: Duration::MAX, ..Settings::default() };
    writeln!(out, "resident before        {:>10}", resident())?;
    let store = Store::open(Directory::open(path)?, settings.clone())?;
    write_all(&store, records, rate, out)?;
    let length = std::fs::metadata(path.join(DATABASE))?.len();
    writeln!(out, "bytes a record on disk {:>10}", length / records)?;
    writeln!(out, "resident after         {:>10}", resident())?;
    drop(store);

    let begin = Instant::now();
    let store = Store::open(Directory::open(path)?, settings)?;
    writeln!(out, "open                   {:>10.1} ms", millis(begin))?;
    read_all(&store, records, out)?;
    writeln!(out, "resident after reading {:>10}", resident())?;
    Ok(())
}

fn write_all(store: &Store, records: u64, rate: u64, out: &mut impl io::Write) -> Result<(), Failure> {
    let mut recorder: Recorder = store.recorder(0);
    let (begin, mut recording, mut longest) = (Instant::now(), Duration::ZERO, Duration::ZERO);
    for number in 0..records {
        let entry = entry(number);
        let at = Instant::now();
        recorder.record(entry, None)?;
        let took = at.elapsed();
        recording += took;
        longest = longest.max(took);
        let due = begin + Duration::from_secs_f64(number as f64 / rate as f64);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    let per_record = recording.as_secs_f64() * 1e6 / records as f64;
    let longest = longest.as_secs_f64() * 1e3;
    writeln!(out, "record                 {per_record:>10.2} us, the longest {longest:.1} ms")?;
    writeln!(out, "recorded a second      {:>10.0}", records as f64 / begin.elapsed().as_secs_f64())?;
    drop(recorder);
    store.flush(Instant::now() + FLUSH)?;
    writeln!(out, "stored a second        {:>10.0}", records as f64 / begin.elapsed().as_secs_f64())?;
    let status = store.status();
    writeln!(out, "dropped                {:>10}", status.dropped)?;
    Ok(())
}

fn read_all(store: &Store, records: u64, out: &mut impl io::Write) -> Result<(), Failure> {
    let begin = Instant::now();
    for look_up in 0..LOOK_UPS {
        let id = entry(look_up * 7_919 % records).id;
        if store.get(&id)?.is_none() {
            return Err(format!("record {look_up} is missing").into());
        }
    }
    writeln!(out, "look-up by id          {:>10.1} us", millis(begin) * 1e3 / LOOK_UPS as f64)?;
    let rare = Filter { labels: vec![(1, vec!["rare".into()])], ..Filter::default() };
    let absent = Filter { labels: vec![(1, vec!["absent".into()])], ..Filter::default() };
    let slow = Filter { numbers: vec![(0, 999_000..=i64::MAX)], ..Filter::default() };
    for (name, filter) in [("newest", Filter::default()), ("rare label", rare), ("no match", absent), ("slow", slow)] {
        let begin = Instant::now();
        let page = store.page(&Query { filter, after: None, limit: 50, blocks: 1_000 })?;
        let count = page.entries.len();
        writeln!(out, "page: {name:<12}     {:>10.1} ms, {count} records", millis(begin))?;
    }
    Ok(())
}

/// The record of this number, the same in every run. A hundred begin each second.
fn entry(number: u64) -> Entry {
    let mut dice = SmallRng::seed_from_u64(number);
    let created_ms = 1_700_000_000_000 + number as i64 * 10;
    let mut tail = [0; 24];
    for byte in tail.iter_mut().take(22) {
        *byte = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
            .get(dice.random_range(0..62))
            .copied()
            .unwrap_or_default();
    }
    let mut bytes = Vec::with_capacity(1_600);
    for candidate in 0..CANDIDATES {
        let provider = dice.random_range(0..PROVIDERS);
        bytes.extend_from_slice(
            format!("provider-{provider}/maker/model-{candidate}: passed over for its price; ").as_bytes(),
        );
        for _ in 0..NUMBERS {
            bytes.extend_from_slice(&dice.random_range(0.0..10_f64).to_le_bytes());
        }
    }
    let model = if number.is_multiple_of(50_021) { "rare".to_owned() } else { format!("maker/model-{}", number % 20) };
    let labels =
        vec![(0, format!("provider-{}", number % PROVIDERS).into()), (1, model.into()), (2, "completed".into())];
    let facts = Facts { labels, numbers: vec![(0, dice.random_range(0..1_000_000)), (1, number as i64 % 3_000)] };
    Entry { id: Id::new(created_ms as u64 / 1_000, tail), created_ms, facts, bytes }
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Memory of this process, as the kernel counts it.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap_or("unknown").trim().to_owned()
}
