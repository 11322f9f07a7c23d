//! The parts of a message: text, images, sound, files, video.
//!
//! Text is measured as it goes by. The others are recognised and their frame is checked; their bytes are
//! never decoded and no address is ever opened.

use pointsman_domain::{Capability, CapabilitySet, Invalid, Modality};

use super::{
    byte_span::{Edit, Replacement},
    conversation_summary::ConversationSummary,
    fault,
    json::{self, Object, required_string},
    json_type::JsonType,
    stopped::{Stopped, once},
};
use crate::{
    converse,
    json::{Cursor, Raw},
    neutral::{
        Content, EscapedText, MediaSource, Path,
        base64::has_odd_base64,
        media_type::{FileKind, type_of_file, type_of_name},
        shown,
    },
    openai::conversation_reader::ContentPart,
};

/// How much of an address is looked at: the head of a data URL is far shorter.
const ADDRESS_HEAD: usize = 256;
/// Types of images that all APIs take.
const IMAGES: [&str; 5] = ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"];
/// How closely an image may be looked at.
const DETAILS: [&str; 4] = ["auto", "low", "high", "original"];

/// What a part holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    Text,
    Image,
    Audio,
    File,
    Video,
    Refusal,
    /// What the gateway does not know: only an endpoint that speaks chat can take it, as it is.
    Unknown,
}

impl PartKind {
    const KNOWN: [&'static str; 6] = ["text", "image_url", "input_audio", "file", "video_url", "refusal"];

    fn read(raw: Raw<'_>, path: &Path<'_>) -> Result<PartKind, Invalid> {
        Ok(match &*json::text(raw, path)? {
            "text" => PartKind::Text,
            "image_url" => PartKind::Image,
            "input_audio" => PartKind::Audio,
            "file" => PartKind::File,
            "video_url" => PartKind::Video,
            "refusal" => PartKind::Refusal,
            _ => PartKind::Unknown,
        })
    }

    /// The mistake of sending such a type where nobody takes it.
    fn unknown(raw: Raw<'_>, path: &Path<'_>) -> Invalid {
        let message = format!("Unknown content part type '{}'.", shown(&raw.text().unwrap_or_default()));
        fault::refused(path, message).allowing(Self::KNOWN)
    }

    /// What a model must be able to take.
    fn modality(self) -> Option<Modality> {
        match self {
            PartKind::Text | PartKind::Refusal | PartKind::Unknown => None,
            PartKind::Image => Some(Modality::Image),
            PartKind::Audio => Some(Modality::Audio),
            PartKind::File => Some(Modality::File),
            PartKind::Video => Some(Modality::Video),
        }
    }
}

/// Reads the part that comes next into the conversation. `place`: the positions of the message and of the part.
pub(super) fn read_part<'a>(
    cursor: &mut Cursor<'a>,
    conversation: &mut ConversationSummary<'a>,
    path: &Path<'_>,
    place: (usize, usize),
) -> Result<PartKind, Stopped> {
    let mut part = Part::default();
    let other = cursor.each_member(|cursor, key| match part.members.slot(&key.name()) {
        Some(slot) => once(slot, cursor.value()?, path, key),
        None => {
            part.other_bytes += cursor.value()?.written().len();
            Ok(())
        }
    })?;
    if let Some(other) = other {
        return Err(fault::wrong_type(path, "an object", JsonType::of(other)).into());
    }
    let of = path.member("type");
    let given = part.members.kind.and_then(json::given).ok_or_else(|| fault::required(&of))?;
    let kind = PartKind::read(given, &of)?;
    if kind == PartKind::Unknown {
        conversation.not_understood.get_or_insert_with(|| fault::in_prompt(PartKind::unknown(given, &of)));
    }
    if let Some(text) = part.members.text.filter(|text| text.is_string()) {
        conversation.opening.text(|| text.text().unwrap_or_default());
        conversation.texts.push(text.inner());
    }
    note(conversation, kind, part.content(kind, path)?, place);
    conversation.extras.odd_base64 |= part.has_odd_base64();
    if let Some(medium) = part.media().next() {
        conversation.opening.medium(medium.written());
    }
    if kind == PartKind::Image {
        // A bare address is passed on as the object that upstreams expect.
        if let Some(raw) = part.members.image_url.filter(|raw| raw.is_string()) {
            let span = conversation.source.span(raw);
            conversation.edits.push(Edit { span, want: Replacement::ImageObject });
        }
    }
    Ok(kind)
}

