//! The parts of a message: text, images, sound, files, video.
//!
//! Text is measured as it goes by. The others are recognised and their frame is checked; their bytes are
//! never decoded and no address is ever opened.

use pointsman_domain::{Capability, CapabilitySet, Invalid, Modality};

use super::{
    byte_span::{Edit, Replacement},
    conversation::{Conversation, MESSAGES},
    fault,
    json::{self, Object},
    json_type::JsonType,
    value_visitor::{ArrayReader, LengthVisitor, ObjectReader, SeenKeys, Stopped, TextLength, ValueVisitor},
};
use crate::{
    converse,
    json::Raw,
    neutral::{
        Path,
        media_type::{FileKind, type_of_file, type_of_name},
        shown,
    },
};

/// How much of an address is looked at: the head of a data URL is far shorter.
const ADDRESS_HEAD: usize = 256;
/// Types of images that all APIs take.
const IMAGES: [&str; 5] = ["image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp"];
/// How closely an image may be looked at.
const DETAILS: [&str; 4] = ["auto", "low", "high", "original"];

/// A list that was read.
pub(super) struct PartList {
    pub(super) count: usize,
    /// The first part that only an assistant may send.
    pub(super) refusal: Option<usize>,
}

/// The parts of one message.
pub(super) struct PartListReader<'c, 'a> {
    pub(super) conversation: &'c mut Conversation<'a>,
    /// Position of the message.
    pub(super) message: usize,
}

impl<'a> PartListReader<'_, 'a> {
    /// Reads them all.
    pub(super) fn read(self, mut items: ArrayReader<'_, 'a>) -> Result<PartList, Stopped> {
        let PartListReader { conversation, message } = self;
        let (mut refusal, mut part) = (None, 0);
        while let Some(kind) = items.next(PartVisitor { conversation: &mut *conversation, message, part })? {
            if kind == PartKind::Refusal {
                refusal = refusal.or(Some(part));
            }
            part += 1;
        }
        Ok(PartList { count: part, refusal })
    }
}

/// What a part holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartKind {
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

#[derive(Clone, Copy)]
enum PartKey {
    Type,
    Text,
    ImageUrl,
    InputAudio,
    File,
    VideoUrl,
    Refusal,
    Other,
}

impl PartKey {
    fn of(key: Raw<'_>) -> PartKey {
        match &*key.name() {
            b"type" => PartKey::Type,
            b"text" => PartKey::Text,
            b"image_url" => PartKey::ImageUrl,
            b"input_audio" => PartKey::InputAudio,
            b"file" => PartKey::File,
            b"video_url" => PartKey::VideoUrl,
            b"refusal" => PartKey::Refusal,
            _ => PartKey::Other,
        }
    }
}

impl PartKey {
    fn as_str(self) -> &'static str {
        match self {
            PartKey::Type => "type",
            PartKey::Text => "text",
            PartKey::ImageUrl => "image_url",
            PartKey::InputAudio => "input_audio",
            PartKey::File => "file",
            PartKey::VideoUrl => "video_url",
            PartKey::Refusal => "refusal",
            PartKey::Other => "",
        }
    }
}

/// What one part says of itself, whatever order its members come in.
#[derive(Default)]
struct Part<'a> {
    kind: Option<PartKind>,
    text: Option<TextLength>,
    refusal: Option<TextLength>,
    image: Option<Raw<'a>>,
    audio: Option<Raw<'a>>,
    file: Option<Raw<'a>>,
    video: Option<Raw<'a>>,
    /// Bytes of all other members.
    other_bytes: usize,
}

/// One part, read into the conversation.
struct PartVisitor<'c, 'a> {
    conversation: &'c mut Conversation<'a>,
    message: usize,
    part: usize,
}

impl<'a> ValueVisitor<'a> for PartVisitor<'_, 'a> {
    type Out = PartKind;

    fn other(mut self, got: JsonType) -> Result<PartKind, Stopped> {
        Err(self.refuse(|path| fault::wrong_type(path, "an object", got)))
    }

    fn object(mut self, mut members: ObjectReader<'_, 'a>) -> Result<PartKind, Stopped> {
        let mut met = SeenKeys::default();
        let mut part = Part::default();
        while let Some(key) = members.key()?.map(PartKey::of) {
            if !matches!(key, PartKey::Other) && !met.first_time(key as u8) {
                return Err(self.refuse(|path| fault::given_twice(&path.member(key.as_str()))));
            }
            self.member(key, &mut part, &mut members)?;
        }
        self.judge(&part)
    }
}

