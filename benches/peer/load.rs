//! Loads one server for a while and tells what a request cost the process behind it.

use std::{
    cell::RefCell,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinSet, time::sleep_until};

use crate::{
    Failure, Options, arrivals::Arrivals, http::Connection, process::cpu_time, question::question, say,
    upstream::CHUNKS,
};

/// Precision of tokio's timers, and one more for the scheduler.
const TIMER: Duration = Duration::from_millis(2);

/// What all connections did together.
#[derive(Default)]
struct Tally {
    times: Vec<Duration>,
    arrivals: Arrivals,
}

/// When one connection sends, of a steady load.
struct Pace {
    next: Instant,
    pause: Duration,
}

impl Pace {
    /// Waits for the next request's turn and gives the moment its time is counted from: now, or its turn if the wait became
    /// longer than a timer's precision, so that a server that stalls cannot hide requests that should have been sent.
    async fn turn(&mut self) -> Instant {
        let turn = self.next;
        self.next += self.pause;
        sleep_until(turn.into()).await;
        let now = Instant::now();
        if now > turn + TIMER { turn } else { now }
    }
}

/// What an answer must be.
#[derive(Clone, Copy)]
struct Expected {
    status: u16,
    stream: bool,
    whole_answer: bool,
}

impl Expected {
    fn by(options: &Options) -> Expected {
        let Options { status, stream, get, .. } = *options;
        Expected { status, stream, whole_answer: status == 200 && !get }
    }
}

/// Prints `requests=… chunks=… cpu_us=… …` or fails at the first irregular answer.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let request: Rc<[u8]> = question(options, false)?.into();
    let tally = Rc::new(RefCell::new(Tally::default()));
    let connections = warmed_up(options, &request).await?;

    let before = cpu_time(options.pid, options.ticks_per_second)?;
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    let pause = options.steady.then(|| Duration::from_secs_f64(1.0 / options.rate.max(1.0)));
    for (number, connection) in connections.into_iter().enumerate() {
        let (request, tally) = (Rc::clone(&request), Rc::clone(&tally));
        let pace = pause
            .map(|pause| Pace { next: started + pause * number as u32, pause: pause * options.connections as u32 });
        let end = started + options.duration;
        let (expected, most) = (Expected::by(options), options.requests);
        tasks.spawn_local(async move {
            drive(connection, &request, expected, (pace, end, most), &tally).await.map_err(|f| f.to_string())
        });
    }
    while let Some(driven) = tasks.join_next().await {
        driven??;
    }
    let elapsed = started.elapsed();
    let spent = cpu_time(options.pid, options.ticks_per_second)?.saturating_sub(before);
    report(&mut tally.borrow_mut(), options.stream, elapsed, spent)
}

/// Connections that have had one exchange, which is not measured: it opens pools and warms caches.
async fn warmed_up(options: &Options, request: &Rc<[u8]>) -> Result<Vec<Connection>, Failure> {
    let mut tasks = JoinSet::new();
    for _ in 0..options.connections {
        let request = Rc::clone(request);
        let (address, expected) = (options.address, Expected::by(options));
        tasks.spawn_local(async move {
            let mut connection = Connection::new(TcpStream::connect(address).await?)?;
            let request = (request.as_ref(), Instant::now());
            exchange(&mut connection, request, expected, &mut Vec::new(), &RefCell::default()).await?;
            Ok::<_, Failure>(connection)
        });
    }
    tasks.join_all().await.into_iter().collect()
}

async fn drive(
    mut connection: Connection,
    request: &[u8],
    expected: Expected,
    (mut pace, end, most): (Option<Pace>, Instant, usize),
    tally: &RefCell<Tally>,
) -> Result<(), Failure> {
    let mut body = Vec::new();
    for _ in 0..most {
        if Instant::now() >= end {
            break;
        }
        let sent = match &mut pace {
            Some(pace) => pace.turn().await,
            None => Instant::now(),
        };
        exchange(&mut connection, (request, sent), expected, &mut body, tally).await?;
        tally.borrow_mut().times.push(sent.elapsed());
    }
    Ok(())
}

/// One request, of the moment `sent`, and its whole answer, checked.
async fn exchange(
    connection: &mut Connection,
    (request, sent): (&[u8], Instant),
    expected: Expected,
    body: &mut Vec<u8>,
    tally: &RefCell<Tally>,
) -> Result<(), Failure> {
    connection.socket.write_all(request).await?;
    let head = connection.answer_head().await?;
    let mut read = 0;
    let chunk = |body: &[u8]| read = tally.borrow_mut().arrivals.note(body, read, sent);
    connection.watched_body(&head, body, chunk).await?;
    let text = String::from_utf8_lossy(body);
    if head.status != expected.status {
        return Err(format!("status {}: {}", head.status, text.chars().take(400).collect::<String>()).into());
    }
    if !expected.whole_answer {
        return Ok(());
    }
    if expected.stream {
        let chunks = text.matches(r#""content":""#).count() as u64;
        if chunks < CHUNKS || !text.ends_with("data: [DONE]\n\n") {
            return Err(format!("a stream of {chunks} chunks, or without its end").into());
        }
    } else if ![r#""finish_reason":"stop""#, r#""stop_reason":"end_turn""#].iter().any(|end| text.contains(end)) {
        return Err("an answer that is not whole".into());
    }
    Ok(())
}

fn report(tally: &mut Tally, stream: bool, elapsed: Duration, spent: Duration) -> Result<(), Failure> {
    let Tally { times, arrivals: Arrivals { first, transit } } = tally;
    let count = times.len();
    let units = if stream { count as u64 * CHUNKS } else { count as u64 };
    if units == 0 {
        return Err("not one answer in the given time".into());
    }
    let cost = spent.as_secs_f64() * 1e6 / units as f64;
    say(&format!(
        "requests={count} units={units} cpu_us={cost:.2} rate={:.0} busy={:.0} p50_us={} p99_us={} \
         first_us={} first_least_us={} transit_us={}",
        count as f64 / elapsed.as_secs_f64(),
        100.0 * spent.as_secs_f64() / elapsed.as_secs_f64(),
        quantile(times, 0.5),
        quantile(times, 0.99),
        quantile(first, 0.5),
        quantile(first, 0.0),
        quantile(transit, 0.5),
    ))?;
    Ok(())
}

/// In microseconds; 0 of none.
fn quantile(times: &mut [Duration], share: f64) -> u128 {
    times.sort_unstable();
    times.get((times.len() as f64 * share) as usize).map_or(0, Duration::as_micros)
}
