//! Holds idle connections and silent streams open and tells what they cost in memory.

use std::time::Duration;

use tokio::{io::AsyncWriteExt, net::TcpStream, time::sleep};

use crate::{Failure, Options, http::Connection, process::resident, question::question, say};

/// How long the process is left alone before its memory is read.
const SETTLING: Duration = Duration::from_millis(1500);

/// Prints one line per stage: `stage=… count=… rss_kib=… per_item_kib=…`.
pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let before = resident(options.pid)?;
    say(&format!("stage=start count=0 rss_kib={before} per_item_kib=0"))?;

    let mut connections = Vec::with_capacity(options.connections);
    for _ in 0..options.connections {
        connections.push(Connection::new(TcpStream::connect(options.address).await?)?);
    }
    stage("idle-connections", options, before).await?;

    let request = question(options, true)?;
    for connection in &mut connections {
        connection.socket.write_all(&request).await?;
    }
    for connection in &mut connections {
        let head = connection.answer_head().await?;
        if head.status != 200 {
            return Err(format!("status {}", head.status).into());
        }
        connection.chunk(&mut Vec::new()).await?;
    }
    stage("silent-streams", options, before).await?;

    drop(connections);
    stage("after-closing", options, before).await
}

async fn stage(name: &str, options: &Options, before: u64) -> Result<(), Failure> {
    sleep(SETTLING).await;
    let now = resident(options.pid)?;
    let count = options.connections;
    let each = now.saturating_sub(before) as f64 / count.max(1) as f64;
    say(&format!("stage={name} count={count} rss_kib={now} per_item_kib={each:.1}"))
}
