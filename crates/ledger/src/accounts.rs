//! The file of administrative changes: issued keys, disabled keys, accounts, and who changed them when.
//!
//! One change per line: the CRC-32 of the change in hexadecimal, a space, the change, a line feed. A change is durable before
//! its administrator is answered. The file is small and read whole at the start; this module does not look into the changes.

use std::{io, sync::Arc};

use parking_lot::Mutex;

use crate::{
    disk::{Disk, DiskFile},
    fault::Fault,
};

/// Name of the file.
pub const FILE: &str = "accounts.log";
/// Name of the file of changes that came from PostgreSQL, those of this replica among them.
pub const SHARED_FILE: &str = "shared.log";
/// Length of the checksum and the space behind it.
const HEAD: usize = 9;

/// The open file.
pub struct AccountLog {
    disk: Arc<dyn Disk>,
    name: &'static str,
    open: Mutex<OpenLog>,
}

struct OpenLog {
    /// `None` until the disk lets the file be opened for writing.
    file: Option<Box<dyn DiskFile>>,
    /// Bytes of valid lines.
    length: u64,
    /// Whether a failed write may have left bytes behind `length`.
    torn: bool,
}

/// What the file held.
pub struct StoredChanges {
    /// The changes, oldest first.
    pub changes: Vec<Vec<u8>>,
    /// Bytes of an unfinished last line, which was never acknowledged and is cut off.
    pub torn: usize,
}

impl AccountLog {
    /// Opens the file and reads all changes. A disk that refuses writing is no error here: each change tries again.
    ///
    /// # Errors
    /// The file cannot be read, or a line before the last is damaged: without it a disabled key might work again.
    pub fn open(disk: Arc<dyn Disk>) -> Result<(AccountLog, StoredChanges), Fault> {
        AccountLog::open_named(disk, FILE)
    }

    /// The same of a file of another name.
    ///
    /// # Errors
    /// As for [`AccountLog::open`].
    pub fn open_named(disk: Arc<dyn Disk>, name: &'static str) -> Result<(AccountLog, StoredChanges), Fault> {
        let bytes = match disk.read(name) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Fault::Disk(error)),
        };
        let (changes, valid) = parse(&bytes, name)?;
        let torn = bytes.len() - valid;
        let open = OpenLog { file: None, length: valid as u64, torn: torn > 0 };
        Ok((AccountLog { disk, name, open: Mutex::new(open) }, StoredChanges { changes, torn }))
    }

    /// Appends a change, which must not contain a line feed. Durable when it returns. Blocks for an `fsync`.
    ///
    /// # Errors
    /// The disk is full or refuses. The change is then not stored.
    pub fn append(&self, change: &[u8]) -> io::Result<()> {
        self.append_all([change])
    }

    /// Appends several changes with one write. All are durable when it returns. Blocks for an `fsync`.
    ///
    /// # Errors
    /// As for [`AccountLog::append`].
    pub fn append_all<'a>(&self, changes: impl IntoIterator<Item = &'a [u8]>) -> io::Result<()> {
        let mut line = Vec::new();
        for change in changes {
            if change.contains(&b'\n') {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "a change with a line feed"));
            }
            line.extend_from_slice(format!("{:08x} ", crc32fast::hash(change)).as_bytes());
            line.extend_from_slice(change);
            line.push(b'\n');
        }
        let mut open = self.open.lock();
        let OpenLog { file, length, torn } = &mut *open;
        let file = match file {
            Some(file) => file,
            None => file.insert(self.disk.open(self.name)?),
        };
        if *torn {
            file.set_length(*length)?;
        }
        *torn = true;
        file.write_at(*length, &line)?;
        file.sync()?;
        (*length, *torn) = (*length + line.len() as u64, false);
        Ok(())
    }
}

impl AccountLog {
    /// Forgets all changes.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn clear(&self) -> io::Result<()> {
        let mut open = self.open.lock();
        if open.file.is_none() {
            open.file = Some(self.disk.open(self.name)?);
        }
        (open.length, open.torn) = (0, true);
        let Some(file) = &open.file else { return Ok(()) };
        file.set_length(0)?;
        file.sync()
    }
}

/// The changes in `bytes`, and the length of the valid lines.
fn parse(bytes: &[u8], name: &str) -> Result<(Vec<Vec<u8>>, usize), Fault> {
    let (mut changes, mut valid, mut damaged) = (Vec::new(), 0, None);
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let Some(change) = change_of(line) else {
            damaged = damaged.or(Some(number + 1));
            continue;
        };
        if let Some(damaged) = damaged {
            return Err(Fault::Damaged(format!(
                "line {damaged} of \"{name}\"; restore the file from a backup, or delete that line if the change in it, such as \
                 a disabled key, may be lost"
            )));
        }
        changes.push(change.to_vec());
        valid += line.len();
    }
    Ok((changes, valid))
}

fn change_of(line: &[u8]) -> Option<&[u8]> {
    let (head, change) = line.strip_suffix(b"\n")?.split_at_checked(HEAD)?;
    let head = std::str::from_utf8(head).ok()?.strip_suffix(' ')?;
    (u32::from_str_radix(head, 16).ok()? == crc32fast::hash(change)).then_some(change)
}
