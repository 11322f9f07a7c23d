//! The disk as the store uses it: a trait, so that tests can make any operation fail, and the file system behind it.
//!
//! Names are relative to one directory and use `/`.

use std::{
    fmt,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Seek as _},
    ops::Range,
    os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

/// Only the owner reads and writes: records tell who called which model when.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// A directory of files.
pub trait Disk: Send + Sync + 'static {
    /// Names of the files in `folder`, in order. A folder that does not exist is empty.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// The whole file.
    ///
    /// # Errors
    /// `NotFound`, or the file cannot be read.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// The bytes from one offset to another, or to the end of the file.
    ///
    /// # Errors
    /// `NotFound`, or the file cannot be read.
    fn read_part(&self, name: &str, part: Range<u64>) -> io::Result<Vec<u8>>;

    /// Puts `bytes` in place of the file, or leaves the file as it was. Durable when it returns.
    ///
    /// # Errors
    /// The disk is full or refuses.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Makes a new, empty file.
    ///
    /// # Errors
    /// The file exists, or the disk refuses.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for reading and writing. Makes it if it does not exist.
    ///
    /// # Errors
    /// The disk refuses.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Moves a file.
    ///
    /// # Errors
    /// The disk refuses.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Deletes a file.
    ///
    /// # Errors
    /// The disk refuses.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Length of a file in bytes; 0 if there is none.
    ///
    /// # Errors
    /// The disk refuses.
    fn length(&self, name: &str) -> io::Result<u64>;

    /// The directory in the file system, where SQLite opens its files itself.
    fn folder(&self) -> &Path;
}

/// An open file.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Writes all of `bytes` at `offset`: one system call unless the kernel takes only a part.
    ///
    /// # Errors
    /// The disk is full or refuses. A part may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// The disk is full or refuses.
    fn set_length(&self, length: u64) -> io::Result<()>;

    /// Waits until everything written is durable.
    ///
    /// # Errors
    /// The disk refuses.
    fn sync(&self) -> io::Result<()>;
}

/// The file system below one directory.
#[derive(Debug, Clone)]
pub struct SystemDisk {
    root: PathBuf,
}

impl SystemDisk {
    /// The directory `root`, which must exist.
    pub fn new(root: &Path) -> SystemDisk {
        SystemDisk { root: root.to_owned() }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Opens a file, after its folder has been made. A new name is durable after the first [`DiskFile::sync`], so that
    /// nobody who only writes waits for the disk.
    fn open_with(&self, name: &str, options: &mut OpenOptions) -> io::Result<Box<dyn DiskFile>> {
        let path = self.root.join(name);
        let new = !path.exists();
        if let Some(folder) = path.parent() {
            make_folder(folder)?;
        }
        let file = options.read(true).write(true).mode(FILE_MODE).open(&path)?;
        Ok(Box::new(SystemFile { file, unsynced_name: Mutex::new(new.then_some(path)) }))
    }
}

/// Makes a directory that only its owner may enter, and its parents.
///
/// # Errors
/// The disk refuses.
pub fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() { Ok(()) } else { DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path) }
}

/// Makes the names in the folder of `path` durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

impl Disk for SystemDisk {
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.root.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.root.join(name))
    }

    fn read_part(&self, name: &str, part: Range<u64>) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.root.join(name))?;
        file.seek(io::SeekFrom::Start(part.start))?;
        let mut bytes = Vec::new();
        file.take(part.end.saturating_sub(part.start)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.root.join(name);
        let fresh = format!("{name}.new");
        let file = self.open_with(&fresh, OpenOptions::new().create(true).truncate(true))?;
        file.write_at(0, bytes)?;
        file.sync()?;
        fs::rename(self.root.join(fresh), &path)?;
        sync_folder(&path)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.open_with(name, OpenOptions::new().create_new(true))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.open_with(name, OpenOptions::new().create(true).truncate(false))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let to = self.root.join(to);
        if let Some(folder) = to.parent() {
            make_folder(folder)?;
        }
        fs::rename(self.root.join(from), &to)?;
        sync_folder(&to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.root.join(name))
    }

    fn length(&self, name: &str) -> io::Result<u64> {
        match fs::metadata(self.root.join(name)) {
            Ok(file) => Ok(file.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn folder(&self) -> &Path {
        &self.root
    }
}

#[derive(Debug)]
struct SystemFile {
    file: File,
    /// Path of a new file, until its name is durable.
    unsynced_name: Mutex<Option<PathBuf>>,
}

impl DiskFile for SystemFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()?;
        let mut unsynced = self.unsynced_name.lock();
        if let Some(path) = &*unsynced {
            sync_folder(path)?;
        }
        *unsynced = None;
        Ok(())
    }
}
