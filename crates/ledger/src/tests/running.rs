//! The store as it runs: threads, real files.

use std::{
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::memory_disk::MemoryDisk;
use crate::{
    directory::Directory,
    entry::{Entry, Facts, Id},
    fault::Fault,
    handle::{Recorder, Store},
    packed::Packed,
    page::Query,
    settings::Settings,
};

/// A directory of its own, deleted at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pointsman-store-{}-{}", std::process::id(), NEXT.fetch_add(1, SeqCst));
        Folder(std::env::temp_dir().join(name))
    }

    fn open(&self) -> Store {
        open(Directory::open(&self.0).unwrap(), Settings::default())
    }
}

/// A file system of 64 MB of its own in a folder, as root can mount it.
struct SmallDisk(Folder);

impl SmallDisk {
    fn mount() -> Result<SmallDisk, String> {
        let folder = Folder::new();
        std::fs::create_dir_all(&folder.0).unwrap();
        let mut mount = std::process::Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(&folder.0).output();
        let mounted = mounted.map_err(|error| error.to_string())?;
        if mounted.status.success() {
            return Ok(SmallDisk(folder));
        }
        Err(String::from_utf8_lossy(&mounted.stderr).into_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").args(["-l"]).arg(&self.0.0).status();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn entry(number: u64) -> Entry {
    let mut tail = [0; 24];
    tail[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    static START_MS: LazyLock<i64> = LazyLock::new(pointsman_base::clock::unix_millis);
    let created_ms = *START_MS;
    Entry {
        id: Id::new((created_ms / 1_000) as u64, tail),
        created_ms,
        facts: Facts::default(),
        bytes: vec![number as u8; 300],
    }
}

fn open(directory: Directory, settings: Settings) -> Store {
    Store::open(directory.disk(), directory, settings).unwrap()
}

/// An entry of sixteen kilobytes that compression makes no smaller.
fn incompressible(number: u64) -> Entry {
    let mut bytes = vec![0; 16_000];
    StdRng::seed_from_u64(number).fill(&mut bytes[..]);
    Entry { bytes, ..entry(number) }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

#[test]
fn a_second_holder_of_the_directory_is_refused_and_told_what_to_do() {
    let folder = Folder::new();
    let store = folder.open();
    let refused = Directory::open(&folder.0).unwrap_err();
    assert!(matches!(refused, Fault::InUse(_)), "{refused}");
    assert!(refused.to_string().contains("in use by another process"), "{refused}");
    let mode = std::fs::metadata(&folder.0).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    drop(store);
    Directory::open(&folder.0).unwrap();
}

#[test]
fn what_is_recorded_is_seen_at_once_and_after_a_restart_without_flush() {
    let folder = Folder::new();
    let entries: Vec<Entry> = (1..=1_000).map(entry).collect();
    {
        let store = folder.open();
        let workers: Vec<_> = entries
            .chunks(500)
            .enumerate()
            .map(|(worker, part)| (store.recorder(worker as u16), part.to_vec()))
            .collect();
        thread::scope(|scope| {
            for (mut recorder, part) in workers {
                let store = &store;
                scope.spawn(move || {
                    for entry in part {
                        recorder.record(Packed::new(&entry), None).unwrap();
                        assert_eq!(store.get(&entry.id).unwrap().as_ref(), Some(&entry));
                    }
                });
            }
        });
        let mut recorder = store.recorder(2);
        recorder.put_blob([7; 32], Arc::from(&b"catalog"[..]));
        recorder.write();
    }
    let store = folder.open();
    assert!(store.status().trouble.is_none());
    assert!(entries.iter().all(|entry| store.get(&entry.id).unwrap().as_ref() == Some(entry)));
    assert_eq!(store.blob(&[7; 32]).unwrap().as_deref(), Some(&b"catalog"[..]));
    let page = store.page(&Query { limit: 5_000, blocks: 5_000, ..Query::default() }).unwrap();
    assert_eq!(page.entries.len(), 1_000);
}

#[test]
fn a_flush_stores_everything_and_leaves_no_segment() {
    let folder = Folder::new();
    let store = folder.open();
    let mut recorder = store.recorder(0);
    for number in 1..=700 {
        recorder.record(Packed::new(&entry(number)), None).unwrap();
    }
    drop(recorder);
    store.flush(soon()).unwrap();
    assert_eq!(store.status().queued, 0);
    drop(store);
    let store = folder.open();
    assert_eq!(store.status().recovery.entries, 0);
    drop(store);
    assert_eq!(std::fs::read_dir(folder.0.join("journal")).unwrap().count(), 0);
}

#[test]
fn an_entry_that_must_be_durable_is_confirmed_without_waiting_for_the_interval() {
    let folder = Folder::new();
    let settings = Settings { sync_within: Duration::from_secs(3_600), ..Settings::default() };
    let store = open(Directory::open(&folder.0).unwrap(), settings);
    let mut recorder = store.recorder(0);
    for number in 1..=5 {
        let position = recorder.record(Packed::new(&entry(number)), None).unwrap();
        recorder.durable(position.clone()).blocking_recv().unwrap().unwrap();
        assert!(position.segment.is_synced(position.to));
    }
}

/// A store that neither syncs nor settles entries of its own accord.
fn lazy(disk: &MemoryDisk, place: &Folder) -> Store {
    let far = Duration::from_secs(3_600);
    let settings = Settings { sync_within: far, settle: far, ..Settings::default() };
    Store::open(Arc::new(disk.clone()), Directory::open(&place.0).unwrap(), settings).unwrap()
}

#[test]
fn entries_of_one_turn_are_written_with_one_call_and_then_survive_a_kill() {
    let (disk, places) = (MemoryDisk::new(5), [Folder::new(), Folder::new(), Folder::new()]);
    let store = lazy(&disk, &places[0]);
    let mut recorder = store.recorder(0);
    recorder.record(Packed::new(&entry(1)), None).unwrap();
    let entries: Vec<Entry> = (2..=9).map(entry).collect();
    entries.iter().for_each(|entry| _ = recorder.add(Packed::new(entry), None));
    assert!(entries.iter().all(|entry| store.get(&entry.id).unwrap().is_none()));
    let before = disk.operations();
    recorder.write();
    assert_eq!(disk.operations() - before, 1);
    assert!(entries.iter().all(|entry| store.get(&entry.id).unwrap().as_ref() == Some(entry)));
    let killed = disk.killed();
    let after = lazy(&killed, &places[1]);
    assert!(entries.iter().all(|entry| after.get(&entry.id).unwrap().as_ref() == Some(entry)));
    // What waits when its worker ends is written, too.
    let mut recorder = after.recorder(0);
    recorder.add(Packed::new(&entry(10)), None);
    drop(recorder);
    let last = lazy(&killed.killed(), &places[2]);
    assert_eq!(last.get(&entry(10).id).unwrap().map(|entry| entry.id), Some(entry(10).id));
}

#[test]
fn an_entry_too_long_for_the_journal_is_found_and_the_others_of_its_turn_survive_a_kill() {
    let (disk, places) = (MemoryDisk::new(5), [Folder::new(), Folder::new()]);
    let store = lazy(&disk, &places[0]);
    let mut recorder = store.recorder(0);
    let mut entries: Vec<Entry> = (1..=3).map(entry).collect();
    entries[1].bytes = vec![0; 17 * 1024 * 1024];
    entries.iter().for_each(|entry| _ = recorder.add(Packed::new(entry), None));
    recorder.write();
    assert!(entries.iter().all(|entry| store.get(&entry.id).unwrap().as_ref() == Some(entry)));
    // The long one waits in memory for the database, which may have it before the kill, or not.
    let after = lazy(&disk.killed(), &places[1]);
    for entry in [&entries[0], &entries[2]] {
        assert_eq!(after.get(&entry.id).unwrap().as_ref(), Some(entry));
    }
}

#[test]
fn what_was_confirmed_as_durable_survives_a_power_cut() {
    let (disk, places) = (MemoryDisk::new(5), [Folder::new(), Folder::new()]);
    let store = lazy(&disk, &places[0]);
    let mut recorders = [store.recorder(0), store.recorder(1)];
    let entries: Vec<Entry> = (1..=40).map(entry).collect();
    let mut waiting = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let recorder = &mut recorders[at % 2];
        let position = recorder.record(Packed::new(entry), None).unwrap();
        waiting.push(recorder.durable(position));
    }
    waiting.into_iter().for_each(|waiter| waiter.blocking_recv().unwrap().unwrap());
    let store = lazy(&disk.power_cut(), &places[1]);
    assert!(entries.iter().all(|entry| store.get(&entry.id).unwrap().as_ref() == Some(entry)));
}

#[test]
fn a_file_system_that_is_full_stops_nothing_and_has_every_entry_soon_after_it_has_room() {
    let disk = match SmallDisk::mount() {
        Ok(disk) => disk,
        Err(why) => {
            let instead = "'a_file_that_may_not_grow_stores_nothing_and_says_that_the_disk_is_full' stands in for it";
            return writeln!(
                std::io::stderr(),
                "NOT RUN on a full file system, none can be mounted ({why}): {instead}"
            )
            .unwrap();
        }
    };
    // Six megabytes are left.
    let ballast = disk.0.0.join("ballast");
    std::fs::write(&ballast, vec![1; 58 * 1024 * 1024]).unwrap();
    let store = disk.0.open();
    let mut recorder = store.recorder(0);
    let record = |recorder: &mut Recorder, number| drop(recorder.record(Packed::new(&incompressible(number)), None));
    (0..20).for_each(|number| record(&mut recorder, number));
    store.flush(soon()).unwrap();
    (20..600).for_each(|number| record(&mut recorder, number));
    assert!(store.flush(Instant::now() + Duration::from_secs(1)).is_err(), "nine megabytes do not fit");
    let status = store.status();
    let reason = &status.trouble.as_ref().unwrap().reason;
    assert!(reason.contains("No space left on device"), "{reason}");
    assert!(status.unjournaled > 100 && status.dropped == 0, "{status:?}");
    for number in [3, 599] {
        assert_eq!(store.get(&entry(number).id).unwrap(), Some(incompressible(number)), "readers go on");
    }
    std::fs::remove_file(ballast).unwrap();
    store.flush(soon()).unwrap();
    // Everything may be stored before the log is written back, which is tried again by the clock.
    let end = soon();
    while store.status().trouble.is_some() && Instant::now() < end {
        std::thread::yield_now();
    }
    let status = store.status();
    assert!(status.trouble.is_none() && status.dropped == 0, "{status:?}");
    (0..600).for_each(|number| assert_eq!(store.get(&entry(number).id).unwrap(), Some(incompressible(number))));
    assert_eq!(store.size().unwrap().entries, 600);
    assert!(store.contents().unwrap().1.check().unwrap().is_empty());
}
