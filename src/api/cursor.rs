//! Cursors of lists of generations: a place in the order of the ledger as opaque text.
//!
//! A cursor holds a checksum over its place and the list it belongs to. It protects nothing; it turns a cut or mixed-up
//! cursor into an error instead of a wrong page.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use pointsman_domain::{Invalid, InvalidReason};
use pointsman_ledger::entry::{Id, Key};
use sha2::{Digest as _, Sha256};

use crate::base::error::ApiError;

/// First byte of a cursor: its format.
const FORMAT: u8 = 1;
/// Bytes of the place: time and id.
const PLACE: usize = 8 + Id::LENGTH;

/// Writes a cursor of the list of `owner`, or of all records.
pub(super) fn write(key: &Key, owner: Option<u64>) -> String {
    let place: Vec<u8> = key.created_ms.to_be_bytes().into_iter().chain(key.id.0).collect();
    let bytes: Vec<u8> = [FORMAT].into_iter().chain(checksum(&place, owner)).chain(place).collect();
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads a cursor that [`write`] made for the same list.
///
/// # Errors
/// 400 for any other text.
pub(super) fn read(text: &str, owner: Option<u64>) -> Result<Key, ApiError> {
    decode(text, owner).ok_or_else(|| {
        let message = "'after' must be 'next' of a page of this list, read with the same key.";
        ApiError::invalid(Invalid::field(InvalidReason::InvalidValue, "after", message))
    })
}

fn decode(text: &str, owner: Option<u64>) -> Option<Key> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (head, place) = bytes.split_at_checked(5)?;
    let (format, sum) = head.split_first()?;
    if *format != FORMAT || place.len() != PLACE || sum != checksum(place, owner) {
        return None;
    }
    let (time, id) = place.split_first_chunk()?;
    Some(Key { created_ms: i64::from_be_bytes(*time), id: Id(id.try_into().ok()?) })
}

fn checksum(place: &[u8], owner: Option<u64>) -> [u8; 4] {
    let list = owner.map_or_else(|| "all".to_owned(), |owner| format!("owner {owner:016x}"));
    let digest = Sha256::new().chain_update(list).chain_update(place).finalize();
    digest.first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { created_ms: 1_763_629_500_250, id: Id([7; Id::LENGTH]) };

    #[test]
    fn a_cursor_is_read_back_by_the_list_that_wrote_it_only() {
        for owner in [None, Some(0), Some(u64::MAX)] {
            let cursor = write(&KEY, owner);
            assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{cursor}");
            assert_eq!(read(&cursor, owner).unwrap(), KEY);
            for other in [None, Some(0), Some(u64::MAX), Some(1)].into_iter().filter(|other| *other != owner) {
                assert!(read(&cursor, other).is_err(), "{owner:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_cursor_with_any_character_changed_or_cut_is_refused() {
        let cursor = write(&KEY, None);
        for at in 0..cursor.len() {
            let mut changed = cursor.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(read(std::str::from_utf8(&changed).unwrap(), None).is_err(), "{at}");
            assert!(read(cursor.get(..at).unwrap(), None).is_err(), "{at}");
        }
        for text in [format!("{cursor}A"), format!("{cursor}="), "é".to_owned(), "5".to_owned()] {
            assert_eq!(read(&text, None).unwrap_err().status().as_u16(), 400, "{text}");
        }
    }
}
