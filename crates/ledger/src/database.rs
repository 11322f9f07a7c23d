//! The SQLite file: one connection that writes, a few that read, one transaction per batch.
//!
//! The watermark of a segment and the entries before it are committed together, so that a crash neither loses nor doubles an
//! entry. A commit is durable when it returns (`synchronous = full`), so the journal may be deleted behind it.
//!
//! Entries lie in two tables: `stored_generations` with their columns, in the order of lists, and `stored_records` with their
//! bytes, in groups, in the order in which they came.

pub mod columns;
mod commit;
pub mod groups;
pub mod ratings;
pub(super) mod reading;
mod retention;
pub mod sums;
mod versions;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};

use self::columns::Names;
pub use self::reading::{Group, View};
use crate::{
    directory::{DATABASE, DATABASE_WAL},
    disk::Disk,
    fault::Fault,
};

/// Tells a database from every other, also from one that lay in the same place before.
pub type Identity = [u8; 16];

/// Bytes of a page of the file: a group takes two or three.
const PAGE: u32 = 16 * 1024;
/// Pages in memory, KiB: of the connection that writes, and of each that reads.
const CACHE_KIB: i64 = 4 * 1024;
const READER_CACHE_KIB: i64 = 1024;
/// Connections that read and are kept open.
const READERS: usize = 4;
/// Longest wait for another program that writes to the file.
const BUSY: Duration = Duration::from_millis(250);
/// Bytes that the write-ahead log keeps when nobody needs them.
const WAL_KEPT: i64 = 64 * 1024 * 1024;

const SCHEMA: &str = include_str!("database/schema.sql");
/// The version of the schema. A build before the first release wrote a lower one.
const SCHEMA_VERSION: i64 = 3;

/// What the database knows of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct State {
    /// Entries stored.
    pub entries: u64,
    /// Bytes of all groups.
    pub stored: u64,
    /// Greatest `created_ms` of what retention dropped.
    pub aged_out_ms: Option<i64>,
    /// The process that wrote last, and the last item of its queue.
    pub run: u64,
    /// See `run`.
    pub ordinal: u64,
    /// Number of the next group.
    next_group: i64,
}

/// An open database.
pub struct Ledger {
    disk: Arc<dyn Disk>,
    /// The file, as SQLite is told it.
    file: String,
    /// Closed before the writer: the last connection empties the write-ahead log, unless it may only read.
    readers: Mutex<Vec<Connection>>,
    /// `None` if the database is only looked at.
    writer: Option<Mutex<Writer>>,
    /// Most bytes of the write-ahead log ([`crate::settings::Settings::log_bytes`]).
    most_log_bytes: u64,
    /// Bytes of it after the last commit.
    wal: AtomicU64,
}

struct Writer {
    connection: Connection,
    names: Names,
}

