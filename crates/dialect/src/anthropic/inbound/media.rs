//! Images, documents and search results.

use pointsman_domain::Invalid;

use super::{ChatReader, content::Block, refused, required};
use crate::{
    json::Raw,
    neutral::{
        Content, EscapedText, MediaSource, Part, Path, UnsupportedFields, base64::has_odd_base64,
        media_type::bare_data, none_of,
    },
};

/// Members of the `source` of an image or a document.
const OF_SOURCES: [&[u8]; 5] = [b"type", b"media_type", b"data", b"url", b"content"];

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
        let source = block.source.ok_or_else(|| required(path))?;
        let [kind, media_type, data, url, _] = source.pick(OF_SOURCES);
        let source = match kind.and_then(Raw::text).as_deref() {
            Some("base64") => {
                let media_type = needed(media_type, &path, "media_type")?;
                let data = self.data(data, &path)?;
                if !media_type.unescaped().starts_with("image/") {
                    return Err(refused(path.member("media_type"), "The media type must be one of an image."));
                }
                MediaSource::of_type(&media_type, data)
            }
            Some("url") => MediaSource::Url(web_address(url, &path)?),
            Some("file") => {
                self.needs_native(path.member("type"));
                return Ok(());
            }
            _ => return Err(none_of(path.member("type"), kind, &["base64", "url"])),
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
        let source = block.source.ok_or_else(|| required(path))?;
        let [kind, media_type, data, url, content] = source.pick(OF_SOURCES);
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
        let file = match kind.and_then(Raw::text).as_deref() {
            Some("text") => {
                let text = needed(data, &path, "data")?;
                parts.push(Part::marked(Content::Text(text), breakpoint));
                return Ok(());
            }
            Some("base64") => {
                let data = self.data(data, &path)?;
                let media_type = media_type.and_then(EscapedText::read);
                MediaSource::of_type(&media_type.unwrap_or(EscapedText::plain("application/pdf")), data)
            }
            Some("url") => MediaSource::Url(web_address(url, &path)?),
            Some("content") => return self.document_of_blocks(content, &path, breakpoint, parts),
            Some("file") => {
                self.needs_native(path.member("type"));
                return Ok(());
            }
            _ => {
                let allowed = ["base64", "text", "url", "content", "file"];
                return Err(none_of(path.member("type"), kind, &allowed));
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
            let block = Block::read(&mut inner.members(), "", &mut UnsupportedFields::default());
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
