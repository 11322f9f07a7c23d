//! Single figures: what an attack, an idle crowd or five hundred broken calls cost, how soon a call is let go, and
//! what becomes of streams when the process is told to stop.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    Failure, Options,
    call::{Caller, Kind},
    http::Connection,
    process::{descriptors, resident},
    question::chat,
    say,
};

const SETTLING: Duration = Duration::from_millis(1500);
/// The model at a provider that falls silent.
const HELD: &str = "bench/bench-held";
/// The model with nothing but a broken provider.
const BROKEN: &str = "bench/broken";
/// The model at the provider that `cancel` plays itself.
const PLAYED: &str = "bench/played";

/// `connections` that say nothing: `rss_kib=…`.
pub(crate) async fn idle(options: &Options) -> Result<(), Failure> {
    let mut connections = Vec::new();
    for _ in 0..options.connections {
        connections.push(TcpStream::connect(options.address).await?);
    }
    sleep(SETTLING).await;
    say(&format!("connections={} rss_kib={}", connections.len(), resident(options.pid)?))
}

/// `connections` broken calls one after another: `fds_before=… fds_after=…`.
pub(crate) async fn leaks(options: &Options) -> Result<(), Failure> {
    // As many as there are faults, twice: what is kept between calls depends on the last of them.
    for _ in 0..24 {
        drop(Caller::new(options).call(BROKEN, Kind::Plain).await?);
    }
    sleep(SETTLING).await;
    let before = descriptors(options.pid)?;
    for number in 0..options.connections {
        let kind = if number % 2 == 0 { Kind::Plain } else { Kind::Stream };
        drop(Caller::new(options).call(BROKEN, kind).await);
    }
    sleep(SETTLING).await;
    say(&format!("calls={} fds_before={before} fds_after={}", options.connections, descriptors(options.pid)?))
}

/// Every attack in turn by a single client, and the most the process grew by: one line each.
pub(crate) async fn attack(options: &Options) -> Result<(), Failure> {
    let body = |length: usize| {
        format!(
            "POST {} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n",
            options.path, options.key
        )
    };
    let large = 8 * 1024 * 1024;
    let deep = format!("{}{}", body(large), "[".repeat(large));
    let spaces = format!("{}{}", body(large), " ".repeat(large - 1));
    let strings = format!("{}{{\"model\":\"{}", body(large), "\\u0061".repeat((large - 20) / 6));
    let wanted = chat(options, "bench/one", true)?;
    let attacks: [(&str, usize, Vec<u8>); 6] = [
        ("bodies of 8 MiB that lack their last byte", 100, spaces.into_bytes()),
        ("bodies of 8 MiB of brackets", 50, deep.into_bytes()),
        ("bodies of 8 MiB of escapes in one string", 50, strings.into_bytes()),
        ("heads that do not end", 2_000, b"POST / HTTP/1.1\r\nhost: x\r\nx-filler: ".to_vec()),
        ("heads of 100 kB", 500, format!("GET / HTTP/1.1\r\nhost: {}", "x".repeat(100_000)).into_bytes()),
        ("a thousand pipelined streams that nobody reads", 50, wanted.repeat(1_000)),
    ];
    for (name, connections, bytes) in attacks {
        let before = resident(options.pid)?;
        let most = strike(options, connections, &bytes).await?;
        let grown = most.saturating_sub(before) / 1024;
        say(&format!("grown_mb={grown} connections={connections} attack={}", name.replace(' ', "_")))?;
        sleep(SETTLING).await;
    }
    Ok(())
}

/// Says the same on many connections, reads nothing, and gives the largest memory seen meanwhile, KiB.
async fn strike(options: &Options, connections: usize, bytes: &[u8]) -> Result<u64, Failure> {
    let bytes: std::rc::Rc<[u8]> = bytes.into();
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (bytes, address) = (std::rc::Rc::clone(&bytes), options.address);
        tasks.spawn_local(async move {
            let mut socket = TcpStream::connect(address).await.ok()?;
            let _ = timeout(Duration::from_secs(3), socket.write_all(&bytes)).await;
            Some(socket)
        });
    }
    let (begun, mut most) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(5) {
        sleep(Duration::from_millis(50)).await;
        most = most.max(resident(options.pid)?);
    }
    Ok(most)
}

/// Plays the provider at `port` itself and leaves calls at every moment: the slowest `closed_ms=…`.
pub(crate) async fn cancel(options: &Options, port: u16) -> Result<(), Failure> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let event =
        "data: {\"id\":\"u\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":null}]}\n\n";
    let begun_stream = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{event}\r\n",
        event.len()
    );
    let mut slowest = Duration::ZERO;
    for round in 0..options.connections {
        let (streamed, begins) = (round % 3 < 2, round % 3 == 0);
        let mut client = Connection::new(TcpStream::connect(options.address).await?)?;
        client.socket.write_all(&chat(options, PLAYED, streamed)?).await?;
        let mut upstream = Connection::new(listener.accept().await?.0)?;
        let head = upstream.request_head().await?.ok_or("no request")?;
        upstream.body(&head, &mut Vec::new()).await?;
        if begins {
            upstream.socket.write_all(begun_stream.as_bytes()).await?;
            client.answer_head().await?;
        }
        let left = Instant::now();
        drop(client);
        let read = timeout(Duration::from_secs(5), upstream.socket.read(&mut [0; 64])).await;
        if !matches!(read, Ok(Ok(0) | Err(_))) {
            return Err("the upstream was kept".into());
        }
        slowest = slowest.max(left.elapsed());
    }
    say(&format!("calls={} closed_ms={:.1}", options.connections, slowest.as_secs_f64() * 1e3))
}

/// Calls that a provider never answers, held for the duration.
pub(crate) async fn stick(options: &Options) -> Result<(), Failure> {
    let request = chat(options, "bench/stuck", true)?;
    let mut stuck = Vec::new();
    for _ in 0..options.connections {
        let mut socket = TcpStream::connect(options.address).await?;
        socket.write_all(&request).await?;
        stuck.push(socket);
    }
    say("stuck")?;
    sleep(options.duration).await;
    drop(stuck);
    Ok(())
}

/// `connections` streams, then SIGTERM: when the listener closed, and how many streams were told.
pub(crate) async fn drain(options: &Options) -> Result<(), Failure> {
    let request = chat(options, HELD, true)?;
    let mut streams = Vec::new();
    for _ in 0..options.connections {
        let mut stream = Connection::new(TcpStream::connect(options.address).await?)?;
        stream.socket.write_all(&request).await?;
        if stream.answer_head().await?.status != 200 {
            return Err("a stream was refused".into());
        }
        stream.chunk(&mut Vec::new()).await?;
        streams.push(stream);
    }
    let told = Instant::now();
    if !Command::new("sh").args(["-c", &format!("kill -TERM {}", options.pid)]).status()?.success() {
        return Err("the process could not be told".into());
    }
    while TcpStream::connect(options.address).await.is_ok() {
        sleep(Duration::from_millis(1)).await;
    }
    let closed = told.elapsed();
    let mut ended = 0;
    for stream in &mut streams {
        let mut rest = Vec::new();
        while stream.chunk(&mut rest).await? {}
        let rest = String::from_utf8_lossy(&rest);
        ended += usize::from(rest.contains(r#""error":{"#) && rest.ends_with("data: [DONE]\n\n"));
    }
    say(&format!("streams={} ended={ended} listener_closed_ms={:.1}", streams.len(), closed.as_secs_f64() * 1e3))
}
