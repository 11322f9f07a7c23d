//! Images, documents and search results.

use pointsman_domain::Invalid;

use super::{ChatReader, content::Block, refused, required};
use crate::{
    json::Raw,
    neutral::{Content, EscapedText, MediaSource, Part, Path, base64::has_odd_base64, media_type::bare_data, none_of},
};

/// The `source` of an image or a document.
struct Source<'a> {
    kind: Option<Raw<'a>>,
    media_type: Option<Raw<'a>>,
    data: Option<Raw<'a>>,
    url: Option<Raw<'a>>,
    content: Option<Raw<'a>>,
}

impl<'a> Source<'a> {
    fn read(source: Raw<'a>) -> Source<'a> {
        let [kind, media_type, data, url, content] = source.pick([b"type", b"media_type", b"data", b"url", b"content"]);
        Source { kind, media_type, data, url, content }
    }
}

impl<'a> ChatReader<'a> {
    /// An image that was uploaded to the provider can only be found there.
    pub(super) fn image(
        &mut self,
        block: &Block<'a>,
        path: &Path<'_>,
        breakpoint: Option<Raw<'a>>,
        parts: &mut Vec<Part<'a>>,
    ) -> Result<(), Invalid> {
        let path = path.member("source");
        let source = Source::read(block.source.ok_or_else(|| required(path))?);
        let source = match source.kind.and_then(Raw::text).as_deref() {
            Some("base64") => {
                let media_type = needed(source.media_type, &path, "media_type")?;
                let data = self.data(source.data, &path)?;
                if !media_type.unescaped().starts_with("image/") {
                    return Err(refused(path.member("media_type"), "The media type must be one of an image."));
                }
                MediaSource::of_type(&media_type, data)
            }
            Some("url") => MediaSource::Url(web_address(source.url, &path)?),
            Some("file") => {
                self.needs_native(path.member("type"));
                return Ok(());
            }
            _ => return Err(none_of(path.member("type"), source.kind, &["base64", "url"])),
        };
        parts.push(Part::marked(Content::Image { source, detail: None }, breakpoint));
        Ok(())
    }

    pub(super) fn document(
        &mut self,
        block: &Block<'a>,
        path: &Path<'_>,
        breakpoint: Option<Raw<'a>>,
        parts: &mut Vec<Part<'a>>,
    ) -> Result<(), Invalid> {
        let path = path.member("source");
        let source = Source::read(block.source.ok_or_else(|| required(path))?);
        let title = block.title.and_then(EscapedText::read);
        for text in [title.clone(), block.context.and_then(EscapedText::read)].into_iter().flatten() {
            if !text.is_empty() {
                parts.push(Part::new(Content::Text(text)));
            }
        }
        let citations = block.citations.and_then(|citations| citations.member(b"enabled"));
        if citations.is_some_and(|enabled| enabled.bytes() == b"true") {
            self.unsupported.drop("messages[].content[].citations");
        }
        let file = match source.kind.and_then(Raw::text).as_deref() {
            Some("text") => {
                let text = needed(source.data, &path, "data")?;
                parts.push(Part::marked(Content::Text(text), breakpoint));
                return Ok(());
            }
            Some("base64") => {
                let data = self.data(source.data, &path)?;
                let media_type = source.media_type.and_then(EscapedText::read);
                MediaSource::of_type(&media_type.unwrap_or(EscapedText::plain("application/pdf")), data)
            }
            Some("url") => MediaSource::Url(web_address(source.url, &path)?),
            Some("content") => return self.document_of_blocks(source.content, &path, breakpoint, parts),
            Some("file") => {
                self.needs_native(path.member("type"));
                return Ok(());
            }
            _ => {
                let allowed = ["base64", "text", "url", "content", "file"];
                return Err(none_of(path.member("type"), source.kind, &allowed));
            }
        };
        let name = Some(title.unwrap_or(EscapedText::plain("document.pdf")));
        parts.push(Part::marked(Content::File { source: file.typed(name.as_ref()), name }, breakpoint));
        Ok(())
    }

    /// The mark stands for the whole document.
    fn document_of_blocks(
        &mut self,
        content: Option<Raw<'a>>,
        path: &Path<'_>,
        breakpoint: Option<Raw<'a>>,
        parts: &mut Vec<Part<'a>>,
    ) -> Result<(), Invalid> {
        let Some(content) = content else { return Ok(()) };
        if let Some(text) = EscapedText::read(content) {
            parts.push(Part::marked(Content::Text(text), breakpoint));
        }
        let path = path.member("content");
        let mut blocks = content.elements().enumerate().peekable();
        while let Some((index, inner)) = blocks.next() {
            let breakpoint = breakpoint.filter(|_| blocks.peek().is_none());
            let block = Block::read(&mut inner.members());
            match block.text.and_then(EscapedText::read) {
                Some(text) => parts.push(Part::marked(Content::Text(text), breakpoint)),
                None => self.image(&block, &path.item(index), breakpoint, parts)?,
            }
        }
        Ok(())
    }

    pub(super) fn search_result(&mut self, block: &Block<'a>, breakpoint: Option<Raw<'a>>, parts: &mut Vec<Part<'a>>) {
        self.unsupported.emulate("messages[].content[].type");
        let word = |value: Option<Raw<'a>>| value.and_then(Raw::text).unwrap_or_default();
        let mut text = format!("Search result: {} ({})", word(block.title), word(block.source));
        for inner in block.content.into_iter().flat_map(Raw::elements) {
            text.push('\n');
            text.push_str(&word(inner.member(b"text")));
        }
        parts.push(Part::marked(Content::Text(EscapedText::escaping(&text)), breakpoint));
    }

    /// The data of a source in base64.
    fn data(&mut self, data: Option<Raw<'a>>, path: &Path<'_>) -> Result<EscapedText<'a>, Invalid> {
        let text = needed(data, path, "data")?;
        self.has_odd_base64 |= data.is_some_and(|data| has_odd_base64(data, true));
        Ok(bare_data(text))
    }
}

fn needed<'a>(value: Option<Raw<'a>>, source: &Path<'_>, name: &str) -> Result<EscapedText<'a>, Invalid> {
    value.and_then(EscapedText::read).ok_or_else(|| required(source.member(name)))
}

/// An address that a provider may be given.
fn web_address<'a>(url: Option<Raw<'a>>, source: &Path<'_>) -> Result<EscapedText<'a>, Invalid> {
    let address = needed(url, source, "url")?;
    if ["https://", "http://"].iter().any(|scheme| address.unescaped().starts_with(scheme)) {
        return Ok(address);
    }
    Err(refused(source.member("url"), "The address must begin with https:// or http://."))
}