/// Notes a part, which stands at these positions of the message and of the part.
fn note(conversation: &mut ConversationSummary<'_>, kind: PartKind, content: PartContent, place: (usize, usize)) {
    conversation.tally.bytes += content.text_bytes;
    conversation.tally.images += usize::from(kind == PartKind::Image);
    conversation.has_remote_media |= content.is_remote;
    conversation.has_other_images |= content.is_other_image;
    conversation.media = conversation.media.union(content.other);
    if content.is_unsafe {
        conversation.media = conversation.media.with(Capability::HttpMedia);
    }
    if let Some(modality) = kind.modality() {
        conversation.note_input(modality, place.0, place.1);
    }
}

/// Notes a medium that came in another API; nothing for any other content.
pub(super) fn note_medium(conversation: &mut ConversationSummary<'_>, medium: &Content<'_>, place: (usize, usize)) {
    let (kind, source, name) = match medium {
        Content::Image { source, .. } => (PartKind::Image, source, None),
        Content::File { source, name } => (PartKind::File, source, name.as_ref().map(EscapedText::unescaped)),
        Content::Audio { format, data } => {
            conversation.opening.medium(data.as_str());
            let content = PartContent::of_sound(&format.unescaped());
            return note(conversation, PartKind::Audio, content, place);
        }
        _ => return,
    };
    let of = |media_type: &str| match kind {
        PartKind::File => PartContent::of_file_type(media_type),
        _ => PartContent::of_image_type(media_type),
    };
    let (text, content) = match source {
        MediaSource::Base64 { media_type, data } => (data, of(media_type.as_str())),
        MediaSource::FileId(id) => (id, PartContent::medium(true)),
        MediaSource::Text { head, text } => {
            let head = head.unescaped();
            // A data URL without a type is plain text.
            let given = head.split(';').next().filter(|given| !given.is_empty()).unwrap_or("text/plain");
            (text, of(&type_of_file(given, name.as_deref(), text.as_str())))
        }
        MediaSource::Url(url) => (url, at_address(&url.unescaped(), kind, name.as_deref())),
    };
    conversation.opening.medium(text.as_str());
    note(conversation, kind, content, place);
}

/// A medium at an address, or what stands in its place.
fn at_address(address: &str, kind: PartKind, name: Option<&str>) -> PartContent {
    let is_unsafe = is_scheme(address, "http://");
    let is_remote = is_unsafe || is_scheme(address, "https://");
    if kind != PartKind::File {
        return PartContent { is_unsafe, ..PartContent::medium(is_remote) };
    }
    if !is_remote {
        return PartContent::of_file_type(&type_of_file("", name.or(Some(address)), address));
    }
    let other = type_of_name(address).map_or(CapabilitySet::NONE, of_file).with(Capability::FileUrl);
    PartContent { is_unsafe, other, ..PartContent::medium(true) }
}

/// What one part says of itself.
#[derive(Default)]
struct Part<'a> {
    members: ContentPart<'a>,
    /// Bytes of members that no part has.
    other_bytes: usize,
}

/// What a part holds, once it is checked.
#[derive(Debug, Clone, Copy, Default)]
struct PartContent {
    /// Bytes of text.
    text_bytes: usize,
    /// Whether its medium is elsewhere: at an address, or uploaded before.
    is_remote: bool,
    /// Whether it is an image of another type than every model takes that takes images.
    is_other_image: bool,
    /// What it is, if it is neither an image, a PDF nor a text.
    other: CapabilitySet,
    /// Whether its address is one of http.
    is_unsafe: bool,
}

impl PartContent {
    fn text(text_bytes: usize) -> PartContent {
        PartContent { text_bytes, ..PartContent::default() }
    }

    fn medium(is_remote: bool) -> PartContent {
        PartContent { is_remote, ..PartContent::default() }
    }

    fn of_image_type(media_type: &str) -> PartContent {
        PartContent { is_other_image: !IMAGES.contains(&media_type), ..PartContent::default() }
    }

    fn of_file_type(media_type: &str) -> PartContent {
        let is_other_image = FileKind::from_type(media_type) == FileKind::Image && !IMAGES.contains(&media_type);
        PartContent { other: of_file(media_type), is_other_image, ..PartContent::default() }
    }

