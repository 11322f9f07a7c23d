//! Groups: entries whose bytes are compressed together, because they repeat each other.

use std::cell::RefCell;

use crate::{fault::Fault, packed::Packed};

/// Most entries of a group. More make the file little smaller, and a look-up slower.
pub const ENTRIES: usize = 32;
/// Compression level of zstd. Records of eight candidates are 7 % larger than at 1 and take three fifths of the time; at -5 they
/// are 15 % larger and take little less.
pub const LEVEL: i32 = -3;
/// Most bytes that a group may claim to expand to.
const LARGEST: usize = 64 * 1024 * 1024;
/// Bytes in front of an entry: its length.
const HEAD: usize = 4;

/// The bytes of a group. An entry that was deleted is empty, so that the others keep their places.
///
/// # Errors
/// An entry is too long, or memory is short.
pub fn pack<'a>(entries: impl Iterator<Item = &'a [u8]>) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    for entry in entries {
        let length = u32::try_from(entry.len()).map_err(|_| Fault::Damaged("a record over 4 GiB".to_owned()))?;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(entry);
    }
    compress(&bytes)
}

/// The entries of an expanded group as bytes, in order.
pub fn entries(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<HEAD>()?;
        let (entry, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        bytes = rest;
        Some(entry)
    })
}

/// The entry in a place of an expanded group. `None` if it was deleted, or the bytes are no entry.
pub fn entry(bytes: &[u8], place: usize) -> Option<Packed> {
    Packed::read(entries(bytes).nth(place)?)
}

/// Compresses bytes, with their length in front.
///
/// # Errors
/// Memory is short.
pub fn compress(bytes: &[u8]) -> Result<Vec<u8>, Fault> {
    let length = u32::try_from(bytes.len()).map_err(|_| Fault::Damaged("a part over 4 GiB".to_owned()))?;
    COMPRESSOR.with_borrow_mut(|compressor| {
        if compressor.is_none() {
            let mut new = zstd::bulk::Compressor::new(LEVEL)?;
            // Bytes that were damaged on the disk are then an error, not another record.
            new.include_checksum(true)?;
            *compressor = Some(new);
        }
        let mut packed = length.to_le_bytes().to_vec();
        if let Some(compressor) = compressor {
            packed.extend(compressor.compress(bytes)?);
        }
        Ok(packed)
    })
}

thread_local! {
    /// Kept, so that its tables are not allocated for every group.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// Undoes [`compress`].
///
/// # Errors
/// The bytes are not of its making.
pub fn expand(packed: &[u8]) -> Result<Vec<u8>, Fault> {
    let damaged = || Fault::Damaged("a compressed part".to_owned());
    let (length, rest) = packed.split_first_chunk().ok_or_else(damaged)?;
    let length = u32::from_le_bytes(*length) as usize;
    let bytes = zstd::bulk::decompress(rest, length.min(LARGEST)).map_err(|_| damaged())?;
    if bytes.len() == length { Ok(bytes) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_out_of_a_group_as_they_went_in_and_every_flipped_bit_is_found() {
        let bytes: Vec<Vec<u8>> = (0..5_u8).map(|n| vec![n; usize::from(n) * 100]).collect();
        let packed = pack(bytes.iter().map(Vec::as_slice)).unwrap();
        let whole = expand(&packed).unwrap();
        assert!(entries(&whole).eq(bytes.iter().map(Vec::as_slice)));
        for at in 0..packed.len() {
            assert!(expand(&packed[..at]).is_err());
            let mut damaged = packed.clone();
            damaged[at] ^= 0x10;
            // The reserved and unused bits of a frame's head change nothing.
            assert!(expand(&damaged).is_err_and(|fault| fault.to_string().contains("compressed part")) || at < 12);
        }
    }
}
