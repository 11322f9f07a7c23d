//! How fast recorded decisions are made again. Prints figures, and runs only when it is asked for:
//! `DIFF_SPEED_RECORDS=1000000 cargo test --release -p pointsman --test it diff_speed -- --ignored --nocapture`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pointsman_domain::{Generation, GenerationId};
use pointsman_ledger::{
    generations::{GenerationStore, LedgerBounds},
    page::Query,
    queue::Bounds,
};

use crate::{
    diff_command::{diff, recorded},
    folder::Folder,
};

/// Peak of the memory of a process and its threads.
fn peak_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[actix_web::test]
#[ignore = "takes minutes; prints figures"]
async fn a_million_decisions_are_made_again() {
    let records: u64 = std::env::var("DIFF_SPEED_RECORDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let folder = Folder::new();
    let (few, many) = (folder.at("few"), folder.at("many"));
    recorded(&few).await;
    let templates = GenerationStore::inspect(&few).unwrap();
    let templates = templates.page(&Query { limit: 100, blocks: usize::MAX, ..Query::default() }).unwrap().generations;
    let queue = Bounds { items: 65_536, bytes: 512 << 20 };
    let bounds = LedgerBounds { max_age: Duration::from_secs(86_400), max_bytes: 16 << 30, sync: false, queue };
    let store = GenerationStore::open(&many, bounds).unwrap();
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
}
