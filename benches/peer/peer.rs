//! The two ends of the end-to-end benchmarks: a fixed upstream, and a client that loads what stands before it.
//!
//! Not a general load generator: it speaks just enough HTTP/1.1 for the commands in `benches/`, on one thread, and
//! takes no answer on trust: a status other than 200, a short body or a stream without its end is a failure.
//! Next: `upstream.rs`, `floor.rs`, `load.rs` with `arrivals.rs`, `hold.rs` for `compare`, `rivals` and `footprint`,
//! `broken.rs`, `soak.rs` and `measure.rs` for `soak` and `figures`.

mod arrivals;
mod broken;
mod call;
mod floor;
mod hold;
mod http;
mod load;
mod measure;
mod process;
mod question;
mod soak;
mod upstream;

use std::{
    ffi::OsString,
    io::{self, Write},
    net::SocketAddr,
    process::ExitCode,
    time::Duration,
};

use lexopt::{Arg, Parser, ValueExt};

const USAGE: &str = "\
The peers of the end-to-end benchmarks.

  bench-peer upstream [--chunk-ms N]
      serves fixed answers on a free port of 127.0.0.1 and prints the address
  bench-peer floor --address A [--key K]
      forwards requests to the upstream at A with actix-web and awc alone, on a free port that it prints, as above
  bench-peer load --address A --pid P [--path /...] [--key K] [--connections N] [--seconds N]
                  [--model M] [--bytes N] [--stream] [--steady [--rate N]] [--ticks N]
                  [--requests N] [--get] [--status N]
      sends chats, or with --get requests without a body, until the time is over, as fast as it goes or at a steady rate, and prints what they cost the process P,
      how long they took, and of streams the time to the first chunk and from the upstream's write of a chunk to its arrival;
      with --requests at most that many on each connection; every answer must have the status N, 200 if none is given
  bench-peer hold --address A --pid P [--path /...] [--key K] [--connections N]
      holds idle connections, then silent streams, and prints what they cost P in memory
  bench-peer broken [--flap-ms N] [--chunk-ms N]
      is a provider that fails each request in another way; with a flap, every other period only
  bench-peer soak --address A --pid P [--calm] [--connections N] [--seconds N] [--rate N] ...
      sends requests at a steady rate to healthy and broken providers and prints what P grew by
  bench-peer idle|leaks|attack|stick|drain --address A --pid P [--connections N] [--seconds N] ...
  bench-peer cancel --address A --port N [--connections N] ...
      measure one figure each
";

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What the commands are told on the command line.
#[derive(Clone)]
struct Options {
    address: SocketAddr,
    path: String,
    key: String,
    pid: u32,
    connections: usize,
    duration: Duration,
    /// What `load` asks for.
    model: String,
    bytes: usize,
    stream: bool,
    /// Whether `load` sends no chats.
    get: bool,
    /// The status that `load` awaits.
    status: u16,
    chunk_pause: Duration,
    ticks_per_second: u64,
    /// Whether `load` keeps to the rate.
    steady: bool,
    /// Requests per second of a soak or a steady load, all connections together.
    rate: f64,
    /// Requests of each connection after which `load` ends, whatever the time.
    requests: usize,
    calm: bool,
    flap: Duration,
    /// Where `cancel` plays a provider.
    port: u16,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            path: "/v1/chat/completions".to_owned(),
            key: "none".to_owned(),
            pid: std::process::id(),
            connections: 32,
            duration: Duration::from_secs(2),
            model: question::MODEL.to_owned(),
            bytes: 1024,
            stream: false,
            get: false,
            status: 200,
            chunk_pause: Duration::from_millis(4),
            ticks_per_second: 100,
            steady: false,
            rate: 500.0,
            requests: usize::MAX,
            calm: false,
            flap: Duration::ZERO,
            port: 0,
        }
    }
}

impl Options {
    fn read(parser: &mut Parser) -> Result<Options, lexopt::Error> {
        let mut options = Options::default();
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Long("address") => options.address = parser.value()?.parse()?,
                Arg::Long("path") => options.path = parser.value()?.string()?,
                Arg::Long("key") => options.key = parser.value()?.string()?,
                Arg::Long("pid") => options.pid = parser.value()?.parse()?,
                Arg::Long("connections") => options.connections = parser.value()?.parse()?,
                Arg::Long("seconds") => options.duration = parser.value()?.parse_with(seconds)?,
                Arg::Long("model") => options.model = parser.value()?.string()?,
                Arg::Long("bytes") => options.bytes = parser.value()?.parse()?,
                Arg::Long("stream") => options.stream = true,
                Arg::Long("get") => options.get = true,
                Arg::Long("status") => options.status = parser.value()?.parse()?,
                Arg::Long("chunk-ms") => options.chunk_pause = Duration::from_millis(parser.value()?.parse()?),
                Arg::Long("ticks") => options.ticks_per_second = parser.value()?.parse()?,
                Arg::Long("steady") => options.steady = true,
                Arg::Long("rate") => options.rate = parser.value()?.parse()?,
                Arg::Long("requests") => options.requests = parser.value()?.parse()?,
                Arg::Long("calm") => options.calm = true,
                Arg::Long("flap-ms") => options.flap = Duration::from_millis(parser.value()?.parse()?),
                Arg::Long("port") => options.port = parser.value()?.parse()?,
                other => return Err(other.unexpected()),
            }
        }
        Ok(options)
    }
}

fn seconds(text: &str) -> Result<Duration, Failure> {
    Ok(Duration::try_from_secs_f64(text.parse()?)?)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(io::stderr(), "bench-peer: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let mut parser = Parser::from_env();
    let command = match parser.next()? {
        Some(Arg::Value(command)) => command,
        _ => OsString::from("help"),
    };
    let options = Options::read(&mut parser)?;
    if command == "floor" {
        return floor::serve(options.address, &options.key);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match command.to_str() {
        Some("upstream") => runtime.block_on(upstream::serve(options.chunk_pause)),
        Some("load") => local(&runtime, load::run(&options)),
        Some("hold") => runtime.block_on(hold::run(&options)),
        Some("broken") => runtime.block_on(broken::serve(options.flap, options.chunk_pause)),
        Some("soak") => local(&runtime, soak::run(&options, options.calm)),
        Some("idle") => runtime.block_on(measure::idle(&options)),
        Some("leaks") => runtime.block_on(measure::leaks(&options)),
        Some("attack") => local(&runtime, measure::attack(&options)),
        Some("stick") => runtime.block_on(measure::stick(&options)),
        Some("drain") => runtime.block_on(measure::drain(&options)),
        Some("cancel") => runtime.block_on(measure::cancel(&options, options.port)),
        _ => Ok(io::stdout().write_all(USAGE.as_bytes())?),
    }
}

fn local(runtime: &tokio::runtime::Runtime, work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    runtime.block_on(tokio::task::LocalSet::new().run_until(work))
}

/// Prints one line and hands it over at once, because a script waits for it.
fn say(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
