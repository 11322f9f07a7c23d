//! What the ledger on disk costs: records a second, bytes a record, memory, start, look-ups, pages.
//!
//! Writes to a directory that must not exist yet (default: one below the system's temporary directory), and deletes it at
//! the end unless told to keep it. The records are those of decisions among eight endpoints, a hundred a second until now.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a bench may stop at the first surprise"
)]

mod generations;

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use lexopt::{Arg, Parser, ValueExt as _};
use pointsman_domain::{Generation, GenerationId};
use pointsman_ledger::{
    directory::DATABASE,
    entry::Filter,
    facts::{label, number},
    generations::{GenerationRecorder, GenerationStore, LedgerBounds},
    page::Query,
    queue::Bounds,
};
use pointsman_routing::decide::splitmix64;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "\
bench-store [--records N] [--rate N] [--directory DIR] [--keep]
    writes N records (default 1,000,000) and prints what that costs; a rate limits the records a second
";
/// Different generations; the others repeat them with ids and times of their own.
const DISTINCT: usize = 4_096;
/// Records in one turn of an event loop.
const TURN: u64 = 8;
/// Wait for the database at the end.
const FLUSH: Duration = Duration::from_secs(600);
const LOOK_UPS: u64 = 1_000;
/// Blocks that a page looks into, as in the API.
const BLOCKS: usize = 64;

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
    let (mut records, mut rate, mut keep) = (1_000_000_u64, u64::MAX, false);
    let mut path = std::env::temp_dir().join(format!("pointsman-bench-store-{}", std::process::id()));
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("records") => records = parser.value()?.parse()?,
            Arg::Long("rate") => rate = parser.value()?.parse()?,
            Arg::Long("directory") => path = PathBuf::from(parser.value()?),
            Arg::Long("keep") => keep = true,
            Arg::Long("help") => return Ok(write!(io::stdout(), "{USAGE}")?),
            other => return Err(other.unexpected().into()),
        }
    }
    if path.exists() {
        return Err(format!("{} exists", path.display()).into());
    }
    let result = measure(&path, &Load::new(records.max(1)), rate.max(1));
    if !keep {
        let _ = std::fs::remove_dir_all(&path);
    }
    result
}

/// The records to write.
struct Load {
    distinct: Vec<Generation>,
    count: u64,
    /// When the first began, Unix milliseconds.
    begin_ms: i64,
}

impl Load {
    fn new(count: u64) -> Load {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis() as i64;
        Load { distinct: generations::recorded(DISTINCT, 1), count, begin_ms: now - count as i64 * 10 }
    }

    fn created_ms(&self, number: u64) -> i64 {
        self.begin_ms + number as i64 * 10
    }

    fn id(&self, number: u64) -> GenerationId {
        GenerationId::new(self.created_ms(number) as u64 / 1_000, [0, 1, 2].map(|salt| splitmix64(number ^ salt << 40)))
    }

    /// The record of this number.
    fn generation(&self, number: u64) -> Generation {
        let text = |salt: u64| format!("{:032x}", u128::from(splitmix64(number ^ salt << 40)));
        Generation {
            id: self.id(number),
            created_ms: self.created_ms(number),
            request_id: text(4).into(),
            upstream_id: Some(text(5)),
            ..self.distinct[number as usize % DISTINCT].clone()
        }
    }
}

fn measure(path: &Path, load: &Load, rate: u64) -> Result<(), Failure> {
    let out = &mut io::stdout();
    let bounds = LedgerBounds {
        max_age: Duration::from_secs(30 * 86_400),
        max_bytes: u64::MAX,
        sync: false,
        queue: Bounds { items: 65_536, bytes: 64 * 1024 * 1024 },
    };
    writeln!(out, "resident before        {:>10}", resident())?;
    let store = Arc::new(GenerationStore::open(path, bounds)?);
    write_all(&store, load, rate, out)?;
    let taken = std::fs::metadata(path.join(DATABASE))?.len();
    writeln!(out, "bytes a record on disk {:>10}", taken / load.count)?;
    writeln!(out, "resident after         {:>10}", resident())?;
    drop(store);

    let begin = Instant::now();
    let store = GenerationStore::open(path, bounds)?;
    writeln!(out, "open                   {:>10.1} ms", millis(begin))?;
    read_all(&store, load, out)?;
    writeln!(out, "resident after reading {:>10}", resident())?;
    Ok(())
}

fn write_all(store: &Arc<GenerationStore>, load: &Load, rate: u64, out: &mut impl io::Write) -> Result<(), Failure> {
    let mut recorder: GenerationRecorder = store.recorder(0);
    let (begin, mut recording, mut longest) = (Instant::now(), Duration::ZERO, Duration::ZERO);
    for number in 0..load.count {
        let generation = load.generation(number);
        let at = Instant::now();
        recorder.record(&generation, None);
        if number % TURN == TURN - 1 {
            recorder.write();
        }
        let took = at.elapsed();
        recording += took;
        longest = longest.max(took);
        let due = begin + Duration::from_secs_f64(number as f64 / rate as f64);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    recorder.write();
    let per_record = recording.as_secs_f64() * 1e6 / load.count as f64;
    let longest = longest.as_secs_f64() * 1e3;
    writeln!(out, "record                 {per_record:>10.2} us, the longest {longest:.1} ms")?;
    writeln!(out, "recorded a second      {:>10.0}", load.count as f64 / recording.as_secs_f64())?;
    drop(recorder);
    store.entries().flush(Instant::now() + FLUSH)?;
    writeln!(out, "stored a second        {:>10.0}", load.count as f64 / begin.elapsed().as_secs_f64())?;
    writeln!(out, "dropped                {:>10}", store.entries().status().dropped)?;
    Ok(())
}

fn read_all(store: &GenerationStore, load: &Load, out: &mut impl io::Write) -> Result<(), Failure> {
    let begin = Instant::now();
    for look_up in 0..LOOK_UPS {
        let number = look_up * 7_919 % load.count;
        store.get(load.id(number), |_| true)?.ok_or_else(|| format!("record {number} is missing"))?;
    }
    writeln!(out, "look-up by id          {:>10.1} us", millis(begin) * 1e3 / LOOK_UPS as f64)?;
    let of_model = |model: &str| Filter { labels: vec![(label::MODEL, vec![model.into()])], ..Filter::default() };
    let one = of_model(load.distinct[0].model.as_deref().unwrap_or_default());
    let slow = Filter { numbers: vec![(number::FIRST_TOKEN_MS, 975..=i64::MAX)], ..Filter::default() };
    let old = Filter { until_ms: Some(load.created_ms(load.count / 2)), ..Filter::default() };
    let absent = of_model("nobody/nothing");
    for (name, filter) in
        [("newest", Filter::default()), ("one model", one), ("slow", slow), ("older half", old), ("no match", absent)]
    {
        let begin = Instant::now();
        let page = store.page(&Query { filter, after: None, limit: 50, blocks: BLOCKS })?;
        writeln!(out, "page: {name:<12}     {:>10.1} ms, {} records", millis(begin), page.generations.len())?;
    }
    Ok(())
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
