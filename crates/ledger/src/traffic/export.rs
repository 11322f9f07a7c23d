//! A file of records without names: `magic`, then frames. A frame is its kind, the length of its content, and the content:
//! a catalog or a policy, some records compressed together, or, last, what the file holds.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    Blocks, Traffic, TrafficRecord, Wanted,
    block::{Block, BlockReader, KnownVersions, VersionsOf},
    foreign,
    strip::stripped,
    unfinished,
};
use crate::{
    database::groups,
    fault::Fault,
    record::{self, ContentHash, RecordWriter, Version},
};

/// What every export begins with.
pub(super) const MAGIC: &[u8] = b"pointsman-pmx 1\n";
/// Records of a frame.
const RECORDS: usize = 512;
/// Longest frame that is read, bytes.
const LONGEST: u32 = 256 * 1024 * 1024;

const VERSION: u8 = b'v';
const PART: u8 = b'r';
const SUMMARY: u8 = b's';

/// What an export says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    /// Number of records.
    pub records: u64,
    /// Times of the oldest and of the latest, Unix milliseconds.
    pub window_ms: Option<[i64; 2]>,
    /// Number of records from which they were drawn.
    pub drawn_from: u64,
    /// When it was written, Unix milliseconds.
    pub written_ms: i64,
    /// SHA-256 of everything before this, in hexadecimal.
    pub sha256: String,
}

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
        count: 0,
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
    count: usize,
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
        self.count += 1;
        if self.records.len() >= RECORDS { self.part() } else { Ok(()) }
    }

    fn version(&mut self, version: &Version) -> Result<(), Fault> {
        // Whoever reads it need not know which of both it is.
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

fn frame(out: &mut impl Write, kind: u8, content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len()).map_err(|_| io::Error::other("a part over 4 GiB"))?;
    out.write_all(&[kind])?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(content)
}

/// An export that was checked.
pub(super) struct ExportFile {
    path: PathBuf,
    summary: Exported,
    versions: HashMap<ContentHash, Vec<u8>>,
    known: KnownVersions,
}

impl ExportFile {
    pub(super) fn open(path: &Path) -> Result<ExportFile, Fault> {
        let mut frames = Frames::open(path)?;
        let (mut versions, mut summary) = (HashMap::new(), None);
        let mut hash = Sha256::new();
        hash.update(MAGIC);
        while let Some((kind, content)) = frames.next()? {
            if kind == SUMMARY {
                summary = postcard::from_bytes::<Exported>(&content).ok();
                break;
            }
            let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
            hash.update([kind]);
            hash.update(length.to_le_bytes());
            hash.update(&content);
            if kind == VERSION
                && let Some((name, bytes)) = content.split_first_chunk::<32>()
            {
                versions.insert(ContentHash(*name), groups::expand(bytes)?);
            }
        }
        let found = hex::encode(hash.finalize());
        let summary = summary.filter(|summary| summary.sha256 == found);
        let cut = || Fault::Damaged(format!("{} is cut off or was changed: write the export again", path.display()));
        Ok(ExportFile {
            path: path.to_owned(),
            summary: summary.ok_or_else(cut)?,
            versions,
            known: KnownVersions::default(),
        })
    }

    pub(super) const fn summary(&self) -> &Exported {
        &self.summary
    }

    pub(super) fn blocks(&self) -> Result<ExportBlocks, Fault> {
        Ok(ExportBlocks { frames: Frames::open(&self.path)?, next: 1 })
    }
}

pub(super) struct ExportBlocks {
    frames: Frames,
    next: u64,
}

impl Blocks for ExportBlocks {
    fn next(&mut self) -> Result<Option<Block>, Fault> {
        while let Some((kind, content)) = self.frames.next()? {
            if kind == PART {
                let first = self.next;
                self.next += RECORDS as u64;
                return Ok(Some(Block::Part(content, first)));
            }
        }
        Ok(None)
    }
}

struct Frames(BufReader<File>);

impl Frames {
    fn open(path: &Path) -> Result<Frames, Fault> {
        let mut file = File::open(path)?;
        let mut head = [0; MAGIC.len()];
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut head)?;
        if head != *MAGIC {
            return Err(foreign(path));
        }
        Ok(Frames(BufReader::with_capacity(1 << 16, file)))
    }

    fn next(&mut self) -> Result<Option<(u8, Vec<u8>)>, Fault> {
        let mut head = [0; 5];
        match self.0.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length);
        if length > LONGEST {
            return Err(Fault::Damaged("a part of the export".to_owned()));
        }
        let mut content = vec![0; length as usize];
        match self.0.read_exact(&mut content) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            read => Ok(Some((kind, content))).and_then(|frame| read.map(|()| frame).map_err(Fault::from)),
        }
    }
}

impl BlockReader for ExportFile {
    fn read(&self, block: Block, take: &mut dyn FnMut(TrafficRecord)) -> Result<u64, Fault> {
        let Block::Part(packed, first) = block else { return Ok(0) };
        let versions =
            VersionsOf { known: &self.known, bytes: |hash: ContentHash| self.versions.get(&hash).cloned() };
        let mut unreadable = 0;
        for (number, bytes) in (first..).zip(groups::entries(&groups::expand(&packed)?)) {
            match read_record(bytes, number, &versions) {
                Some(record) => take(record),
                None => unreadable += 1,
            }
        }
        Ok(unreadable)
    }
}

fn read_record(bytes: &[u8], number: u64, versions: &impl record::Versions) -> Option<TrafficRecord> {
    let (draw, bytes) = bytes.split_first_chunk()?;
    let (cluster, bytes) = bytes.split_first_chunk()?;
    let (key, bytes) = bytes.split_first_chunk()?;
    Some(TrafficRecord {
        generation: record::read(bytes, versions).ok()?,
        cluster: u64::from_le_bytes(*cluster),
        name: format!("#{number}"),
        key: u32::from_le_bytes(*key),
        draw: u64::from_le_bytes(*draw),
    })
}
