//! Recorded traffic: each record of a ledger, and of an export of it, is handed on once.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use pointsman_base::clock;
use pointsman_domain::{ExclusionDetail, Generation, GenerationId};

use crate::{
    database::groups,
    entry::Filter,
    fault::Fault,
    generations::{GenerationStore, LedgerBounds},
    record::tests::any_generation,
    settings::Settings,
    traffic::{Reading, Traffic, TrafficRecord, Wanted, export},
};

/// The names of all records, read by two threads.
fn names(path: &Path) -> BTreeSet<String> {
    let take = |names: &mut Vec<String>, record: TrafficRecord| names.push(record.name);
    let never = AtomicBool::new(false);
    let (names, reading) = Traffic::open(path).unwrap().fold(&Wanted::default(), 2, &never, Vec::new, take).unwrap();
    assert_eq!((reading.records, reading.unreadable), (100, 0));
    names.concat().into_iter().collect()
}

/// A ledger that holds these.
fn ledger(name: &str, generations: impl Iterator<Item = Generation>) -> (PathBuf, GenerationStore) {
    let folder = std::env::temp_dir().join(format!("pointsman-traffic-{name}-{}", std::process::id()));
    let queue = Settings::default().queue;
    let bounds = LedgerBounds { max_age: Duration::from_secs(86_400), max_bytes: 1 << 30, sync: false, queue };
    let store = GenerationStore::open(&folder, bounds).unwrap();
    let mut recorder = store.recorder(0);
    generations.for_each(|generation| drop(recorder.record(&generation, None)));
    recorder.write();
    store.entries().flush(Instant::now() + Duration::from_secs(30)).unwrap();
    drop(recorder);
    (folder, store)
}

/// What is read of the records until this time.
fn read_until(traffic: &Traffic, until_ms: i64) -> Result<Reading, Fault> {
    let wanted = Wanted { filter: Filter { until_ms: Some(until_ms), ..Filter::default() }, ..Wanted::default() };
    Ok(traffic.fold(&wanted, 1, &AtomicBool::new(false), || (), |(), _| ())?.1)
}

