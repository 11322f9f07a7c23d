//! Our own key, found in a provider's answer, is blotted out before anybody reads it.
//!
//! A key that the provider splits over two reads is not recognised: whoever does that has the key anyway.

use bytes::{Bytes, BytesMut};
use memchr::memmem::Finder;

use crate::base::secret::Secret;

/// A shorter secret would be found in every other word.
const SHORTEST: usize = 8;
/// Keeps every length as it was, so that framing and JSON stay whole.
const BLOT: u8 = b'*';

/// Finds one secret in a stream of bytes.
pub(super) struct Mask(Finder<'static>);

impl Mask {
    /// The mask of a secret; `None` when there is none that could be told from ordinary text.
    pub(super) fn of(secret: Option<&Secret>) -> Option<Mask> {
        let secret = secret.filter(|secret| secret.expose().len() >= SHORTEST)?;
        Some(Mask(Finder::new(secret.expose()).into_owned()))
    }

    /// `bytes` with every occurrence blotted out; copied only when there is one.
    pub(super) fn apply(&self, bytes: Bytes) -> Bytes {
        if self.0.find(&bytes).is_none() {
            return bytes;
        }
        let length = self.0.needle().len();
        let places: Vec<usize> = self.0.find_iter(&bytes).collect();
        let mut blotted = BytesMut::from(bytes.as_ref());
        for place in places {
            if let Some(found) = blotted.get_mut(place..place + length) {
                found.fill(BLOT);
            }
        }
        blotted.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &'static str) -> String {
        let mask = Mask::of(Some(&Secret::new("provider-key-1".to_owned()))).unwrap();
        String::from_utf8(mask.apply(Bytes::from_static(text.as_bytes())).to_vec()).unwrap()
    }

    #[test]
    fn our_key_is_blotted_out_wherever_it_stands() {
        assert_eq!(masked("{\"a\":\"provider-key-1provider-key-1\"}"), "{\"a\":\"****************************\"}");
        assert_eq!(masked("provider-key-2"), "provider-key-2");
    }

    #[test]
    fn a_short_secret_is_not_searched_for() {
        assert!(Mask::of(Some(&Secret::new("key".to_owned()))).is_none());
        assert!(Mask::of(None).is_none());
    }
}
