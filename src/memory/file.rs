//! One file that is replaced whole or not at all, readable by its owner alone.
//!
//! A reader finds either what was there before or what is there now, also after a crash in between: the new text is
//! written beside, brought to the disk, and then put in the place of the old. One process at a time may write; who
//! may is settled by a lock that the system takes back when its holder dies.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// A larger file is none of ours. A hundred thousand endpoints fit.
const LARGEST: u64 = 128 * 1024 * 1024;
/// For its owner alone: it tells who is called how often.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// The right to write a file, held until dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the system unlocks it when it is closed")] File);

impl Lock {
    /// Takes the right to write `path`; makes the directories it lies in. Blocks, but not for the lock.
    ///
    /// # Errors
    /// When another process holds it, or the directory cannot be written.
    pub fn take(path: &Path) -> io::Result<Lock> {
        if let Some(directory) = directory_of(path) {
            DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)?;
        }
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).mode(FILE_MODE).open(beside(path, ".lock"))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(io::Error::other("another process writes it")),
            // Some file systems know no locks; then nobody is kept out.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Lock(file)),
        }
    }
}

/// Reads the file; `None` when there is none. Blocks.
///
/// # Errors
/// When it is no ordinary file, is too large, or cannot be read.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata?,
    };
    // A pipe would be waited for, for ever.
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
    }
    Ok(Some(text))
}

/// Replaces the file; on the disk when this returns. Blocks.
///
/// # Errors
/// When that is not possible. What was there before is still there then.
pub fn replace(path: &Path, text: &[u8], _lock: &Lock) -> io::Result<()> {
    if text.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it would be larger than {LARGEST} bytes")));
    }
    let fresh = beside(path, ".tmp");
    let written = write(&fresh, text).and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        // Half a file is of no use to anybody, and the disk may be full.
        let _ = fs::remove_file(&fresh);
        return written;
    }
    // The rename itself has to reach the disk, too.
    directory_of(path).map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    // Left over from a crash, or laid there by somebody else to be written through: neither is wanted.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(FILE_MODE).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

/// The same path with something behind its name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

/// The directory a file lies in.
fn directory_of(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}
