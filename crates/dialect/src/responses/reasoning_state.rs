//! Reasoning of another provider as `encrypted_content`: sealed, so that it comes back as that provider wants it.
//!
//! The text that a client sees is in the item's summary and not in the envelope. The envelope has a hash of it, because
//! providers refuse reasoning whose text was changed.

use pointsman_domain::ReasoningFormat;
use sha2::{Digest as _, Sha256};

use crate::neutral::{Envelope, ReasoningKind, StateKey};

/// Between the id and the data. Ids are words.
const SEPARATOR: char = '\n';
/// Characters of the hash.
const HASH: usize = 16;

/// Reasoning of another provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ForeignReasoning {
    pub(super) format: ReasoningFormat,
    pub(super) kind: ReasoningKind,
    /// Id of the item or call that it belongs to; empty if there is none.
    pub(super) id: String,
    /// The signature of the text, or the encrypted data; empty if there is none.
    pub(super) data: String,
}

/// What the `encrypted_content` of a client turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opened {
    /// That of the API itself.
    Native,
    /// Sealed here.
    Foreign(ForeignReasoning),
    /// It looks like ours and is not, or the text that it belongs to was changed.
    Unusable,
}

impl ForeignReasoning {
    /// The envelope. `shown`: the text that the client sees.
    pub(super) fn seal(&self, key: &StateKey, shown: &str) -> String {
        let kind = match self.kind {
            ReasoningKind::Text => 't',
            ReasoningKind::Summary => 's',
            ReasoningKind::Encrypted => 'e',
        };
        let id = if self.id.contains(SEPARATOR) { "" } else { &self.id };
        key.seal(self.format, &format!("{kind}{}{id}{SEPARATOR}{}", hash(shown), self.data))
    }
}

/// Opens `encrypted_content`. `shown`: the text that came with it.
pub(super) fn open(key: &StateKey, encrypted: &str, shown: &str) -> Opened {
    match key.open(encrypted) {
        Envelope::Foreign => Opened::Native,
        Envelope::Forged => Opened::Unusable,
        Envelope::Genuine { format, state } => read(format, &state, shown).map_or(Opened::Unusable, Opened::Foreign),
    }
}

fn read(format: ReasoningFormat, state: &str, shown: &str) -> Option<ForeignReasoning> {
    let (head, data) = state.split_once(SEPARATOR)?;
    let (kind, rest) = head.split_at_checked(1)?;
    let (known, id) = rest.split_at_checked(HASH)?;
    let kind = match kind {
        "t" => ReasoningKind::Text,
        "s" => ReasoningKind::Summary,
        "e" => ReasoningKind::Encrypted,
        _ => return None,
    };
    let is_unchanged = kind == ReasoningKind::Encrypted || known == hash(shown);
    is_unchanged.then(|| ForeignReasoning { format, kind, id: id.to_owned(), data: data.to_owned() })
}

fn hash(shown: &str) -> String {
    let digest = Sha256::digest(shown.as_bytes());
    hex::encode(digest.get(..HASH / 2).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: StateKey = StateKey::new([3; 32]);

    #[test]
    fn what_was_sealed_comes_back_with_its_text_and_not_with_another_one() {
        for kind in [ReasoningKind::Text, ReasoningKind::Summary, ReasoningKind::Encrypted] {
            for (id, data) in [("", ""), ("call_1", "AbC=\n2")] {
                let reasoning =
                    ForeignReasoning { format: ReasoningFormat::Gemini, kind, id: id.into(), data: data.into() };
                let sealed = reasoning.seal(&KEY, "thought é");
                assert_eq!(open(&KEY, &sealed, "thought é"), Opened::Foreign(reasoning.clone()));
                let changed = open(&KEY, &sealed, "another");
                assert_eq!(changed == Opened::Unusable, kind != ReasoningKind::Encrypted, "{kind:?}");
            }
        }
        assert_eq!(open(&KEY, "gAAAAB", "x"), Opened::Native);
        assert_eq!(open(&KEY, "pm1.AAAA", "x"), Opened::Unusable);
        assert_eq!(open(&KEY, &KEY.seal(ReasoningFormat::Gemini, ""), "x"), Opened::Unusable);
    }
}
