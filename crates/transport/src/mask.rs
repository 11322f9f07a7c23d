//! Masks the provider key in a provider's answer.
//!
//! A key that is split over two reads is not found.

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;
use pointsman_base::secret::Secret;

/// Shortest secret to search for, in bytes. A shorter one could occur in ordinary text.
const MIN_LENGTH: usize = 8;
/// Replaces each byte of a secret. The length stays the same, so framing and JSON stay valid.
const MASK_BYTE: u8 = b'*';

/// Finds one secret in a stream of bytes.
pub(super) struct Mask(Finder<'static>);

impl Mask {
    /// `None` if there is no secret, or it is too short.
    pub(super) fn new(secret: Option<&Secret>) -> Option<Mask> {
        let secret = secret.filter(|secret| secret.expose().len() >= MIN_LENGTH)?;
        Some(Mask(Finder::new(secret.expose()).into_owned()))
    }

    /// Masks every occurrence. Copies `bytes` only if there is one.
    pub(super) fn apply(&self, bytes: Bytes) -> Bytes {
        if self.0.find(&bytes).is_none() {
            return bytes;
        }
        let length = self.0.needle().len();
        let positions: Vec<usize> = self.0.find_iter(&bytes).collect();
        let mut masked = BytesMut::from(bytes.as_ref());
        for position in positions {
            if let Some(found) = masked.get_mut(position..position + length) {
                found.fill(MASK_BYTE);
            }
        }
        masked.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &'static str) -> String {
        let mask = Mask::new(Some(&Secret::new("provider-key-1".to_owned()))).unwrap();
        String::from_utf8(mask.apply(Bytes::from_static(text.as_bytes())).to_vec()).unwrap()
    }

    #[test]
    fn every_occurrence_of_the_key_is_masked() {
        assert_eq!(masked("{\"a\":\"provider-key-1provider-key-1\"}"), "{\"a\":\"****************************\"}");
        assert_eq!(masked("provider-key-2"), "provider-key-2");
    }

    #[test]
    fn a_short_secret_is_not_searched_for() {
        assert!(Mask::new(Some(&Secret::new("key".to_owned()))).is_none());
        assert!(Mask::new(None).is_none());
    }
}