#[test]
fn parts_of_an_export_that_hold_no_record_of_the_time_are_read_once() {
    let now_ms = clock::unix_millis();
    let template = any_generation(7);
    let generation = |number: u64| Generation {
        id: GenerationId::new(now_ms as u64 / 1_000, [number, 2, 3]),
        created_ms: now_ms - if number < 512 { 5_000 } else { 0 },
        ..template.clone()
    };
    let (folder, store) = ledger("parts", (0..1_024).map(generation));
    let file = folder.join("traffic.pmx");
    export(&Traffic::open(&folder).unwrap(), &Wanted::default(), &file, now_ms).unwrap();
    let traffic = Traffic::open(&file).unwrap();
    assert_eq!(read_until(&traffic, now_ms).unwrap().records, 1_024);
    // The later part, which is the last one before the summary, can no longer be read.
    let mut bytes = std::fs::read(&file).unwrap();
    let end = bytes.len() - 400;
    bytes[end - 2_000..end].fill(0);
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(read_until(&traffic, now_ms - 1).unwrap(), Reading { records: 512, unreadable: 0 });
    assert!(read_until(&traffic, now_ms).map_or(true, |reading| reading.unreadable > 0), "but here it is read");
    drop(store);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_record_is_handed_on_once_however_many_catalogs_there_are() {
    let now_ms = clock::unix_millis();
    let id = |number| GenerationId::new(now_ms as u64 / 1_000, [number, 2, 3]);
    let ids: BTreeSet<String> = (0..100).map(|number| id(number).as_str().to_owned()).collect();
    // Each has a catalog and a policy of its own.
    let generation = |number: u64| Generation {
        id: id(number),
        created_ms: now_ms,
        key: number % 3,
        ..any_generation(number * 1_000_000)
    };
    let (folder, store) = ledger("each", (0..100).map(generation));
    assert_eq!(names(&folder), ids);
    let file = folder.join("traffic.pmx");
    let exported = export(&Traffic::open(&folder).unwrap(), &Wanted::default(), &file, now_ms).unwrap();
    assert_eq!((exported.records, exported.drawn_from), (100, 100));
    assert_eq!(names(&file).len(), 100);
    drop(store);
    std::fs::remove_dir_all(folder).unwrap();
}

/// A record with a canary in each of its texts that come from a caller or name one.
fn with_canaries() -> Generation {
    let has_all = |one: &Generation| {
        let (needs, excluded) = (&one.decision.request.needs, &one.decision.excluded);
        needs.native.is_some() && !needs.lost.is_empty() && !excluded.is_empty() && one.trace_parent.is_some()
    };
    let mut one = (0..).map(|seed| any_generation(seed * 1_000_000)).find(has_all).unwrap();
    let mut number = 0;
    let mut canary = || {
        number += 1;
        format!("canary-{number}")
    };
    (one.owner, one.key, one.team) = (0x00ca_2a27, 0x00ca_2a28, Some(canary().into()));
    (one.request_id, one.requested_model) = (canary().into(), canary().into());
    (one.upstream_id, one.native_finish_reason) = (Some(canary()), Some(canary()));
    (one.dropped_parameters, one.emulated_parameters) = (vec![canary().into()], vec![canary().into()]);
    (one.external_user, one.session_id, one.trace) = (Some(canary()), Some(canary()), Some(canary()));
    one.tags = vec![(canary(), canary())];
    (one.user_agent, one.http_referer, one.origin) = (Some(canary()), Some(canary()), Some(canary()));
    let decision = Arc::make_mut(&mut one.decision);
    let needs = &mut decision.request.needs;
    needs.native.iter_mut().for_each(|native| native.field = canary().into());
    needs.lost.iter_mut().for_each(|lost| lost.name = canary().into());
    decision.excluded.iter_mut().for_each(|excluded| excluded.detail = ExclusionDetail::Lacks(canary().into()));
    one
}

/// The records of a file of any kind, as text.
fn shown(path: &Path) -> Vec<Generation> {
    let take = |all: &mut Vec<Generation>, record: TrafficRecord| all.push(record.generation);
    let never = AtomicBool::new(false);
    Traffic::open(path).unwrap().fold(&Wanted::default(), 1, &never, Vec::new, take).unwrap().0.concat()
}

/// What the frames of an export hold, expanded.
fn expanded(bytes: &[u8]) -> Vec<u8> {
    let (mut rest, mut all) = (&bytes[16..], Vec::new());
    while let Some((&[kind, ref length @ ..], behind)) = rest.split_first_chunk::<5>() {
        let (content, next) = behind.split_at(u32::from_le_bytes(*length) as usize);
        match kind {
            b'v' => all.extend(groups::expand(&content[32..]).unwrap()),
            b'r' => all.extend(groups::expand(content).unwrap()),
            _ => all.extend(content),
        }
        rest = next;
    }
    all
}

#[test]
fn no_text_that_a_caller_sent_or_that_names_one_is_in_an_export() {
    let now_ms = clock::unix_millis();
    let id = GenerationId::new(now_ms as u64 / 1_000, [1, 2, 3]);
    let named = Generation { id, created_ms: now_ms, ..with_canaries() };
    let (folder, store) = ledger("canaries", [named].into_iter());
    let texts = format!("{:?}", shown(&folder));
    assert!(texts.matches("canary-").count() >= 18, "the ledger itself has them: {texts}");
    let file = folder.join("traffic.pmx");
    export(&Traffic::open(&folder).unwrap(), &Wanted::default(), &file, now_ms).unwrap();
    let stripped = shown(&file);
    assert!(!format!("{stripped:?}").contains("canary"), "{stripped:?}");
    let one = &stripped[0];
    assert_eq!((one.owner, one.key, &one.team, &one.trace_parent), (0, 0, &None, &None));
    let bytes = expanded(&std::fs::read(&file).unwrap());
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(one.catalog.providers.iter().any(|provider| has(provider.slug.as_str().as_bytes())), "it can be searched");
    assert!(!has(b"canary") && !has(id.as_str().as_bytes()));
    drop(store);
    std::fs::remove_dir_all(folder).unwrap();
}
