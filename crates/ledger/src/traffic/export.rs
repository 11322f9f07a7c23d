//! Writes an export.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::{
    block::TrafficRecord,
    export_file::{Exported, MAGIC, PART, RECORDS, SUMMARY, VERSION, frame},
    reading::{Traffic, Wanted},
    strip::stripped,
};
use crate::{
    database::groups,
    fault::Fault,
    record::{RecordWriter, Version},
};

/// Writes the wanted records to a file, without names. The file appears when it is whole.
///
/// # Errors
/// The records cannot be read, or the file cannot be written.
pub fn export(traffic: &Traffic, wanted: &Wanted, path: &Path, now_ms: i64) -> Result<Exported, Fault> {
    let part = unfinished(path);
    let drawn_from = traffic.count(wanted)?;
    let exporter = Exporter {
        file: Hashing { file: BufWriter::new(File::create(&part)?), hash: Sha256::new() },
        writer: RecordWriter::default(),
        records: Vec::new(),
        keys: HashMap::new(),
        exported: Exported { drawn_from, written_ms: now_ms, ..Exported::default() },
        fault: None,
    };
    let exporter = Mutex::new(exporter);
    exporter.lock().file.write_all(MAGIC)?;
    let stop = AtomicBool::new(false);
    traffic.fold(wanted, 1, &stop, || (), |(), record| exporter.lock().add(&record))?;
    let exported = exporter.into_inner().finish()?;
    std::fs::rename(&part, path)?;
    Ok(exported)
}

struct Exporter {
    file: Hashing<BufWriter<File>>,
    writer: RecordWriter,
    /// Records of the frame to come.
    records: Vec<Vec<u8>>,
    keys: HashMap<(u64, u64), u32>,
    exported: Exported,
    fault: Option<Fault>,
}

impl Exporter {
    fn add(&mut self, record: &TrafficRecord) {
        if self.fault.is_none() {
            self.fault = self.write(record).err();
        }
    }

    fn write(&mut self, record: &TrafficRecord) -> Result<(), Fault> {
        let generation = &record.generation;
        let next = u32::try_from(self.keys.len() + 1).unwrap_or(u32::MAX);
        let key = match record.key {
            0 => *self.keys.entry((generation.owner, generation.key)).or_insert(next),
            key => key,
        };
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&record.draw.to_le_bytes());
        bytes.extend_from_slice(&record.cluster.to_le_bytes());
        bytes.extend_from_slice(&key.to_le_bytes());
        let versions = self.writer.append(&stripped(generation), &mut bytes);
        for version in versions.into_iter().flatten() {
            self.version(&version)?;
        }
        self.exported.records += 1;
        let [first, last] = self.exported.window_ms.unwrap_or([generation.created_ms; 2]);
        self.exported.window_ms = Some([first.min(generation.created_ms), last.max(generation.created_ms)]);
        self.records.push(bytes);
        if self.records.len() >= RECORDS { self.part() } else { Ok(()) }
    }

    fn version(&mut self, version: &Version) -> Result<(), Fault> {
        // Catalogues and policies are written alike: readers find both by their hash.
        let content = [&version.hash.0[..], &groups::compress(&version.bytes)?].concat();
        Ok(frame(&mut self.file, VERSION, &content)?)
    }

    fn part(&mut self) -> Result<(), Fault> {
        let packed = groups::pack(self.records.iter().map(Vec::as_slice))?;
        self.records.clear();
        Ok(frame(&mut self.file, PART, &packed)?)
    }

    fn finish(mut self) -> Result<Exported, Fault> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        self.part()?;
        self.exported.sha256 = hex::encode(self.file.hash.clone().finalize());
        let summary = postcard::to_stdvec(&self.exported).map_err(|error| Fault::Damaged(error.to_string()))?;
        frame(&mut self.file, SUMMARY, &summary)?;
        self.file.file.flush()?;
        Ok(self.exported)
    }
}

struct Hashing<W> {
    file: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all(bytes)?;
        self.hash.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The path of a file beside another, while it is written.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}
