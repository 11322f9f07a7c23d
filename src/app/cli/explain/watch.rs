//! `explain --watch`: every generation of the key that ends from now on.

use std::{
    collections::{HashSet, VecDeque},
    io::{self, Write as _},
    time::Duration,
};

use actix_web::{http::Method, rt};
use bytes::Bytes;
use pointsman_config::Environment;
use pointsman_domain::GenerationId;
use serde_json::Value;

use super::{ExplainRequest, text};
use crate::app::cli::{
    CommandOutput, Finished,
    columns::{list, shown},
    gateway::{ReachedGateway, until_a_signal},
    refused,
};

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(1);
/// The newest generations of the key. More of them in one interval are not explained.
const NEWEST: &str = "/api/v1/generations?limit=200";
/// The limit in [`NEWEST`].
const PAGE: usize = 200;

/// Explains until a signal arrives or the gateway is lost. Returns what remains to be printed.
pub(super) fn run(request: &ExplainRequest, environment: &Environment) -> Finished {
    let gateway = request.gateway.connect(environment)?;
    until_a_signal(watch(request, &gateway))
}

async fn watch(request: &ExplainRequest, gateway: &ReachedGateway) -> Result<(), CommandOutput> {
    let mut seen: Option<SeenGenerations> = None;
    let mut waiting = VecDeque::new();
    loop {
        if let Some(answer) = ask(gateway, NEWEST).await? {
            let ids = ids(&parsed(&gateway.body_of(answer)?)?);
            match &mut seen {
                Some(seen) => waiting.extend(seen.add(&ids)),
                None => seen = Some(SeenGenerations::new(&ids)),
            }
        }
        while let Some(id) = waiting.front() {
            let Some((status, body)) = ask(gateway, &request.path(id)).await? else { break };
            waiting.pop_front();
            // A deleted record is passed over. A closed pipe ends the command, and is not an error.
            if status != 404 && print(request, &gateway.body_of((status, body))?)?.is_err() {
                return Ok(());
            }
        }
        rt::time::sleep(INTERVAL).await;
    }
}

/// Status and body of an answer. `None` if the gateway is busy or the key over a limit: the call is made again later.
async fn ask(gateway: &ReachedGateway, path: &str) -> Result<Option<(u16, Bytes)>, CommandOutput> {
    let answer = gateway.page((Method::GET, path), None).await?;
    Ok(Some(answer).filter(|(status, _)| ![429, 503].contains(status)))
}

/// The ids of a list of generations, the newest first.
fn ids(page: &Value) -> Vec<GenerationId> {
    list(page, "data").iter().filter_map(|row| GenerationId::parse(&shown(row, "/id"))).collect()
}

/// Which generations were listed before. What is older than everything that a full list showed is none of this watch: it
/// appears only because newer records were deleted.
#[derive(Default)]
struct SeenGenerations {
    ids: HashSet<GenerationId>,
    /// Unix seconds.
    oldest: u64,
}

impl SeenGenerations {
    /// The generations that the first list holds.
    fn new(ids: &[GenerationId]) -> SeenGenerations {
        let mut seen = SeenGenerations::default();
        seen.add(ids);
        seen
    }

    /// Adds a list, the newest first. Gives what was not seen before, the oldest first.
    fn add(&mut self, ids: &[GenerationId]) -> Vec<GenerationId> {
        let second = |id: &GenerationId| id.parts().0.unwrap_or_default();
        let is_fresh = |id: &&GenerationId| second(id) >= self.oldest && !self.ids.contains(id);
        let fresh: Vec<GenerationId> = ids.iter().rev().filter(is_fresh).copied().collect();
        self.ids.extend(&fresh);
        if ids.len() >= PAGE {
            self.oldest = ids.last().map_or(0, second).max(self.oldest);
            self.ids.retain(|id| second(id) >= self.oldest);
        }
        fresh
    }
}

fn parsed(body: &Bytes) -> Result<Value, CommandOutput> {
    serde_json::from_slice(body).map_err(|error| refused(format!("the answer of the gateway cannot be read: {error}")))
}

/// One explanation; as JSON in one line, as text with an empty line behind it.
fn print(request: &ExplainRequest, body: &Bytes) -> Result<io::Result<()>, CommandOutput> {
    let page = parsed(body)?;
    let mut output = io::stdout().lock();
    let written = match request.gateway.json {
        true => output.write_all(body).and_then(|()| output.write_all(b"\n")),
        false => output.write_all(format!("{}\n", text::decision(page.get("data").unwrap_or(&page))).as_bytes()),
    };
    Ok(written.and_then(|()| output.flush()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_at(seconds: std::ops::Range<u64>) -> Vec<GenerationId> {
        seconds.rev().map(|second| GenerationId::new(second, [second; 3])).collect()
    }

    #[test]
    fn what_appears_because_newer_records_were_deleted_is_not_new() {
        let mut seen = SeenGenerations::new(&made_at(1_000..1_200));
        assert_eq!(seen.add(&made_at(900..1_100)), [], "a hundred were deleted");
        assert_eq!(seen.add(&made_at(1_000..1_203)).len(), 3);
        assert_eq!(seen.add(&made_at(1_200..1_201)), []);
        assert_eq!(seen.add(&made_at(1_000..1_202)), [], "and they came back");
    }

    #[test]
    fn one_that_began_before_the_watch_and_ends_later_is_new() {
        let mut seen = SeenGenerations::new(&made_at(1_100..1_110));
        let late = made_at(1_000..1_001);
        assert_eq!(seen.add(&[made_at(1_100..1_110), late.clone()].concat()), late);
        assert_eq!(seen.add(&[made_at(1_100..1_110), late].concat()), []);
    }

    #[test]
    fn no_more_ids_are_kept_than_a_list_shows() {
        let mut seen = SeenGenerations::new(&[]);
        for second in (0..5_000).step_by(100) {
            assert_eq!(seen.add(&made_at(second..second + 200)).len(), if second == 0 { 200 } else { 100 });
            assert!(seen.ids.len() <= PAGE);
        }
    }
}
