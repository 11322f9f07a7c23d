use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A catalog id of the form `<namespace>/<name>`: exactly one slash, both parts non-empty.
///
/// The namespace is the maker of the model, not necessarily its provider. Cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ModelId(Arc<str>);

/// Why a text is not a model id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelIdFault;

impl fmt::Display for ModelIdFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be \"<namespace>/<name>\" with exactly one slash and only printable ASCII without spaces")
    }
}

impl ModelId {
    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The whole id, shared: for records that outlive the catalog.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// The maker of the model: the part before the slash.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }
}

impl FromStr for ModelId {
    type Err = ModelIdFault;

    fn from_str(text: &str) -> Result<ModelId, ModelIdFault> {
        let (namespace, name) = text.split_once('/').ok_or(ModelIdFault)?;
        let printable = text.bytes().all(|b| b.is_ascii_graphic() && b != b'*' && b != b'"' && b != b'\\');
        let good = !namespace.is_empty() && !name.is_empty() && !name.contains('/') && printable && text.len() <= 256;
        if good { Ok(ModelId(text.into())) } else { Err(ModelIdFault) }
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The short name of a provider in configuration, limits and metrics: lower-case letters, digits, `-`, `_`, `.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProviderSlug(Arc<str>);

impl ProviderSlug {
    /// The slug, if `text` is one.
    pub fn new(text: &str) -> Option<ProviderSlug> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.');
        let good = !text.is_empty() && text.len() <= 64 && text.bytes().all(allowed);
        good.then(|| ProviderSlug(text.into()))
    }

    /// The slug as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The slug, shared: for records that outlive the catalog.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Display for ProviderSlug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A stable name of an endpoint: the same for the same model at the same provider across reloads,
/// restarts and replicas. Seeds the noise of a decision and keys the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EndpointId(pub u64);

impl EndpointId {
    /// The id of `model` at `provider`. `variant` distinguishes several endpoints; it is empty when there is only one.
    pub fn new(model: &str, provider: &str, variant: &str) -> EndpointId {
        // FNV-1a: stable by definition, unlike the standard library's hasher.
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let parts = [model, "\0", provider, "\0", variant];
        EndpointId(parts.iter().flat_map(|part| part.bytes()).fold(0xcbf2_9ce4_8422_2325, step))
    }
}

/// The name of one generation: `gen-<unix seconds>-<22 characters of [A-Za-z0-9]>`, 131 random bits.
///
/// Sorts by the second it was made in. Held inline: 37 bytes at most, no allocation, cheap to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GenerationId {
    text: [u8; GenerationId::CAPACITY],
    length: u8,
}

/// Of eight bytes that all characters have a part in, most of them random already. No client chooses an id that a map keeps.
impl Hash for GenerationId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (words, _) = self.text.as_chunks();
        let mix = |sum: u64, word: &[u8; 8]| sum.rotate_left(23) ^ u64::from_le_bytes(*word);
        state.write_u64(words.iter().fold(0, mix));
    }
}

impl GenerationId {
    /// The longest id that is accepted.
    pub const CAPACITY: usize = 48;
    /// Random characters at the end.
    pub const SUFFIX: usize = 22;
    const PREFIX: &'static str = "gen-";
    const ALPHABET: &'static [u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

    /// The id made at `unix_seconds` from 132 random bits, of which 131 are kept.
    pub fn new(unix_seconds: u64, random: [u64; 3]) -> GenerationId {
        let mut id = GenerationId { text: [0; Self::CAPACITY], length: 0 };
        id.extend(Self::PREFIX.as_bytes());
        let mut digits = [0_u8; 20];
        let mut rest = unix_seconds;
        let mut first = digits.len();
        for (position, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            first = position;
            if rest == 0 {
                break;
            }
        }
        id.extend(digits.get(first..).unwrap_or_default());
        id.extend(b"-");
        // Eight characters a word: 62^8 < 2^48, so the bias of the remainder is below 2^-16.
        let mut suffix = [0; Self::SUFFIX];
        for (mut rest, places) in random.into_iter().zip(suffix.chunks_mut(8)) {
            for place in places {
                *place = Self::ALPHABET.get((rest % 62) as usize).copied().unwrap_or_default();
                rest /= 62;
            }
        }
        id.extend(&suffix);
        id
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        let bytes = self.text.get(..usize::from(self.length)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The second it was made in, and its random characters. `None` in place of a second that no number can tell.
    pub fn parts(&self) -> (Option<u64>, &[u8; Self::SUFFIX]) {
        let text = self.text.get(..usize::from(self.length)).unwrap_or_default();
        let Some((head, suffix)) = text.split_last_chunk() else { return (None, &[0; Self::SUFFIX]) };
        let digits = head.get(Self::PREFIX.len()..head.len().saturating_sub(1)).unwrap_or_default();
        let add = |seconds: u64, digit: &u8| seconds.checked_mul(10)?.checked_add(u64::from(digit.wrapping_sub(b'0')));
        let seconds = digits.iter().try_fold(0, add);
        (seconds.filter(|_| !digits.is_empty()), suffix)
    }

    /// Parses the id. Does not check whether the generation exists.
    pub fn parse(text: &str) -> Option<GenerationId> {
        let (seconds, suffix) = text.strip_prefix(Self::PREFIX)?.split_once('-')?;
        let shaped = !seconds.is_empty()
            && seconds.bytes().all(|b| b.is_ascii_digit())
            && suffix.len() == Self::SUFFIX
            && suffix.bytes().all(|b| b.is_ascii_alphanumeric());
        if !shaped || text.len() > Self::CAPACITY {
            return None;
        }
        let mut id = GenerationId { text: [0; Self::CAPACITY], length: 0 };
        id.extend(text.as_bytes());
        Some(id)
    }

    fn extend(&mut self, bytes: &[u8]) {
        let start = usize::from(self.length);
        if let Some(room) = self.text.get_mut(start..start + bytes.len()) {
            room.copy_from_slice(bytes);
            self.length += bytes.len() as u8;
        }
    }
}

impl Serialize for GenerationId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for GenerationId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GenerationId, D::Error> {
        GenerationId::parse(&String::deserialize(deserializer)?).ok_or(D::Error::custom("no id of a generation"))
    }
}

impl fmt::Display for GenerationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_id_has_exactly_one_slash() {
        assert!("acme/small".parse::<ModelId>().is_ok());
        for bad in ["small", "/small", "acme/", "a/b/c", "acme/*", "acme/sm all", ""] {
            assert!(bad.parse::<ModelId>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn generation_ids_parse_back_and_have_the_promised_shape() {
        let id = GenerationId::new(1_763_629_500, [u64::MAX, 1, 42]);
        assert_eq!(id.as_str().len(), "gen-1763629500-".len() + GenerationId::SUFFIX);
        assert_eq!(GenerationId::parse(id.as_str()), Some(id));
        let (seconds, suffix) = id.parts();
        assert_eq!(seconds, Some(1_763_629_500));
        assert_eq!(id.as_str().as_bytes().strip_prefix(b"gen-1763629500-"), Some(&suffix[..]));
        let late = format!("gen-99999999999999999999-{}", str::from_utf8(suffix).unwrap());
        assert_eq!(GenerationId::parse(&late).map(|late| late.parts().0), Some(None));
        for bad in ["gen-", "gen-1-short", "chat-1-AbCdEfGhIjKlMnOpQrStUv", "gen-x-AbCdEfGhIjKlMnOpQrStUv"] {
            assert_eq!(GenerationId::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn an_endpoint_keeps_its_id_for_ever() {
        assert_eq!(EndpointId::new("acme/small", "acme", ""), EndpointId::new("acme/small", "acme", ""));
        assert_ne!(EndpointId::new("acme/small", "acme", ""), EndpointId::new("acme/smal", "lacme", ""));
    }
}
