//! A file of records without names: `magic`, then frames. A frame is its kind, the length of its content, and the content:
//! a catalog or a policy, some records compressed together, or, last, what the file holds.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::File,
    io::{self, BufReader, Read, Seek as _, SeekFrom, Write},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::block::{Block, Blocks, TrafficRecord, foreign};
use crate::{
    database::groups,
    entry::Filter,
    fault::Fault,
    record::{self, ContentHash},
    version_cache::VersionCache,
};

/// What every export begins with.
pub(super) const MAGIC: &[u8] = b"pointsman-pmx 1\n";
/// Records of a frame.
pub(super) const RECORDS: usize = 512;
/// Longest frame that is read, bytes.
const LONGEST: u32 = 256 * 1024 * 1024;

pub(super) const VERSION: u8 = b'v';
pub(super) const PART: u8 = b'r';
pub(super) const SUMMARY: u8 = b's';

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

pub(super) fn frame(out: &mut impl Write, kind: u8, content: &[u8]) -> io::Result<()> {
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
    known: VersionCache,
    /// Times of the oldest and of the latest record of each part that was read, by the number of its first record.
    windows: Mutex<BTreeMap<u64, [i64; 2]>>,
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
            known: VersionCache::default(),
            windows: Mutex::default(),
        })
    }

    pub(super) const fn summary(&self) -> &Exported {
        &self.summary
    }

    /// All parts but those of which an earlier reading knows that they hold no record of the time.
    pub(super) fn blocks(&self, filter: &Filter) -> Result<ExportBlocks, Fault> {
        let lies_apart = |[first, last]: [i64; 2]| {
            filter.since_ms.is_some_and(|since| last < since) || filter.until_ms.is_some_and(|until| first > until)
        };
        let windows = self.windows.lock();
        let skipped = windows.iter().filter(|(_, window)| lies_apart(**window)).map(|(first, _)| *first).collect();
        Ok(ExportBlocks { frames: Frames::open(&self.path)?, next: 1, skipped })
    }
}

pub(super) struct ExportBlocks {
    frames: Frames,
    next: u64,
    skipped: BTreeSet<u64>,
}

impl Blocks for ExportBlocks {
    fn next(&mut self) -> Result<Option<Block>, Fault> {
        while let Some((kind, length)) = self.frames.head()? {
            let first = self.next;
            self.next += if kind == PART { RECORDS as u64 } else { 0 };
            if kind != PART || self.skipped.contains(&first) {
                self.frames.skip(length)?;
            } else {
                return Ok(self.frames.content(length)?.map(|content| Block::Part(content, first)));
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
        let Some((kind, length)) = self.head()? else { return Ok(None) };
        Ok(self.content(length)?.map(|content| (kind, content)))
    }

    /// Kind and length of the next frame. Its content follows.
    fn head(&mut self) -> Result<Option<(u8, u32)>, Fault> {
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
        Ok(Some((kind, length)))
    }

    fn skip(&mut self, length: u32) -> Result<(), Fault> {
        Ok(self.0.seek_relative(i64::from(length))?)
    }

    fn content(&mut self, length: u32) -> Result<Option<Vec<u8>>, Fault> {
        let mut content = vec![0; length as usize];
        match self.0.read_exact(&mut content) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            read => Ok(read.map(|()| Some(content))?),
        }
    }
}

impl ExportFile {
    /// Hands the records of a block on, and gives the number of those that cannot be read.
    pub(super) fn read(&self, block: Block, take: &mut dyn FnMut(TrafficRecord)) -> Result<u64, Fault> {
        let Block::Part(packed, first) = block else { return Ok(0) };
        let versions = self.known.over(|hash| self.versions.get(&hash).cloned());
        let (mut unreadable, mut window) = (0, [i64::MAX, i64::MIN]);
        for (number, bytes) in (first..).zip(groups::entries(&groups::expand(&packed)?)) {
            match read_record(bytes, number, &versions) {
                Some(record) => {
                    let (at, [oldest, latest]) = (record.generation.created_ms, window);
                    window = [oldest.min(at), latest.max(at)];
                    take(record);
                }
                None => unreadable += 1,
            }
        }
        // What cannot be read is counted each time.
        if unreadable == 0 {
            self.windows.lock().insert(first, window);
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
