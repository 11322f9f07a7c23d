//! What a stored record of eight candidates costs: `cargo bench --bench record`. Says how many bytes it takes, too: alone
//! and in a compressed group, where statistics are published with every request, or with every tenth. The last figure is
//! that of the beginning of a stream, and of a plain call that runs longer, in the journal: a record and a `write` of its own.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench may stop at the first surprise"
)]

#[path = "store/generations.rs"]
mod generations;

use std::{collections::HashMap, hint::black_box, sync::Arc, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use pointsman_domain::{Catalog, Generation, RoutingPolicy};
use pointsman_ledger::{
    database::groups::{ENTRIES, LEVEL},
    generations::{GenerationStore, LedgerBounds},
    record::{self, ContentHash, RecordWriter, Versions},
    settings::Settings,
};

/// As in the server.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Different records.
const BLOCK: usize = 256;

/// The versions of one catalog and one policy.
struct Both {
    catalog: HashMap<ContentHash, Arc<Catalog>>,
    policy: HashMap<ContentHash, Arc<RoutingPolicy>>,
}

impl Versions for Both {
    fn catalog(&self, hash: ContentHash) -> Option<Arc<Catalog>> {
        self.catalog.get(&hash).cloned()
    }

    fn policy(&self, hash: ContentHash) -> Option<Arc<RoutingPolicy>> {
        self.policy.get(&hash).cloned()
    }
}

fn written(writer: &mut RecordWriter, generation: &Generation) -> Vec<u8> {
    let mut bytes = Vec::new();
    writer.append(generation, &mut bytes);
    bytes
}

fn records(c: &mut Criterion) {
    for publish_every in [1, 10] {
        let generations = generations::recorded(BLOCK, publish_every);
        let mut writer = RecordWriter::default();
        let records: Vec<Vec<u8>> = generations.iter().map(|generation| written(&mut writer, generation)).collect();
        let alone = records.iter().map(Vec::len).sum::<usize>() / records.len();
        let groups =
            records.chunks(ENTRIES).map(|group| zstd::bulk::compress(&group.concat(), LEVEL).expect("compressed"));
        let compressed = groups.map(|group| group.len()).sum::<usize>() / records.len();
        eprintln!(
            "statistics published every {publish_every}: {} candidates, {alone} bytes a record, {compressed} in a group",
            generations[0].decision.candidates.len()
        );
    }
    let generations = generations::recorded(BLOCK, 1);
    let mut writer = RecordWriter::default();
    let [catalog, policy] = writer.append(&generations[0], &mut Vec::new());
    let both = Both {
        catalog: [(catalog.expect("new").hash, Arc::clone(&generations[0].catalog))].into(),
        policy: [(policy.expect("new").hash, Arc::clone(&generations[0].policy))].into(),
    };
    let mut next = (0..BLOCK).cycle();
    c.bench_function("record/write", |b| {
        b.iter(|| written(&mut writer, black_box(&generations[next.next().expect("endless")])))
    });
    let records: Vec<Vec<u8>> = generations.iter().map(|generation| written(&mut writer, generation)).collect();
    c.bench_function("record/read", |b| {
        b.iter(|| record::read(black_box(&records[next.next().expect("endless")]), &both).expect("a record"));
    });
    let directory = std::env::temp_dir().join(format!("pointsman-bench-record-{}", std::process::id()));
    let bounds = LedgerBounds {
        max_age: Duration::from_secs(86_400),
        max_bytes: 1 << 30,
        sync: false,
        queue: Settings::default().queue,
    };
    let store = GenerationStore::open(&directory, bounds).expect("a ledger");
    let mut recorder = store.recorder(0);
    c.bench_function("journal/begin", |b| {
        b.iter(|| recorder.start(black_box(&generations[next.next().expect("endless")])).expect("a journal"));
    });
    drop((recorder, store));
    std::fs::remove_dir_all(directory).expect("removed");
}

criterion_group!(benches, records);
criterion_main!(benches);
