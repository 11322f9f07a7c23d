//! Recorded traffic: each record of a ledger, and of an export of it, is handed on once.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use pointsman_base::clock;
use pointsman_domain::{Generation, GenerationId};

use crate::{
    generations::{GenerationStore, LedgerBounds},
    record::tests::any_generation,
    settings::Settings,
    traffic::{Traffic, TrafficRecord, Wanted, export},
};

/// The names of all records, read by two threads.
fn names(path: &Path) -> BTreeSet<String> {
    let take = |names: &mut Vec<String>, record: TrafficRecord| names.push(record.name);
    let never = AtomicBool::new(false);
    let (names, reading) = Traffic::open(path).unwrap().fold(&Wanted::default(), 2, &never, Vec::new, take).unwrap();
    assert_eq!((reading.records, reading.unreadable), (100, 0));
    names.concat().into_iter().collect()
}

#[test]
fn every_record_is_handed_on_once_however_many_catalogs_there_are() {
    let folder = std::env::temp_dir().join(format!("pointsman-traffic-{}", std::process::id()));
    let queue = Settings::default().queue;
    let bounds = LedgerBounds { max_age: Duration::from_secs(86_400), max_bytes: 1 << 30, sync: false, queue };
    let store = GenerationStore::open(&folder, bounds).unwrap();
    let (mut recorder, now_ms) = (store.recorder(0), clock::unix_millis());
    let mut ids = BTreeSet::new();
    for number in 0..100 {
        let id = GenerationId::new(now_ms as u64 / 1_000, [number, 2, 3]);
        ids.insert(id.as_str().to_owned());
        // Each has a catalog and a policy of its own.
        let generation = Generation { id, created_ms: now_ms, key: number % 3, ..any_generation(number * 1_000_000) };
        drop(recorder.record(&generation, None));
    }
    recorder.write();
    store.entries().flush(Instant::now() + Duration::from_secs(30)).unwrap();
    assert_eq!(names(&folder), ids);
    let file = folder.join("traffic.pmx");
    let exported = export(&Traffic::open(&folder).unwrap(), &Wanted::default(), &file, now_ms).unwrap();
    assert_eq!((exported.records, exported.drawn_from), (100, 100));
    assert_eq!(names(&file).len(), 100);
    drop((recorder, store));
    std::fs::remove_dir_all(folder).unwrap();
}
