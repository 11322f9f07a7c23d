use std::fmt;

use serde::{Deserialize, Serialize};

crate::named! {
    /// A kind of content that a model accepts or produces.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum Modality {
        /// Plain text.
        Text = "text",
        /// Images.
        Image = "image",
        /// Audio.
        Audio = "audio",
        /// Documents.
        File = "file",
        /// Video.
        Video = "video",
        /// Embeddings.
        Embeddings = "embeddings",
    }
}

impl Modality {
    /// The modality of that name.
    pub fn parse(text: &str) -> Option<Modality> {
        Modality::ALL.into_iter().find(|modality| modality.as_str() == text)
    }
}

impl fmt::Display for Modality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of modalities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Modalities(u8);

impl Modalities {
    /// The empty set.
    pub const NONE: Modalities = Modalities(0);
    /// Only text.
    pub const TEXT: Modalities = Modalities(1 << Modality::Text as u8);

    /// The set with `modality` added.
    #[must_use]
    pub const fn with(self, modality: Modality) -> Modalities {
        Modalities(self.0 | 1 << modality as u8)
    }

    /// Whether `modality` is in the set.
    #[must_use]
    pub const fn contains(self, modality: Modality) -> bool {
        self.0 & 1 << modality as u8 != 0
    }

    /// Whether everything in `needed` is in the set.
    #[must_use]
    pub const fn covers(self, needed: Modalities) -> bool {
        needed.0 & !self.0 == 0
    }

    /// Whether the sets share a modality.
    #[must_use]
    pub const fn meets(self, other: Modalities) -> bool {
        self.0 & other.0 != 0
    }

    /// What is in the set but not in `other`.
    #[must_use]
    pub const fn without(self, other: Modalities) -> Modalities {
        Modalities(self.0 & !other.0)
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The first member in the order of [`Modality::ALL`]; `None` of an empty set.
    #[must_use]
    pub fn first(self) -> Option<Modality> {
        if self.is_empty() { None } else { self.iter().next() }
    }

    /// The members, in the order of [`Modality::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Modality> {
        Modality::ALL.into_iter().filter(move |modality| self.contains(*modality))
    }
}

impl FromIterator<Modality> for Modalities {
    fn from_iter<I: IntoIterator<Item = Modality>>(modalities: I) -> Modalities {
        modalities.into_iter().fold(Modalities::NONE, Modalities::with)
    }
}
