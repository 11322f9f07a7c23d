//! Citations of a text block as annotations of chat, and back.

use bytes::BytesMut;

use crate::{
    answer::AnswerResult,
    json::Raw,
    neutral::{AnswerEvent, AnswerSink, url_citation},
};

/// Most bytes of the citations of one block; further ones are left out.
const MAX_BYTES: usize = 1_024 * 1_024;

/// Citations of a text block that has not ended: where its text ends is known only then.
#[derive(Debug, Default)]
pub(super) struct Citations {
    /// Each as it came, JSON.
    noted: Vec<String>,
    bytes: usize,
}

impl Citations {
    /// Notes a citation.
    pub(super) fn note(&mut self, citation: Raw<'_>) {
        let bytes = self.bytes + citation.bytes().len();
        if citation.is_object() && bytes <= MAX_BYTES {
            self.bytes = bytes;
            self.noted.push(citation.written().to_owned());
        }
    }

    /// Hands the citations on. `start` and `end`: where the block stands in the text of the answer, in characters.
    ///
    /// # Errors
    /// Fails if the sink does.
    pub(super) fn finish(self, start: u64, end: u64, sink: &mut impl AnswerSink) -> AnswerResult {
        for json in self.noted {
            let page = Raw::whole(&json).ok().map_or([None; 2], |citation| citation.pick([b"url", b"title"]));
            let [url, title] = page.map(|value| value.and_then(Raw::filled_string));
            sink.event(match url {
                Some(url) => {
                    let json = url_citation(start, end, title.unwrap_or(url).bytes(), url.bytes());
                    AnswerEvent::Annotation { choice: 0, json: json.into() }
                }
                None => AnswerEvent::DocumentCitation { choice: 0, json: json.into_bytes().into() },
            })?;
        }
        Ok(())
    }
}

/// Appends the citation that an annotation of chat stands for. Returns false for one that this API has no form for. What the
/// page says is not known.
pub(super) fn push_citation(annotation: &[u8], out: &mut BytesMut) -> bool {
    let value = Raw::whole_of(annotation);
    let Some(page) = value.and_then(|value| value.member(b"url_citation")) else { return false };
    let Some(url) = page.member(b"url").and_then(Raw::filled_string) else { return false };
    let title = page.member(b"title").and_then(Raw::filled_string).unwrap_or(url);
    push!(out; br#"{"type":"web_search_result_location","cited_text":"","encrypted_index":"","title":"#, title.bytes(),
        br#","url":"#, url.bytes(), b"}");
    true
}
