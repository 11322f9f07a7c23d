//! Why the store cannot do what it was asked.

use std::{fmt, io};

/// A failure of the store. The text names the cause and, where an operator can act, what to do.
#[derive(Debug)]
pub enum Fault {
    /// Another process has the directory open.
    InUse(String),
    /// The directory holds no ledger.
    NoLedger(String),
    /// The file is something else.
    NotALedger(String),
    /// A newer version wrote the ledger.
    Newer(String),
    /// A newer version wrote a record.
    NewerRecord,
    /// The disk refused an operation.
    Disk(io::Error),
    /// A stored value cannot be read: damaged, or written by other software.
    Damaged(String),
    /// The database is closed: it could not be opened, or was damaged and is set aside.
    Unavailable,
    /// The thread of the store has ended, or did not answer in time.
    Stopped,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::InUse(path) => write!(
                f,
                "{path} is in use by another process; stop that process, or give this one a data directory of its own"
            ),
            Fault::NoLedger(path) => write!(f, "there is no ledger in {path}"),
            Fault::NotALedger(path) => write!(f, "{path} is neither a ledger nor an export of one"),
            Fault::Newer(path) => write!(f, "the ledger in {path} was written by a newer version; use that version"),
            Fault::NewerRecord => f.write_str("it was written by a newer version; use that version"),
            Fault::Disk(error) => write!(f, "the disk refused: {error}"),
            Fault::Damaged(what) => write!(f, "stored data is damaged: {what}"),
            Fault::Unavailable => f.write_str("the database is closed for the moment; try again"),
            Fault::Stopped => f.write_str("the store did not finish in time"),
        }
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Fault::Disk(error) => Some(error),
            _ => None,
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        use rusqlite::ErrorCode;
        let kind = match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) | None => {
                return Fault::Damaged(error.to_string());
            }
            Some(ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => io::ErrorKind::ResourceBusy,
            Some(ErrorCode::ReadOnly) => io::ErrorKind::ReadOnlyFilesystem,
            Some(_) => io::ErrorKind::Other,
        };
        Fault::Disk(io::Error::new(kind, error.to_string()))
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Disk(error)
    }
}

/// `None`, and a line in the log, if a group of records is damaged.
///
/// # Errors
/// Every other fault.
pub fn unless_damaged<T>(group: u64, read: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match read {
        Err(Fault::Damaged(what)) => {
            log::error!(
                "group {group} of the ledger's records is damaged and is left out ({what}); see 'pointsman ledger verify'"
            );
            Ok(None)
        }
        read => read.map(Some),
    }
}
