//! How fast recorded decisions are made again, and how little that disturbs who serves. Prints figures, and runs only when it is
//! asked for:
//! `DIFF_SPEED_RECORDS=1000000 cargo test --release -p pointsman --test it diff_speed -- --ignored --nocapture`.
//! `DIFF_SPEED_CALLS`, 2500 by default, is the number of calls of a round, `DIFF_SPEED_ROUNDS`, 5 by default, that of rounds;
//! 10,000 records are the least.

use std::{
    cell::{Cell, RefCell},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::http::Method;
use pointsman_domain::{Generation, GenerationId};
use pointsman_ledger::{
    generations::{GenerationStore, LedgerBounds},
    page::Query,
    queue::Bounds,
};
use serde_json::{Value, json};

use crate::{
    diff_command::{diff, recorded},
    folder::Folder,
    harness::{Reply, TestGateway},
    ledger_durable::environment,
    patience::eventually,
};

fn records() -> u64 {
    number("DIFF_SPEED_RECORDS").unwrap_or(100_000)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// So many records in `many`, made after forty that a gateway leaves in `few`.
async fn fill(few: &Path, many: &Path, records: u64) {
    recorded(few).await;
    let templates = GenerationStore::inspect(few).unwrap();
    let templates = templates.page(&Query { limit: 100, blocks: usize::MAX, ..Query::default() }).unwrap().generations;
    let queue = Bounds { items: 65_536, bytes: 512 << 20 };
    let bounds = LedgerBounds { max_age: Duration::from_secs(86_400), max_bytes: 16 << 30, sync: false, queue };
    let store = GenerationStore::open(many, bounds).unwrap();
    let mut recorder = store.recorder(0);
    for number in 0..records {
        let template = &templates[number as usize % templates.len()];
        let id = GenerationId::new(template.created_ms as u64 / 1000, [number, number.rotate_left(17), number ^ 7]);
        let session_id = Some(format!("session-{}", number / 4));
        let generation = Generation { id, session_id, ..Generation::clone(template) };
        drop(recorder.record(&Arc::new(generation), None));
        if number % 16_384 == 16_383 {
            recorder.write();
            store.entries().flush(Instant::now() + Duration::from_secs(600)).unwrap();
        }
    }
    recorder.write();
    store.entries().flush(Instant::now() + Duration::from_secs(600)).unwrap();
    drop((recorder, store));
}

/// Peak of the memory of a process and its threads.
fn peak_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[actix_web::test]
#[ignore = "takes minutes; prints figures"]
async fn a_million_decisions_are_made_again() {
    let (records, folder) = (records(), Folder::new());
    let (few, many) = (folder.at("few"), folder.at("many"));
    fill(&few, &many, records).await;

    let started = Instant::now();
    let path = many.display().to_string();
    let watched = std::thread::spawn(move || {
        diff(&few, &["--ledger", &path, "--json"], &[("POINTSMAN__ROUTING__BALANCED__COST", "0.1")])
    });
    let mut peak = 0;
    while !watched.is_finished() {
        let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
        let children: String = children.collect();
        peak = children.split_whitespace().filter_map(|pid| peak_kib(pid.parse().ok()?)).fold(peak, u64::max);
        std::thread::yield_now();
    }
    let (code, out, said) = watched.join().unwrap();
    let seconds = started.elapsed().as_secs_f64();
    let size = std::fs::metadata(many.join("ledger.db")).unwrap().len();
    eprintln!(
        "{records} decisions in {seconds:.1} s: {:.0} a second; peak {peak} KiB; {} bytes of disk per record; exit {code} {said}",
        records as f64 / seconds,
        size / records
    );
    assert!(code == 0 && out.contains("\"self_tested\""), "{out}");
    // What is said of a million decisions; the unoptimised program is slower.
    let least = if cfg!(debug_assertions) { 0.0 } else { 1e6 / 60.0 };
    assert!(records as f64 / seconds > least && peak < 512 * 1024, "{seconds} s, {peak} KiB");
}

pub(crate) const BOSS: &str = "sk-boss-0123456789abcdef-0123";

/// A gateway with the records in `data`, whose administrator has the key [`BOSS`].
pub(crate) async fn administered(data: &Path) -> TestGateway {
    let mut environment = environment(data.to_str().unwrap());
    environment.retain(|(name, _)| name != "POINTSMAN__KEYS" && name != "TEST_KEY");
    environment.extend(
        [("BOSS", BOSS), ("POINTSMAN__ADMIN__BIND", "127.0.0.1:0")].map(|(name, value)| (name.into(), value.into())),
    );
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
    let keys = "[[keys]]\nname = \"boss\"\nenv = \"BOSS\"\nscopes = [\"admin\"]\n";
    TestGateway::start_with(keys, &environment).await
}

/// A call of its administrator below `/admin/diff`.
pub(crate) async fn asked(gateway: &TestGateway, method: Method, path: &str, body: Option<Value>) -> Reply {
    let bearer = format!("Bearer {BOSS}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let body = body.map(|body| body.to_string().into_bytes());
    gateway.admin().call(method, &format!("/api/v1/admin/diff{path}"), &headers, body).await
}

/// Latencies of calls that begin every two milliseconds, in order.
async fn latencies(gateway: &TestGateway, calls: u32) -> Vec<Duration> {
    let body = json!({"model": "meadow/small", "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]});
    let begun = tokio::time::Instant::now();
    let call = |n: u32| {
        let body = &body;
        async move {
            tokio::time::sleep_until(begun + Duration::from_millis(2) * n).await;
            let due = Instant::now();
            gateway.chat(body).await.expect(200);
            due.elapsed()
        }
    };
    let mut taken = futures_util::future::join_all((0..calls).map(call)).await;
    taken.sort_unstable();
    taken
}

#[actix_web::test]
#[ignore = "takes minutes; prints figures"]
async fn a_comparison_beside_500_calls_a_second_runs_alone_and_ends_within_a_second_when_it_is_told() {
    let folder = Folder::new();
    fill(&folder.at("few"), &folder.at("many"), records()).await;
    let gateway = administered(&folder.at("many")).await;
    let asked = async |method: Method, path: &str, body: Option<Value>| asked(&gateway, method, path, body).await;
    let begin = async || asked(Method::POST, "", Some(json!({"changes": {"routing.balanced.cost": 0.1}}))).await;
    let (last, are_called) = (RefCell::new(String::new()), Cell::new(true));
    // One after the other: while one runs, the next one is refused.
    let comparing = async || {
        while are_called.get() {
            let reply = begin().await;
            if reply.status == 202 {
                reply.json()["data"]["id"].as_str().unwrap().clone_into(&mut last.borrow_mut());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let begun = async || {
        let next = async || {
            let reply = begin().await;
            (reply.status, reply.json())
        };
        let (_, begun) = eventually("a comparison may begin", next, |(status, _)| *status == 202).await;
        begun["data"]["id"].as_str().unwrap().clone_into(&mut last.borrow_mut());
    };
    let cancelled = async || {
        let path = format!("/{}", last.borrow());
        asked(Method::DELETE, &path, None).await.expect(200);
    };
    let calls = number("DIFF_SPEED_CALLS").and_then(|calls| u32::try_from(calls).ok()).unwrap_or(2_500).max(100);
    let rounds = number("DIFF_SPEED_ROUNDS").unwrap_or(5);
    latencies(&gateway, calls / 2).await;
    let (mut p99, mut changes) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..rounds {
        let alone = latencies(&gateway, calls).await;
        begun().await;
        begin().await.expect(409);
        are_called.set(true);
        let called = async {
            let taken = latencies(&gateway, calls).await;
            are_called.set(false);
            taken
        };
        let (beside, ()) = futures_util::future::join(called, comparing()).await;
        let told = Instant::now();
        cancelled().await;
        begun().await;
        assert!(told.elapsed() < Duration::from_secs(1), "{:?}", told.elapsed());
        cancelled().await;
        let [alone, beside] = [alone, beside].map(|taken| taken[taken.len() * 99 / 100].as_secs_f64());
        // In turns: what else the machine does, it does to both.
        changes.push(100.0 * (beside / alone - 1.0));
        p99[0].push(1e3 * alone);
        p99[1].push(1e3 * beside);
    }
    let [alone, beside] = p99.map(|all| quartiles(all)[1]);
    let [low, change, high] = quartiles(changes);
    eprintln!(
        "p99 of 500 calls a second, medians of {rounds} pairs: {alone:.2} ms alone, {beside:.2} ms beside a comparison; \
         pair by pair {change:+.1} % (quartiles {low:+.1} and {high:+.1})"
    );
}

/// The quartiles, the median among them.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}