    fn of_sound(format: &str) -> PartContent {
        PartContent { other: of_moving(Some(&format!("audio/{format}"))), ..PartContent::default() }
    }
}

impl<'a> Part<'a> {
    /// The media that are given.
    fn media(&self) -> impl Iterator<Item = Raw<'a>> {
        [self.members.image_url, self.members.input_audio, self.members.file, self.members.video_url]
            .into_iter()
            .flatten()
            .filter_map(json::given)
    }

    /// Checks the member that the type asks for.
    fn content(&self, kind: PartKind, path: &Path<'_>) -> Result<PartContent, Invalid> {
        let measured = |text, name| required_string(text, &path.member(name)).map(Raw::text_bytes);
        let given = |medium: Option<Raw<'a>>| medium.and_then(json::given);
        match kind {
            PartKind::Text => measured(self.members.text, "text").map(PartContent::text),
            PartKind::Refusal => measured(self.members.refusal, "refusal").map(PartContent::text),
            PartKind::Image => image(given(self.members.image_url), &path.member("image_url")),
            PartKind::Audio => audio(given(self.members.input_audio), &path.member("input_audio")),
            PartKind::File => file(given(self.members.file), &path.member("file")),
            PartKind::Video => video(given(self.members.video_url), &path.member("video_url")),
            PartKind::Unknown => Ok(PartContent::text(self.written_bytes())),
        }
    }

    /// Whether its data are not in base64 as providers want it.
    fn has_odd_base64(&self) -> bool {
        let member = |medium: Option<Raw<'a>>, name: &[u8]| medium.and_then(|medium| medium.member(name));
        [
            (
                self.members
                    .image_url
                    .filter(|image| image.is_string())
                    .or_else(|| member(self.members.image_url, b"url")),
                false,
            ),
            (member(self.members.video_url, b"url"), false),
            (member(self.members.input_audio, b"data"), true),
            (member(self.members.file, b"file_data"), true),
        ]
        .into_iter()
        .any(|(value, is_bare)| value.is_some_and(|value| has_odd_base64(value, is_bare)))
    }

    /// All that an endpoint may read of a part that is not understood.
    fn written_bytes(&self) -> usize {
        let texts = [self.members.text, self.members.refusal].into_iter().flatten().map(Raw::text_bytes);
        let media = self.media().map(|raw| raw.written().len());
        texts.chain(media).sum::<usize>() + self.other_bytes
    }
}

fn image(raw: Option<Raw<'_>>, path: &Path<'_>) -> Result<PartContent, Invalid> {
    let url = path.member("url");
    let raw = raw.ok_or_else(|| fault::required(&url))?;
    if JsonType::of(raw) == JsonType::Text {
        return address(raw, path, Some("data:image/")).map(|content| of_image(content, raw));
    }
    let object = Object::read(raw, path)?;
    let given = object.get("url").ok_or_else(|| fault::required(&url))?;
    let content = of_image(address(given, &url, Some("data:image/"))?, given);
    if let Some(raw) = object.get("detail") {
        json::choice(raw, &path.member("detail"), &DETAILS)?;
    }
    Ok(content)
}

fn video(raw: Option<Raw<'_>>, path: &Path<'_>) -> Result<PartContent, Invalid> {
    let url = path.member("url");
    let raw = raw.ok_or_else(|| fault::required(&url))?;
    let object = Object::read(raw, path)?;
    let content = address(object.get("url").ok_or_else(|| fault::required(&url))?, &url, None)?;
    let head = object.get("url").and_then(head).unwrap_or_default();
    let other = of_moving(media_type(&head).as_deref());
    Ok(PartContent { other, ..content })
}

fn audio(raw: Option<Raw<'_>>, path: &Path<'_>) -> Result<PartContent, Invalid> {
    let object = Object::read(raw.ok_or_else(|| fault::required(path))?, path)?;
    for name in ["data", "format"] {
        required_text(object.get(name), &path.member(name))?;
    }
    Ok(PartContent::of_sound(&object.get("format").and_then(Raw::text).unwrap_or_default()))
}

/// What sound or a video needs of an endpoint. Without a type it is at an address.
fn of_moving(media_type: Option<&str>) -> CapabilitySet {
    let all = CapabilitySet::NONE.with(Capability::OtherMedia).with(Capability::SoundOrVideo);
    let is_rare = media_type.is_some_and(|media_type| !converse::has_format_of(media_type));
    if is_rare { all.with(Capability::RareMedia) } else { all }
}

