//! A disk in memory that fails when told to, and that can lose what was not synced.
//!
//! The database is a real file in a folder of its own: SQLite writes it. A commit asks this disk before and after, and fails
//! when told to: before, nothing is stored; after, all of it, and nobody knows. What was committed is durable.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::{
    directory::DATABASE,
    disk::{Disk, DiskFile, SystemDisk},
};

/// Which operations fail. Counted from the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    Nothing,
    /// This one.
    One(u64),
    /// This one and all after it.
    From(u64),
}

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Length(length) => bytes.resize(*length, 0),
            Change::Write(at, new) => {
                let end = at + new.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*at..end].copy_from_slice(new);
            }
        }
    }
}

#[derive(Default)]
struct FileState {
    kernel: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

impl FileState {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.kernel);
        self.unsynced.push(change);
    }
}

struct State {
    files: BTreeMap<String, FileState>,
    operations: u64,
    failing: Failing,
    /// Handles of earlier processes are dead.
    process: u64,
    dice: StdRng,
}

/// The disk of one process.
#[derive(Clone)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
    process: u64,
    folder: Arc<Folder>,
}

/// Where the database lies. Deleted at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("pointsman-ledger-{}-{}", std::process::id(), NEXT.fetch_add(1, SeqCst));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_database(name: &str) -> bool {
    name.starts_with(DATABASE) || name == "ledger.redb"
}

impl MemoryDisk {
    pub fn new(seed: u64) -> MemoryDisk {
        let dice = StdRng::seed_from_u64(seed);
        let state = State { files: BTreeMap::new(), operations: 0, failing: Failing::Nothing, process: 0, dice };
        MemoryDisk { state: Arc::new(Mutex::new(state)), process: 0, folder: Arc::new(Folder::new()) }
    }

    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    pub fn set_failing(&self, failing: Failing) {
        self.state.lock().failing = failing;
    }

    /// The disk as the next process finds it after this one was killed.
    pub fn killed(&self) -> MemoryDisk {
        let mut state = self.state.lock();
        state.process += 1;
        MemoryDisk { process: state.process, ..self.clone() }
    }

    /// The disk after a power cut: any part of what was not synced is lost.
    pub fn power_cut(&self) -> MemoryDisk {
        let after = self.killed();
        let state = &mut *after.state.lock();
        for file in state.files.values_mut() {
            file.kernel.clone_from(&file.durable);
            for change in file.unsynced.drain(..) {
                if state.dice.random_bool(0.5) {
                    change.apply(&mut file.kernel);
                }
            }
            file.durable.clone_from(&file.kernel);
        }
        after.clone()
    }

    pub fn names(&self) -> Vec<String> {
        self.state.lock().files.keys().cloned().collect()
    }

    fn act<T>(&self, act: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state.lock();
        self.check(&mut state)?;
        act(&mut state)
    }

    fn check(&self, state: &mut State) -> io::Result<()> {
        let operation = state.operations;
        state.operations += 1;
        let fails = match state.failing {
            Failing::Nothing => false,
            Failing::One(number) => operation == number,
            Failing::From(number) => operation >= number,
        };
        if fails || state.process != self.process { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for MemoryDisk {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.act(|state| {
            let names = state.files.keys().filter_map(|name| name.strip_prefix(&prefix));
            let names = names.filter(|name| !name.contains('/')).map(str::to_owned);
            let database = if folder.is_empty() { SystemDisk::new(&self.folder.0).list("")? } else { Vec::new() };
            Ok(names.chain(database).collect())
        })
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.act(|state| state.files.get(name).map(|file| file.kernel.clone()).ok_or_else(missing))
    }

    fn read_part(&self, name: &str, part: Range<u64>) -> io::Result<Vec<u8>> {
        let bytes = self.read(name)?;
        let (from, to) = (part.start as usize, bytes.len().min(part.end as usize));
        Ok(bytes.get(from..to).unwrap_or_default().to_vec())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = FileState { kernel: bytes.to_vec(), durable: bytes.to_vec(), unsynced: Vec::new() };
        self.act(|state| {
            state.files.insert(name.to_owned(), file);
            Ok(())
        })
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.act(|state| {
            assert!(!state.files.contains_key(name), "{name} exists");
            state.files.insert(name.to_owned(), FileState::default());
            Ok(())
        })?;
        Ok(Box::new(MemoryFile { disk: self.clone(), name: name.to_owned() }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        if is_database(name) {
            return self.act(|_| SystemDisk::new(&self.folder.0).open(name));
        }
        self.act(|state| {
            state.files.entry(name.to_owned()).or_default();
            Ok(())
        })?;
        Ok(Box::new(MemoryFile { disk: self.clone(), name: name.to_owned() }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if is_database(from) {
            return self.act(|state| {
                SystemDisk::new(&self.folder.0).rename(from, to)?;
                state.files.insert(to.to_owned(), FileState::default());
                Ok(())
            });
        }
        self.act(|state| {
            let file = state.files.remove(from).ok_or_else(missing)?;
            state.files.insert(to.to_owned(), file);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.act(|state| state.files.remove(name).map(drop).ok_or_else(missing))
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        self.act(|state| match is_database(name) {
            true => SystemDisk::new(&self.folder.0).length(name),
            false => Ok(state.files.get(name).map_or(0, |file| file.kernel.len() as u64)),
        })
    }

    fn folder(&self) -> &Path {
        &self.folder.0
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    name: String,
}

impl fmt::Debug for MemoryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl MemoryFile {
    fn act<T>(&self, act: impl FnOnce(&mut FileState) -> io::Result<T>) -> io::Result<T> {
        self.disk.act(|state| act(state.files.get_mut(&self.name).ok_or_else(missing)?))
    }
}

impl DiskFile for MemoryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state.lock();
        let alive = state.process == self.disk.process;
        let checked = self.disk.check(&mut state);
        // A failed write leaves any part of itself.
        let length = if checked.is_ok() { bytes.len() } else { state.dice.random_range(0..=bytes.len()) };
        if alive && let Some(file) = state.files.get_mut(&self.name) {
            file.change(Change::Write(offset as usize, bytes[..length].to_vec()));
        }
        checked
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.act(|file| {
            file.change(Change::Length(length as usize));
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.act(|file| {
            file.durable.clone_from(&file.kernel);
            file.unsynced.clear();
            Ok(())
        })
    }
}
