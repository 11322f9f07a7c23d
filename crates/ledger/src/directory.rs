//! The directory of the store: one process at a time, and a format number.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
};

use crate::{
    accounts,
    disk::{self, Disk, SystemDisk},
    fault::Fault,
};

/// Name of the database.
pub const DATABASE: &str = "ledger.db";
/// Its write-ahead log.
pub const DATABASE_WAL: &str = "ledger.db-wal";
/// The index of that log in memory that programs share.
const DATABASE_SHM: &str = "ledger.db-shm";
/// The database of an engine before the first release, which no version reads.
const OLD_DATABASE: &str = "ledger.redb";
/// Folder of the journal segments.
pub const JOURNAL: &str = "journal";
/// Number of the layout that this version writes. It rises with everything that a version of a lower number would misread: such a
/// version sets the files aside.
pub const FORMAT: u32 = 1;
/// File with the name of the replica that the directory belongs to.
pub const NODE_FILE: &str = "node";
const FORMAT_FILE: &str = "format";
const LOCK_FILE: &str = "lock";

/// A directory held by this process until the value is dropped.
#[derive(Debug)]
pub struct Directory {
    disk: SystemDisk,
    /// The kernel gives the lock up with the file, also when the process is killed.
    lock: File,
}

impl Directory {
    /// Makes the directory if needed, for its owner only, and locks it. Blocks for a few system calls.
    ///
    /// A full disk is no failure here, and neither is one that fails later: the store is degraded then and tries again.
    ///
    /// # Errors
    /// Another process holds the directory, or it cannot be made or written.
    pub fn open(path: &Path) -> Result<Directory, Fault> {
        disk::make_folder(path)?;
        Directory::lock(path, open_lock(path)?)
    }

    fn lock(path: &Path, lock: File) -> Result<Directory, Fault> {
        match lock.try_lock() {
            Ok(()) => Ok(Directory { disk: SystemDisk::new(path), lock }),
            Err(TryLockError::WouldBlock) => Err(Fault::InUse(path.display().to_string())),
            Err(TryLockError::Error(error)) => Err(Fault::Disk(error)),
        }
    }

    /// Locks a directory that holds a ledger, also one that cannot be written, and makes nothing.
    ///
    /// # Errors
    /// There is no ledger, a newer version wrote it, another process holds it, or the disk refuses.
    pub fn open_existing(path: &Path) -> Result<Directory, Fault> {
        let disk = SystemDisk::new(path);
        let format = match disk.read(FORMAT_FILE) {
            Ok(bytes) => parse_format(&bytes)?,
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
                return Err(Fault::NoLedger(path.display().to_string()));
            }
            Err(error) => return Err(Fault::Disk(error)),
        };
        if format > FORMAT {
            return Err(Fault::Newer(path.display().to_string()));
        }
        Directory::lock(path, open_lock(path).or_else(|error| File::open(path.join(LOCK_FILE)).map_err(|_| error))?)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        self.disk.root()
    }

    /// The files of the directory.
    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.disk.clone())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A process that is just being started has a copy of the open file, and would hold the lock until it runs its program.
        let _ = self.lock.unlock();
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path.join(LOCK_FILE))
}

/// What [`check_format`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Format {
    /// Nothing stored yet; the number has been written.
    Fresh,
    /// Written in the layout of this version.
    Current,
    /// Written by a newer version. Its files now lie in this folder, whole.
    SetAside(String),
    /// Written by an earlier engine. Its database now lies in this folder.
    OldSetAside(String),
}

/// Reads the format number, and writes it where there is none. Files of a newer version are moved into a folder of their own.
///
/// # Errors
/// The disk refuses, or the number cannot be read.
pub fn check_format(disk: &dyn Disk, now_ms: i64) -> Result<Format, Fault> {
    let stored = match disk.read(FORMAT_FILE) {
        Ok(bytes) => Some(parse_format(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Fault::Disk(error)),
    };
    let found = match stored {
        Some(number) if number > FORMAT => Format::SetAside(set_aside_all(disk, now_ms)?),
        _ if disk.list("")?.iter().any(|name| name == OLD_DATABASE) => {
            Format::OldSetAside(set_aside(disk, OLD_DATABASE, now_ms)?)
        }
        Some(FORMAT) => return Ok(Format::Current),
        _ => Format::Fresh,
    };
    disk.replace(FORMAT_FILE, FORMAT.to_string().as_bytes())?;
    Ok(found)
}

fn parse_format(bytes: &[u8]) -> Result<u32, Fault> {
    let text = std::str::from_utf8(bytes).unwrap_or_default().trim();
    text.parse().map_err(|_| Fault::Damaged(format!("the file \"{FORMAT_FILE}\" must hold a number")))
}

/// Moves everything but the lock and the accounts. The format file goes last, so that an interrupted move is taken up again.
fn set_aside_all(disk: &dyn Disk, now_ms: i64) -> Result<String, Fault> {
    let folder = set_aside_folder(now_ms);
    for name in disk.list(JOURNAL)? {
        disk.rename(&format!("{JOURNAL}/{name}"), &format!("{folder}/{JOURNAL}/{name}"))?;
    }
    let staying = [LOCK_FILE, FORMAT_FILE, NODE_FILE, accounts::FILE, accounts::SHARED_FILE];
    for name in disk.list("")?.iter().filter(|name| !staying.contains(&name.as_str())) {
        disk.rename(name, &format!("{folder}/{name}"))?;
    }
    disk.rename(FORMAT_FILE, &format!("{folder}/{FORMAT_FILE}"))?;
    Ok(folder)
}

/// Moves one file that cannot be read out of the way, and gives the folder it lies in now.
///
/// # Errors
/// The disk refuses.
pub fn set_aside(disk: &dyn Disk, name: &str, now_ms: i64) -> io::Result<String> {
    let folder = set_aside_folder(now_ms);
    disk.rename(name, &format!("{folder}/{name}"))?;
    Ok(folder)
}

/// Moves a database that cannot be read out of the way, with its log, and gives the folder it lies in now.
///
/// # Errors
/// The disk refuses.
pub fn set_aside_database(disk: &dyn Disk, now_ms: i64) -> io::Result<String> {
    let folder = set_aside_folder(now_ms);
    // The log goes first: a database without it could pass for whole.
    for name in [DATABASE_SHM, DATABASE_WAL, DATABASE] {
        match disk.rename(name, &format!("{folder}/{name}")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            moved => moved?,
        }
    }
    Ok(folder)
}

/// The name holds the date and the millisecond, so that no two collide.
fn set_aside_folder(now_ms: i64) -> String {
    let date = chrono::DateTime::from_timestamp_millis(now_ms).unwrap_or_default().format("%Y-%m-%d");
    format!("set-aside-{date}-{now_ms}")
}