fn file(raw: Option<Raw<'_>>, path: &Path<'_>) -> Result<PartContent, Invalid> {
    let object = Object::read(raw.ok_or_else(|| fault::required(path))?, path)?;
    let (name, value) = match (object.get("file_data"), object.get("file_id")) {
        (None, Some(id)) => ("file_id", Some(id)),
        (data, _) => ("file_data", data),
    };
    required_text(value, &path.member(name))?;
    if let Some(raw) = object.get("filename") {
        json::text(raw, &path.member("filename"))?;
    }
    let head = value.filter(|_| name == "file_data").and_then(head).unwrap_or_default();
    let is_unsafe = is_scheme(&head, "http://");
    let is_address = is_scheme(&head, "https://") || is_unsafe;
    let content = PartContent { is_unsafe, ..PartContent::medium(name == "file_id" || is_address) };
    if content.is_remote || head.is_empty() {
        let other = type_of_name(&head).map_or(CapabilitySet::NONE, of_file);
        let other = if is_address { other.with(Capability::FileUrl) } else { other };
        return Ok(PartContent { other, ..content });
    }
    let data = head.split_once(',').map_or(&*head, |(_, data)| data);
    let given = media_type(&head);
    let title = object.get("filename").and_then(Raw::text);
    let kind = type_of_file(given.as_deref().unwrap_or_default(), title.as_deref(), data);
    Ok(PartContent { is_unsafe: content.is_unsafe, ..PartContent::of_file_type(&kind) })
}

/// What a file needs of an endpoint.
fn of_file(media_type: &str) -> CapabilitySet {
    let other = CapabilitySet::NONE.with(Capability::OtherMedia);
    match FileKind::from_type(media_type) {
        FileKind::Pdf | FileKind::Text | FileKind::Image => CapabilitySet::NONE,
        FileKind::Office => other.with(Capability::OfficeFiles),
        FileKind::Sound | FileKind::Video => of_moving(Some(media_type)),
        FileKind::Other => other.with(Capability::OtherFiles),
    }
}

/// The content of an image with this address.
fn of_image(content: PartContent, address: Raw<'_>) -> PartContent {
    let media_type = head(address).and_then(|head| media_type(&head));
    PartContent { is_other_image: media_type.is_some_and(|kind| !IMAGES.contains(&&*kind)), ..content }
}

/// The media type of a data URL, in lower case.
fn media_type(head: &str) -> Option<String> {
    let described = head.get("data:".len()..).filter(|_| is_scheme(head, "data:"))?;
    Some(described.split([';', ',']).next()?.trim().to_ascii_lowercase())
}

/// A string that must be there and not be empty.
fn required_text(raw: Option<Raw<'_>>, path: &Path<'_>) -> Result<(), Invalid> {
    match required_string(raw, path)?.is_filled() {
        true => Ok(()),
        false => Err(fault::refused(path, format!("'{path}' must not be empty."))),
    }
}

fn is_scheme(address: &str, scheme: &str) -> bool {
    address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

/// An address that an upstream may be given: http, https, or data of a kind, in base64. Counts as no text.
fn address(raw: Raw<'_>, path: &Path<'_>, data: Option<&str>) -> Result<PartContent, Invalid> {
    let head = head(raw).ok_or_else(|| fault::wrong_type(path, "a string", JsonType::of(raw)))?;
    let is = |scheme: &str| is_scheme(&head, scheme);
    let in_base64 = || head.split_once(',').is_some_and(|(before, _)| before.to_ascii_lowercase().ends_with(";base64"));
    let is_remote = is("https://") || is("http://");
    let good = is_remote || data.map_or(is("data:"), |start| is(start) && in_base64());
    if good {
        Ok(PartContent { is_unsafe: is("http://"), ..PartContent::medium(is_remote) })
    } else {
        Err(fault::refused(path, "Only http, https and data URLs are accepted."))
    }
}

/// The beginning of a string, escapes resolved. An address in base64 can be megabytes long.
fn head(raw: Raw<'_>) -> Option<std::borrow::Cow<'_, str>> {
    let inner = raw.written().strip_prefix('"')?;
    match inner.get(..ADDRESS_HEAD) {
        Some(head) if !head.contains('\\') => Some(head.into()),
        _ => raw.text(),
    }
}
