//! Frames of a journal segment: length, checksum, kind, payload.

use crate::packed::Packed;

/// Bytes before the payload: length (4), CRC-32 of kind and payload (4), kind (1).
const HEAD: usize = 9;
/// Longest payload. A longer length is damage.
pub const LONGEST: usize = 16 * 1024 * 1024;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A finished entry.
    Entry,
    /// An entry that began and is to be followed by a finished one of the same id.
    Started,
    /// A blob: its hash, then its bytes.
    Blob,
}

impl Kind {
    const fn number(self) -> u8 {
        match self {
            Kind::Entry => 1,
            Kind::Started => 2,
            Kind::Blob => 3,
        }
    }

    fn of(number: u8) -> Option<Kind> {
        [Kind::Entry, Kind::Started, Kind::Blob].into_iter().find(|kind| kind.number() == number)
    }
}

/// Appends a frame with `entry` to `buffer`. `false` if it is too long; the buffer is then unchanged.
pub fn put_entry(buffer: &mut Vec<u8>, kind: Kind, entry: &Packed) -> bool {
    put(buffer, kind, &[entry.bytes()])
}

/// Appends a frame with a blob to `buffer`. `false` if it is too long.
pub fn put_blob(buffer: &mut Vec<u8>, hash: &[u8; 32], bytes: &[u8]) -> bool {
    put(buffer, Kind::Blob, &[hash, bytes])
}

fn put(buffer: &mut Vec<u8>, kind: Kind, parts: &[&[u8]]) -> bool {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let Some(stored) = u32::try_from(length).ok().filter(|_| length <= LONGEST) else { return false };
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&[kind.number()]);
    parts.iter().for_each(|part| checksum.update(part));
    buffer.extend_from_slice(&stored.to_le_bytes());
    buffer.extend_from_slice(&checksum.finalize().to_le_bytes());
    buffer.push(kind.number());
    parts.iter().for_each(|part| buffer.extend_from_slice(part));
    true
}

/// A frame read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'b> {
    /// What it holds.
    pub kind: Kind,
    /// Its content.
    pub payload: &'b [u8],
    /// Where the frame ends, in bytes from the beginning.
    pub end: u64,
}

impl Frame<'_> {
    /// The entry of an `Entry` or `Started` frame. `None` if the payload is none.
    pub fn entry(&self) -> Option<Packed> {
        Packed::read(self.payload)
    }

    /// Hash and bytes of a `Blob` frame.
    pub fn blob(&self) -> Option<([u8; 32], Vec<u8>)> {
        let (hash, bytes) = self.payload.split_first_chunk()?;
        Some((*hash, bytes.to_vec()))
    }
}

/// Frames of a segment, from the beginning to the first bad one.
#[derive(Debug, Clone)]
pub struct Frames<'b> {
    rest: &'b [u8],
    at: u64,
}

impl<'b> Frames<'b> {
    /// Frames of `bytes`, of which the first byte lies `at` bytes after the beginning of the segment.
    pub fn new(bytes: &'b [u8], at: u64) -> Frames<'b> {
        Frames { rest: bytes, at }
    }

    /// Bytes that no frame was read from: after the last frame, what a torn write left.
    pub fn left(&self) -> &'b [u8] {
        self.rest
    }
}

impl<'b> Iterator for Frames<'b> {
    type Item = Frame<'b>;

    fn next(&mut self) -> Option<Frame<'b>> {
        let (head, body) = self.rest.split_first_chunk::<HEAD>()?;
        let [a, b, c, d, e, f, g, h, kind] = *head;
        let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok().filter(|length| *length <= LONGEST)?;
        let (payload, rest) = body.split_at_checked(length)?;
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&[kind]);
        checksum.update(payload);
        if checksum.finalize() != u32::from_le_bytes([e, f, g, h]) {
            return None;
        }
        let kind = Kind::of(kind)?;
        self.rest = rest;
        self.at += (HEAD + length) as u64;
        Some(Frame { kind, payload, end: self.at })
    }
}

/// Whether bytes that are no frame are more than a torn write leaves, which is the beginning of a frame or zeros.
pub fn is_damage(left: &[u8]) -> bool {
    let Some(length) = left.first_chunk().filter(|_| left.len() >= HEAD) else { return false };
    let length = u32::from_le_bytes(*length) as usize;
    (length > LONGEST || HEAD + length <= left.len()) && left.iter().any(|byte| *byte != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Entry, Facts, Id};

    fn entry(number: u8, length: usize) -> Packed {
        let facts = Facts { labels: vec![(1, "acme".into())], numbers: vec![(2, i64::from(number))] };
        let id = Id::new(u64::from(number), [number; 24]);
        Packed::new(&Entry { id, created_ms: 7, facts, bytes: vec![number; length] })
    }

    #[test]
    fn a_segment_cut_at_any_byte_gives_exactly_the_whole_frames_before_the_cut() {
        let entries: Vec<Packed> = (0..4).map(|number| entry(number, 10 * usize::from(number))).collect();
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for entry in &entries {
            assert!(put_entry(&mut bytes, Kind::Entry, entry));
            ends.push(bytes.len());
        }
        for cut in 0..=bytes.len() {
            let whole = ends.iter().filter(|end| **end > 0 && **end <= cut).count();
            let mut frames = Frames::new(&bytes[..cut], 0);
            let read: Vec<Packed> = frames.by_ref().map(|frame| frame.entry().unwrap()).collect();
            assert_eq!(read, entries[..whole], "cut at {cut}");
            assert_eq!(frames.left().len(), cut - ends[whole], "cut at {cut}");
        }
    }

    #[test]
    fn a_flipped_bit_ends_the_segment_before_its_frame() {
        let mut good = Vec::new();
        put_entry(&mut good, Kind::Started, &entry(1, 5));
        let first = good.len();
        put_entry(&mut good, Kind::Entry, &entry(2, 5));
        for at in first..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                let mut frames = Frames::new(&bad, 0);
                assert_eq!(frames.by_ref().count(), 1, "byte {at} bit {bit}");
                assert_eq!(frames.left().len(), good.len() - first);
            }
        }
    }

    #[test]
    fn zeros_left_by_a_power_cut_are_no_frame() {
        assert_eq!(Frames::new(&[0; 4096], 0).count(), 0);
    }
}
