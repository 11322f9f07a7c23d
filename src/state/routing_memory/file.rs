//! Atomic replacement of one file that only its owner can read.
//!
//! A reader sees the old or the new content, also after a crash: the new content is written to a temporary file, synced
//! to disk and renamed. A file lock allows one process to write; the system releases it when that process ends.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

/// Largest accepted file, in bytes. A hundred thousand endpoints fit.
const MAX_BYTES: u64 = 128 * 1024 * 1024;
/// Owner only: the file shows which providers are called and how often.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// Lock for writing a file. Released when dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "the system unlocks it when it is closed")] File);

impl Lock {
    /// Takes the lock for `path` and creates its directories. Does file I/O, but does not wait for the lock.
    ///
    /// # Errors
    /// When another process holds it, or the directory cannot be written.
    pub fn take(path: &Path) -> io::Result<Lock> {
        if let Some(directory) = directory_of(path) {
            DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(FILE_MODE)
            .open(with_suffix(path, ".lock"))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(io::Error::other("another process writes it")),
            // Some file systems do not support locks. Then several processes may write.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Lock(file)),
        }
    }
}

/// Reads the file; `None` when there is none. Blocks.
///
/// # Errors
/// When it is not a regular file, is too large, or cannot be read.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata?,
    };
    // Reading a pipe would block forever.
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it is larger than {MAX_BYTES} bytes")));
    }
    Ok(Some(text))
}

/// Replaces the file. The new content is on disk when this returns. Blocks.
///
/// # Errors
/// When the file cannot be written. The old content is unchanged then.
pub fn replace(path: &Path, text: &[u8], _lock: &Lock) -> io::Result<()> {
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it would be larger than {MAX_BYTES} bytes")));
    }
    let temporary = with_suffix(path, ".tmp");
    let written = write(&temporary, text).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // Free the space of the incomplete file: the disk may be full.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    // Sync the rename itself to disk.
    directory_of(path).map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    // The file may be left from a crash, or be a link that someone else created to redirect the write.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(FILE_MODE).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

/// The path with `suffix` appended to the file name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

/// The directory of a file.
fn directory_of(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A temporary directory, removed when dropped.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let path = std::env::temp_dir().join(format!("pointsman-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Directory(path)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn written_content_is_read_back_and_directories_are_created() {
        let directory = Directory::new("written");
        let path = directory.0.join("a/b/state");
        assert_eq!(read(&path).unwrap(), None);
        let lock = Lock::take(&path).unwrap();
        for text in [&b"first"[..], b"second, and longer", b"3"] {
            replace(&path, text, &lock).unwrap();
            assert_eq!(read(&path).unwrap().as_deref(), Some(text));
        }
    }

    #[test]
    fn only_one_holder_of_the_lock_may_write() {
        let directory = Directory::new("lock");
        let path = directory.0.join("state");
        let held = Lock::take(&path).unwrap();
        assert_eq!(Lock::take(&path).unwrap_err().to_string(), "another process writes it");
        drop(held);
        assert!(Lock::take(&path).is_ok());
    }

    #[test]
    fn a_failed_replacement_keeps_the_old_content_and_leaves_no_temporary_file() {
        let directory = Directory::new("fails");
        let path = directory.0.join("state");
        let lock = Lock::take(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"text", &lock).is_err());
        assert!(path.is_dir() && !with_suffix(&path, ".tmp").exists());
        assert_eq!(read(&path).unwrap_err().to_string(), "it is not a file");
    }
}
