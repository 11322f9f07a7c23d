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

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that goes with the test.
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
    fn what_was_written_is_read_and_directories_are_made() {
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
    fn one_may_write_at_a_time() {
        let directory = Directory::new("lock");
        let path = directory.0.join("state");
        let held = Lock::take(&path).unwrap();
        assert_eq!(Lock::take(&path).unwrap_err().to_string(), "another process writes it");
        drop(held);
        assert!(Lock::take(&path).is_ok());
    }

    #[test]
    fn a_replacement_that_fails_leaves_what_was_there_and_no_litter() {
        let directory = Directory::new("fails");
        let path = directory.0.join("state");
        let lock = Lock::take(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(replace(&path, b"text", &lock).is_err());
        assert!(path.is_dir() && !beside(&path, ".tmp").exists());
        assert_eq!(read(&path).unwrap_err().to_string(), "it is not a file");
    }
}
