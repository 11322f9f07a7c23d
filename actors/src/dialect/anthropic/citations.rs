//! Citations of a text block as annotations of chat, and back.

use bytes::{BufMut as _, BytesMut};

use crate::dialect::{
    answer::AnswerFault,
    json::{Raw, push_member},
    neutral::{AnswerEvent, AnswerSink, json_value, url_citation},
};

/// Most bytes of the citations of one block.
const MAX_BYTES: usize = 64 * 1_024;

/// Web citations of a text block that has not ended: where its text ends is known only then.
#[derive(Debug, Default)]
pub(super) struct Citations {
    /// Title and address of each, quoted.
    pages: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl Citations {
    /// Notes a citation. One of a document, which chat has no form for, is left out.
    ///
    /// # Errors
    /// When the block has too many.
    pub(super) fn note(&mut self, citation: Raw<'_>) -> Result<(), AnswerFault> {
        let Some(url) = citation.member(b"url").and_then(Raw::filled_string) else { return Ok(()) };
        let title = citation.member(b"title").and_then(Raw::filled_string).unwrap_or(url);
        self.bytes += title.bytes().len() + url.bytes().len();
        if self.bytes > MAX_BYTES {
            return Err(AnswerFault::malformed("the citations of a block are too long"));
        }
        self.pages.push((title.bytes().to_vec(), url.bytes().to_vec()));
        Ok(())
    }

    /// Hands the citations on. `start` and `end`: where the block stands in the text of the answer, in characters.
    ///
    /// # Errors
    /// Fails if the sink does.
    pub(super) fn finish(self, start: u64, end: u64, sink: &mut impl AnswerSink) -> Result<(), AnswerFault> {
        for (title, url) in self.pages {
            let json = url_citation(start, end, &title, &url);
            sink.event(AnswerEvent::Annotation { choice: 0, json: json.into() })?;
        }
        Ok(())
    }
}

/// Appends the citation that an annotation of chat stands for. Returns false for one that this API has no form for. What the
/// page says is not known.
pub(super) fn push_citation(annotation: &[u8], out: &mut BytesMut) -> bool {
    let value = std::str::from_utf8(annotation).ok().and_then(json_value);
    let Some(page) = value.and_then(|value| value.member(b"url_citation")) else { return false };
    let Some(url) = page.member(b"url").and_then(Raw::filled_string) else { return false };
    let title = page.member(b"title").and_then(Raw::filled_string).unwrap_or(url);
    out.put_slice(b"{\"type\":\"web_search_result_location\",\"cited_text\":\"\",\"encrypted_index\":\"\"");
    push_member(out, b"title", title.bytes());
    push_member(out, b"url", url.bytes());
    out.put_u8(b'}');
    true
}
