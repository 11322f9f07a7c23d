//! `ledger.durability = "sync"` and `ledger.required`, on a disk that the test holds back or lets fail.

use std::{
    fmt, io,
    ops::Range,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use pointsman_ledger::{
    directory::Directory,
    disk::{Disk, DiskFile},
    generations::{GenerationStore, LedgerBounds},
    queue::Bounds,
};
use serde_json::Value;

use crate::{
    folder::Folder,
    harness::TestGateway,
    patience::eventually,
    raw_client::RawClient,
    scripted::{Gate, Script, Upstream},
    world::{Model, World, and, ask, column, completion, error_of, held_stream, http, saying},
};

/// Long enough that an answer which does not wait would have come.
const A_WHILE: Duration = Duration::from_millis(150);

#[derive(Clone)]
struct TestDisk {
    below: Arc<dyn Disk>,
    /// Syncs of the journal wait here.
    gate: Gate,
    syncs: Arc<AtomicUsize>,
    full: Arc<AtomicBool>,
    /// Nothing can be changed, as after an error of a file system that is mounted read-only then.
    read_only: Arc<AtomicBool>,
}

impl TestDisk {
    fn check(&self) -> io::Result<()> {
        self.check_writable()?;
        if self.full.load(SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.read_only.load(SeqCst) { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    fn file(&self, name: &str, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(TestFile { disk: self.clone(), journal: name.starts_with("journal"), file })
    }
}

impl Disk for TestDisk {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.below.list(folder)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.below.read(name)
    }

    fn read_part(&self, name: &str, part: Range<u64>) -> io::Result<Vec<u8>> {
        self.below.read_part(name, part)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.check().and_then(|()| self.below.replace(name, bytes))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.check().and_then(|()| self.below.create(name)).map(|file| self.file(name, file))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.below.open(name).map(|file| self.file(name, file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_writable().and_then(|()| self.below.rename(from, to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_writable().and_then(|()| self.below.remove(name))
    }

    /// Asked before and after each commit of the database, which SQLite writes itself.
    fn length(&self, name: &str) -> io::Result<u64> {
        self.check().and_then(|()| self.below.length(name))
    }

    fn folder(&self) -> &Path {
        self.below.folder()
    }
}

struct TestFile {
    disk: TestDisk,
    journal: bool,
    file: Box<dyn DiskFile>,
}

impl fmt::Debug for TestFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl DiskFile for TestFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.check().and_then(|()| self.file.write_at(offset, bytes))
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.disk.check_writable().and_then(|()| self.file.set_length(length))
    }

    fn sync(&self) -> io::Result<()> {
        if self.journal {
            self.disk.gate.pass();
            self.disk.syncs.fetch_add(1, SeqCst);
        }
        self.disk.check().and_then(|()| self.file.sync())
    }
}

struct Stage {
    disk: TestDisk,
    store: Arc<GenerationStore>,
    gateway: TestGateway,
    _folder: Folder,
}

/// A gateway over such a disk, warm: catalog and policy are stored. `most` records wait in memory.
async fn stage(upstream: &Upstream, ledger: &str, sync: bool, most: usize) -> Stage {
    let folder = Folder::new();
    let directory = Directory::open(&folder.at("data")).unwrap();
    let gate = Gate::new();
    gate.open();
    let below = directory.disk();
    let disk = TestDisk { below, gate, syncs: Arc::default(), full: Arc::default(), read_only: Arc::default() };
    let queue = Bounds { items: most, bytes: 64 << 20 };
    let bounds = LedgerBounds { max_age: Duration::from_secs(86_400), max_bytes: 1 << 30, sync, queue };
    let store = Arc::new(GenerationStore::open_on(Arc::new(disk.clone()), directory, bounds).unwrap());
    let world = World::new()
        .provider("acme", upstream.address())
        .model(&Model::new("acme/small").at("acme", "0.000001", "0.000001"))
        .with(ledger);
    let gateway = TestGateway::start_over(world.toml(), world.environment(), Arc::clone(&store)).await;
    gateway.chat(&ask("acme/small")).await.expect(200);
    Stage { disk, store, gateway, _folder: folder }
}

fn streamed() -> Value {
    and(ask("acme/small"), serde_json::json!({"stream": true}))
}

#[actix_web::test]
async fn with_sync_a_plain_answer_waits_until_its_record_is_on_the_disk_and_others_are_served_meanwhile() {
    let upstream = saying("Over the hills.");
    let Stage { disk, gateway, .. } = stage(&upstream, "", true, 1_000).await;
    disk.gate.close();
    let mut client = RawClient::chat(&gateway, &ask("acme/small")).await;
    let called = async || upstream.requests().len();
    eventually("the provider has answered", called, |calls| *calls == 2).await;
    assert!(!client.hears_within(A_WHILE).await, "{}", client.text());
    // The thread that serves is free.
    gateway.get("/api/v1/models").await.expect(200);
    disk.gate.open();
    client.until("Over the hills.").await;
}

#[actix_web::test]
async fn with_sync_the_tokens_of_a_stream_flow_and_only_its_end_waits_for_the_disk() {
    let gate = Gate::new();
    let upstream = Upstream::start([
        Script::new().request().send(http(200, &completion("Warm."))).fin(),
        held_stream(&["One", " two", " three"], &gate),
    ]);
    let Stage { disk, gateway, .. } = stage(&upstream, "", true, 1_000).await;
    disk.gate.close();
    let mut client = RawClient::chat(&gateway, &streamed()).await;
    client.until("One").await;
    assert!(!client.text().contains("[DONE]"));
    gate.open();
    while client.hears_within(A_WHILE).await {}
    assert!(!client.text().contains("[DONE]"), "{}", client.text());
    disk.gate.open();
    client.until("[DONE]").await;
    assert!(client.text().contains(" three"));
}

#[actix_web::test]
async fn with_sync_many_answers_share_one_sync() {
    let upstream = saying("Yes.");
    let Stage { disk, gateway, store, .. } = stage(&upstream, "", true, 1_000).await;
    disk.gate.close();
    let before = disk.syncs.load(SeqCst);
    let body = ask("acme/small");
    let calls = join_all((0..40).map(|_| gateway.chat(&body)));
    let recorded = async {
        let entries = async || store.entries().size().unwrap().entries;
        eventually("all are recorded", entries, |entries| *entries == 41).await;
        disk.gate.open();
    };
    let (replies, ()) = futures_util::future::join(calls, recorded).await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    // One was under way, and one was made for those who came meanwhile; the timer may add some.
    let syncs = disk.syncs.load(SeqCst) - before;
    assert!(syncs <= 10, "{syncs}");
}

#[actix_web::test]
async fn with_sync_a_disk_that_refuses_does_not_keep_answers_back() {
    let Stage { disk, gateway, store, .. } = stage(&saying("Yes."), "", true, 1_000).await;
    disk.full.store(true, SeqCst);
    gateway.chat(&ask("acme/small")).await.expect(200);
    assert!(store.entries().status().trouble.is_some());
    disk.full.store(false, SeqCst);
    let status = async || store.entries().status();
    eventually("it is stored", status, |status| status.trouble.is_none() && status.unjournaled == 0).await;
    assert_eq!(column(&gateway.get("/api/v1/generations").await.expect(200)["data"], "status").len(), 2);
}

#[actix_web::test]
async fn a_disk_that_becomes_read_only_stops_no_call_is_told_by_health_and_metrics_and_loses_nothing() {
    let stage = stage(&saying("Yes."), "", false, 1_000).await;
    let Stage { disk, gateway, store, .. } = &stage;
    disk.read_only.store(true, SeqCst);
    let answer = gateway.chat(&ask("acme/small")).await.expect(200);
    for _ in 0..4 {
        gateway.chat(&ask("acme/small")).await.expect(200);
    }
    let ledger = async || gateway.get("/health").await.expect(200)["ledger"].clone();
    let told = eventually("health says so", ledger, |ledger| ledger["state"] == "degraded").await;
    assert!(told["since"].is_string() && told["queued"].as_u64() >= Some(5), "{told}");
    let failing = async || gateway.get("/metrics").await.text().contains("\npointsman_ledger_failing 1\n");
    eventually("metrics say so", failing, |failing| *failing).await;
    let path = format!("/api/v1/generation?id={}", answer["id"].as_str().unwrap());
    gateway.get(&path).await.expect(200);

    disk.read_only.store(false, SeqCst);
    eventually(
        "all is on the disk",
        async || store.entries().status(),
        |status| status.trouble.is_none() && status.queued == 0,
    )
    .await;
    assert_eq!(ledger().await, serde_json::json!({ "state": "ok", "queued": 0, "dropped": 0 }));
    eventually("metrics say that it works", failing, |failing| !*failing).await;
    assert_eq!(column(&gateway.get("/api/v1/generations").await.expect(200)["data"], "id").len(), 6);
}

#[actix_web::test]
async fn a_required_ledger_refuses_calls_while_the_disk_fails_and_memory_is_full_and_loses_nothing() {
    let stage = stage(&saying("Yes."), "[ledger]\nrequired = true", false, 12).await;
    let Stage { disk, gateway, store, .. } = &stage;
    disk.full.store(true, SeqCst);
    let (mut answered, mut refused) = (1, None);
    for _ in 0..20 {
        let reply = gateway.chat(&ask("acme/small")).await;
        match reply.status {
            200 => answered += 1,
            _ => refused = Some(reply),
        }
    }
    let refused = refused.expect("a refusal");
    assert_eq!(refused.header("retry-after"), Some("2"));
    let error = error_of(&refused, 503);
    assert_eq!(error["metadata"]["reason"], "ledger_unavailable", "{error}");
    assert!(error["message"].as_str().unwrap().contains("the disk of its ledger fails"), "{error}");
    assert!((8..=13).contains(&answered), "{answered}");
    assert_eq!(store.entries().status().dropped, 0);

    disk.full.store(false, SeqCst);
    let healed = Instant::now();
    eventually("it takes calls again", async || gateway.chat(&ask("acme/small")).await.status, |status| *status == 200)
        .await;
    answered += 1;
    eventually("all is on the disk", async || store.entries().status().unjournaled, |left| *left == 0).await;
    assert!(healed.elapsed() < Duration::from_secs(10), "{:?}", healed.elapsed());
    let listed = gateway.get("/api/v1/generations?limit=200").await.expect(200);
    assert_eq!(listed["data"].as_array().unwrap().len(), answered);
    let status = store.entries().status();
    assert_eq!((status.dropped, status.trouble), (0, None));
}

#[actix_web::test]
async fn without_required_calls_are_answered_and_what_is_lost_is_counted() {
    let stage = stage(&saying("Yes."), "", false, 12).await;
    let Stage { disk, gateway, store, .. } = &stage;
    disk.full.store(true, SeqCst);
    for _ in 0..20 {
        gateway.chat(&ask("acme/small")).await.expect(200);
    }
    assert!(store.entries().status().dropped >= 7, "{:?}", store.entries().status());
}