impl Ledger {
    /// Opens the database, or makes one. Quick also after a crash.
    ///
    /// # Errors
    /// The disk refuses, another program holds the file, or it is damaged.
    pub fn open(disk: &Arc<dyn Disk>, most_log_bytes: u64) -> Result<Ledger, Fault> {
        // For its owner only; SQLite gives the files beside it the same mode.
        disk.open(DATABASE)?;
        let path = disk.folder().join(DATABASE);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&path, flags)?;
        connection.busy_timeout(BUSY)?;
        // The first two hold for a new file only.
        connection.pragma_update(None, "page_size", PAGE)?;
        connection.pragma_update(None, "auto_vacuum", "incremental")?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "journal_size_limit", WAL_KEPT)?;
        connection.set_prepared_statement_cache_capacity(64);
        match version(&connection)? {
            0 => {
                let transaction = connection.transaction()?;
                transaction.execute_batch(SCHEMA)?;
                transaction.commit()?;
            }
            SCHEMA_VERSION.. => {}
            _ => return Err(Fault::Damaged("a build before the first release wrote it".to_owned())),
        }
        connection.execute_batch(ratings::SCHEMA)?;
        let writer = Some(Mutex::new(Writer { connection, names: Names::default() }));
        let ledger = Ledger { writer, most_log_bytes, ..Ledger::of(disk, path.to_string_lossy().into_owned()) };
        ledger.state()?;
        Ok(ledger)
    }

    /// Opens the database to look at it: neither it nor its write-ahead log changes.
    ///
    /// # Errors
    /// As for [`Ledger::open`].
    pub fn inspect(disk: &Arc<dyn Disk>) -> Result<Ledger, Fault> {
        let path = disk.folder().join(DATABASE);
        // Without a log nobody has to say which parts of it count, and not even the file that says so is made.
        let is_whole = disk.length(DATABASE_WAL)? == 0;
        let file = if is_whole { format!("{}?immutable=1", uri(&path)) } else { uri(&path) };
        let ledger = Ledger::of(disk, file);
        ledger.state()?;
        Ok(ledger)
    }

    /// Opens a database file to read it while another process writes to it.
    ///
    /// # Errors
    /// As for [`Ledger::open`].
    pub fn beside_writer(disk: &Arc<dyn Disk>, file: &Path) -> Result<Ledger, Fault> {
        let ledger = Ledger::of(disk, uri(file));
        match ledger.state() {
            // Where not even the index of the log can be made, nobody writes.
            Err(Fault::Disk(_)) => {
                let ledger = Ledger::of(disk, format!("{}?immutable=1", uri(file)));
                ledger.state().map(|_| ledger)
            }
            state => state.map(|_| ledger),
        }
    }

    fn of(disk: &Arc<dyn Disk>, file: String) -> Ledger {
        Ledger {
            disk: Arc::clone(disk),
            file,
            writer: None,
            readers: Mutex::default(),
            most_log_bytes: 0,
            wal: AtomicU64::new(0),
        }
    }

    /// A consistent view. Must not be kept for long: the write-ahead log grows meanwhile.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn view(&self) -> Result<View<'_>, Fault> {
        let kept = self.readers.lock().pop();
        let connection = match kept {
            Some(connection) => connection,
            None => self.reader()?,
        };
        connection.execute_batch("begin")?;
        Ok(View::new(self, connection))
    }

    fn reader(&self) -> Result<Connection, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(&self.file, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
        connection.pragma_update(None, "temp_store", "memory")?;
        Ok(connection)
    }

    /// Takes a connection back that has no transaction any more.
    fn give_back(&self, connection: Connection) {
        let mut readers = self.readers.lock();
        if readers.len() < READERS {
            readers.push(connection);
        }
    }

    fn writer(&self) -> Result<parking_lot::MutexGuard<'_, Writer>, Fault> {
        self.writer.as_ref().map(Mutex::lock).ok_or(Fault::Unavailable)
    }

    /// Sets something of the connection that writes, for a test.
    #[cfg(test)]
    pub(super) fn with_writer<T>(&self, act: impl FnOnce(&mut Connection) -> T) -> T {
        act(&mut self.writer.as_ref().unwrap().lock().connection)
    }

    /// Makes changes in one transaction, durable when it returns.
    fn change<T>(
        &self,
        change: impl FnOnce(&rusqlite::Transaction<'_>, &mut Names) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.check_log()?;
        let mut writer = self.writer()?;
        let Writer { connection, names } = &mut *writer;
        // The end of a broken transaction can break, too.
        if !connection.is_autocommit() {
            connection.execute_batch("rollback")?;
        }
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let changed = change(&transaction, names).and_then(|changed| {
            transaction.commit()?;
            Ok(changed)
        });
        if changed.is_err() {
            names.forget();
        }
        let changed = changed?;
        // A disk that fails here may have taken the commit all the same.
        self.wal.store(self.disk.length(DATABASE_WAL)?, Relaxed);
        Ok(changed)
    }

    /// Whether the write-ahead log may grow further. One that is too long is tried to be emptied first.
    fn check_log(&self) -> Result<(), Fault> {
        if self.disk.length(DATABASE_WAL)? <= self.most_log_bytes {
            return Ok(());
        }
        let writer = self.writer()?;
        let emptied = writer.connection.query_row("pragma wal_checkpoint(truncate)", [], |row| row.get::<_, i64>(0));
        drop(writer);
        match emptied {
            Ok(0) => Ok(()),
            _ => Err(Fault::Disk(std::io::Error::new(
                std::io::ErrorKind::ResourceBusy,
                "another program has held a transaction of the ledger's database open for so long that its write-ahead log is full",
            ))),
        }
    }

    /// Bytes of the write-ahead log.
    pub fn wal_bytes(&self) -> u64 {
        self.wal.load(Relaxed)
    }

    /// What the database knows of itself.
    ///
    /// # Errors
    /// The disk refuses, or the file is damaged.
    pub fn state(&self) -> Result<State, Fault> {
        self.view()?.state()
    }

    /// The identity of the database.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn identity(&self) -> Result<Identity, Fault> {
        let view = self.view()?;
        let bytes: Vec<u8> = view.connection()?.query_row("select identity from state", [], |row| row.get(0))?;
        bytes.try_into().map_err(|_| Fault::Damaged("the identity of the database".to_owned()))
    }

    /// Checks the form of the whole file. Gives what is wrong with it, a sentence each.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn check(&self) -> Result<Vec<String>, Fault> {
        let view = self.view()?;
        let mut check = view.connection()?.prepare("pragma integrity_check")?;
        let found = check.query_map([], |row| row.get::<_, String>(0))?;
        let found: Vec<String> = found.collect::<Result<_, _>>()?;
        Ok(found.into_iter().filter(|line| line != "ok").collect())
    }

    /// Gives free space back to the disk: writes the file anew. May take seconds per GB, and nobody may read meanwhile.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn compact(&self) -> Result<(), Fault> {
        let writer = self.writer()?;
        writer.connection.execute_batch("vacuum; pragma wal_checkpoint(truncate)")?;
        Ok(())
    }
}

/// Version of the schema; 0 in a new file.
fn version(connection: &Connection) -> Result<i64, Fault> {
    Ok(connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// A path as an address. Of its characters only those that mean something in an address are escaped.
fn uri(path: &Path) -> String {
    let path = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{path}")
}

/// The texts of a statement's parameters `?1, ?2, …`.
fn placeholders(count: usize) -> String {
    (1..=count).map(|at| format!("?{at}")).collect::<Vec<_>>().join(", ")
}