impl<'a> PartVisitor<'_, 'a> {
    fn member(&mut self, key: PartKey, part: &mut Part<'a>, members: &mut ObjectReader<'_, 'a>) -> Result<(), Stopped> {
        match key {
            PartKey::Type => return self.kind(part, members.raw()?),
            PartKey::Text => {
                part.text = Some(members.value(TextVisitor(self.conversation))?);
            }
            PartKey::Refusal => part.refusal = Some(members.value(LengthVisitor)?),
            PartKey::ImageUrl => part.image = json::given(members.raw()?),
            PartKey::InputAudio => part.audio = json::given(members.raw()?),
            PartKey::File => part.file = json::given(members.raw()?),
            PartKey::VideoUrl => part.video = json::given(members.raw()?),
            PartKey::Other => part.other_bytes += members.raw()?.written().len(),
        }
        Ok(())
    }

    fn kind(&mut self, part: &mut Part<'a>, raw: Raw<'a>) -> Result<(), Stopped> {
        let mut read = Ok(None);
        self.at(|path| read = json::given(raw).map(|raw| PartKind::read(raw, &path.member("type"))).transpose());
        part.kind = read.map_err(|invalid| self.conversation.stop(invalid))?;
        if part.kind == Some(PartKind::Unknown) && self.conversation.not_understood.is_none() {
            let mut unknown = None;
            self.at(|path| unknown = Some(PartKind::unknown(raw, &path.member("type"))));
            self.conversation.not_understood = unknown.map(fault::in_prompt);
        }
        Ok(())
    }

    /// The rules that need the whole part.
    fn judge(&mut self, part: &Part<'a>) -> Result<PartKind, Stopped> {
        let Some(kind) = part.kind else {
            return Err(self.refuse(|path| fault::required(&path.member("type"))));
        };
        let mut judged = Ok(PartContent::default());
        self.at(|path| judged = part.content(kind, path));
        let content = judged.map_err(|invalid| self.conversation.stop(invalid))?;
        self.conversation.tally.bytes += content.text_bytes;
        self.conversation.has_remote_media |= content.is_remote;
        self.conversation.has_other_images |= content.is_other_image;
        self.conversation.media = self.conversation.media.union(content.other);
        if content.is_unsafe {
            self.conversation.media = self.conversation.media.with(Capability::HttpMedia);
        }
        if let Some(modality) = kind.modality() {
            self.conversation.note_input(modality, self.message, self.part);
        }
        if let Some(medium) = part.image.or(part.audio).or(part.file).or(part.video) {
            self.conversation.opening.medium(medium.written());
        }
        if kind == PartKind::Image {
            self.conversation.tally.images += 1;
            self.note_bare_address(part.image);
        }
        Ok(kind)
    }

    /// An image given as a bare address is passed on as the object that upstreams expect.
    fn note_bare_address(&mut self, image: Option<Raw<'_>>) {
        if let Some(raw) = image.filter(|raw| raw.is_string()) {
            let span = self.conversation.source.span(raw);
            self.conversation.edits.push(Edit { span, want: Replacement::ImageObject });
        }
    }

    fn at(&self, with: impl FnOnce(&Path<'_>)) {
        let item = MESSAGES.item(self.message);
        let content = item.member("content");
        with(&content.item(self.part));
    }

    fn refuse(&mut self, word: impl FnOnce(&Path<'_>) -> Invalid) -> Stopped {
        let mut invalid = None;
        self.at(|path| invalid = Some(word(path)));
        let invalid = invalid.unwrap_or_else(fault::not_an_object);
        self.conversation.stop(invalid)
    }
}

/// A text that is measured, hashed and noted.
struct TextVisitor<'c, 'a>(&'c mut Conversation<'a>);

impl<'a> ValueVisitor<'a> for TextVisitor<'_, 'a> {
    type Out = TextLength;

    fn text(self, text: Raw<'a>) -> Result<TextLength, Stopped> {
        self.0.opening.text(text);
        self.0.texts.push(text);
        LengthVisitor.text(text)
    }

    fn other(self, got: JsonType) -> Result<TextLength, Stopped> {
        LengthVisitor.other(got)
    }
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
}

impl Part<'_> {
    /// Checks the member that the type asks for.
    fn content(&self, kind: PartKind, path: &Path<'_>) -> Result<PartContent, Invalid> {
        match kind {
            PartKind::Text => measured(self.text, &path.member("text")),
            PartKind::Refusal => measured(self.refusal, &path.member("refusal")),
            PartKind::Image => image(self.image, &path.member("image_url")),
            PartKind::Audio => audio(self.audio, &path.member("input_audio")),
            PartKind::File => file(self.file, &path.member("file")),
            PartKind::Video => video(self.video, &path.member("video_url")),
            PartKind::Unknown => Ok(PartContent::text(self.written_bytes())),
        }
    }

    /// All that an endpoint may read of a part that is not understood.
    fn written_bytes(&self) -> usize {
        let text = |length: Option<TextLength>| if let Some(TextLength::Text(bytes)) = length { bytes } else { 0 };
        let media = [self.image, self.audio, self.file, self.video].into_iter().flatten();
        text(self.text) + text(self.refusal) + media.map(|raw| raw.written().len()).sum::<usize>() + self.other_bytes
    }
}

fn measured(text: Option<TextLength>, path: &Path<'_>) -> Result<PartContent, Invalid> {
    match text {
        Some(TextLength::Text(bytes)) => Ok(PartContent::text(bytes)),
        None | Some(TextLength::Other(JsonType::Null)) => Err(fault::required(path)),
        Some(TextLength::Other(kind)) => Err(fault::wrong_type(path, "a string", kind)),
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
    let format = object.get("format").and_then(Raw::text).unwrap_or_default();
    Ok(PartContent { other: of_moving(Some(&format!("audio/{format}"))), ..PartContent::medium(false) })
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
    let is_other_image = FileKind::of(&kind) == FileKind::Image && !IMAGES.contains(&&*kind);
    Ok(PartContent { other: of_file(&kind), is_other_image, ..content })
}

/// What a file needs of an endpoint.
fn of_file(media_type: &str) -> CapabilitySet {
    let other = CapabilitySet::NONE.with(Capability::OtherMedia);
    match FileKind::of(media_type) {
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
    let raw = raw.ok_or_else(|| fault::required(path))?;
    match raw.written() {
        "\"\"" => Err(fault::refused(path, format!("'{path}' must not be empty."))),
        _ if JsonType::of(raw) == JsonType::Text => Ok(()),
        _ => Err(fault::wrong_type(path, "a string", JsonType::of(raw))),
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
