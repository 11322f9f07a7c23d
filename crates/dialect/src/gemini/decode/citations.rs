//! Citations and grounding of a candidate as annotations of chat.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use super::positions::Positions;
use crate::{
    answer::{AnswerFault, AnswerResult},
    json::Raw,
    neutral::{AnswerEvent, AnswerSink, url_citation},
};

/// Most citations of a candidate.
const MAX_CITATIONS: usize = 1_024;

/// What a candidate says of its sources.
#[derive(Clone, Copy)]
pub(super) struct CitedSources<'a> {
    /// `citationMetadata`
    pub(super) citation: Option<Raw<'a>>,
    /// `groundingMetadata`
    pub(super) grounding: Option<Raw<'a>>,
}

impl CitedSources<'_> {
    /// Whether there are any.
    pub(super) const fn any(&self) -> bool {
        self.citation.is_some() || self.grounding.is_some()
    }
}

/// The citations that were handed on: a stream may repeat them.
#[derive(Debug, Default)]
pub(super) struct Citations {
    seen: HashSet<u64>,
}

impl Citations {
    /// Hands on what a candidate cites, each once. Places are bytes of the text there, and characters in chat.
    ///
    /// # Errors
    /// When there are too many, and those of the sink.
    pub(super) fn read(
        &mut self,
        sources: CitedSources<'_>,
        positions: &Positions,
        choice: u32,
        sink: &mut impl AnswerSink,
    ) -> AnswerResult {
        let mut give = |place: Raw<'_>, page: Raw<'_>| {
            let byte = |name: &[u8]| place.member(name).and_then(Raw::count).unwrap_or(0);
            let Some(url) = page.member(b"uri").and_then(Raw::filled_string) else { return Ok(()) };
            let title = page.member(b"title").and_then(Raw::filled_string).unwrap_or(url);
            let start = positions.characters_before(byte(b"startIndex"));
            let (Some(start), Some(end)) = (start, positions.characters_before(byte(b"endIndex"))) else {
                return Ok(());
            };
            if !self.seen.insert(hash((start, end, url.bytes()))) {
                return Ok(());
            }
            if self.seen.len() > MAX_CITATIONS {
                return Err(AnswerFault::malformed("too many citations"));
            }
            let json = url_citation(start, end, title.bytes(), url.bytes());
            sink.event(AnswerEvent::Annotation { choice, json: json.into() })
        };
        if let Some(cited) = sources.citation {
            let lists = [&b"citations"[..], b"citationSources"].into_iter().filter_map(|name| cited.member(name));
            lists.flat_map(Raw::elements).try_for_each(|citation| give(citation, citation))?;
        }
        let Some(grounding) = sources.grounding else { return Ok(()) };
        let pages: Vec<Option<Raw<'_>>> = grounding.elements_of(b"groundingChunks").map(page).collect();
        for support in grounding.elements_of(b"groundingSupports") {
            let Some(segment) = support.member(b"segment") else { continue };
            let chunks = support.elements_of(b"groundingChunkIndices");
            let chunks = chunks.filter_map(|index| usize::try_from(index.count()?).ok());
            for page in chunks.filter_map(|index| *pages.get(index)?) {
                give(segment, page)?;
            }
        }
        Ok(())
    }
}

/// The page, document or place of a chunk.
fn page(chunk: Raw<'_>) -> Option<Raw<'_>> {
    [&b"web"[..], b"retrievedContext", b"maps", b"image"].into_iter().find_map(|name| chunk.member(name))
}

fn hash(citation: (u64, u64, &[u8])) -> u64 {
    let mut hasher = DefaultHasher::new();
    citation.hash(&mut hasher);
    hasher.finish()
}
