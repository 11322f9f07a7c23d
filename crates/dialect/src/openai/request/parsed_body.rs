//! The top-level object of a body: its members with name, position and whether each is sent on.
//!
//! Written by hand instead of derived, because every member matters: a repeated name is an error, an unknown member is
//! kept, and the position of each member is needed for the upstream body. Values are borrowed slices; `messages` and
//! `tools` are read in the same pass.

use std::{borrow::Cow, collections::HashSet};

use bytes::Bytes;
use pointsman_domain::{Invalid, InvalidReason, RequestedService};

use super::{
    RequestKind, RequestLimits,
    byte_span::{BodyText, ByteSpan, Edit, Replacement, end_before, value_start},
    conversation_summary::ConversationSummary,
    fault,
    field_location::FieldLocation,
    fields::{Check, Field, Forwarding},
    json,
    messages::read_messages,
    parsed_fields::ParsedFields,
    stopped::Stopped,
    suggestions::{field_meant_at_top_level, parameter_meant},
    tools::read_tools,
};
use crate::{
    gateway_fields::GatewayField,
    json::{Cursor, Raw},
    neutral::syntax,
};

/// Members that fit without growing the list.
const USUAL_MEMBERS: usize = 12;

/// One member of the body.
#[derive(Debug, Clone)]
pub(super) struct BodyMember {
    /// How the member is forwarded.
    pub(super) forwarding: Forwarding,
    /// Its name as written, quotes included.
    pub(super) key: ByteSpan,
    /// Where its value ends.
    pub(super) end: usize,
}

/// A body with the positions of its members: all that is needed to forward it.
#[derive(Debug, Clone)]
pub(super) struct ParsedBody {
    /// The body as it came.
    pub(super) body: Bytes,
    /// The members of the body, then those of `extra_body`.
    pub(super) members: Vec<BodyMember>,
    /// How many of the members are the body's own.
    pub(super) own: usize,
    /// Replacements inside members, ordered by position.
    pub(super) edits: Vec<Edit>,
    /// The member `"metadata":{…}` for the upstream.
    pub(super) metadata: Option<String>,
    /// Whether some name was written with escapes, so that names cannot be compared as they stand.
    escaped: bool,
}

impl ParsedBody {
    /// A body of another API, of whose members nothing is kept.
    pub(super) fn without_members(body: Bytes) -> ParsedBody {
        ParsedBody { body, members: Vec::new(), own: 0, edits: Vec::new(), metadata: None, escaped: false }
    }

    /// The name of a member as it reads.
    pub(super) fn name(&self, member: &BodyMember) -> Cow<'_, str> {
        read(self.key(member))
    }

    fn is_named(&self, member: &BodyMember, name: &str) -> bool {
        if !self.escaped && member.key.len() != name.len() + 2 {
            return false;
        }
        match self.body.get(member.key.clone()) {
            Some([b'"', written @ .., b'"']) if !self.escaped => written == name.as_bytes(),
            _ => self.name(member) == name,
        }
    }

    fn key(&self, member: &BodyMember) -> &str {
        let key = self.body.get(member.key.clone()).unwrap_or_default();
        str::from_utf8(key).unwrap_or_default()
    }

    /// The place of a member by its position.
    pub(super) fn place(&self, position: usize) -> FieldLocation {
        if position < self.own { FieldLocation::TopLevel } else { FieldLocation::ExtraBody }
    }

    /// A value that was given under that name, as it is written.
    pub(super) fn value(&self, name: &str) -> Option<&[u8]> {
        let given = |member: &&BodyMember| !matches!(member.forwarding, Forwarding::Absent | Forwarding::Consumed);
        let member = self.members.iter().filter(given).find(|member| self.is_named(member, name))?;
        self.body.get(value_start(&self.body, member.key.end)..member.end)
    }

    /// What it asks for in the fields that change the price of a call.
    pub(super) fn service(&self) -> RequestedService {
        RequestedService::of(|name| Some(read(std::str::from_utf8(self.value(name)?).ok()?)))
    }

    /// Names of the members that are not for the gateway alone, sorted.
    pub(super) fn given_names(&self) -> Vec<String> {
        let given = self
            .members
            .iter()
            .filter(|member| !matches!(member.forwarding, Forwarding::Absent | Forwarding::Consumed));
        let mut names: Vec<String> = given.map(|member| self.name(member).into_owned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether a parameter of that name was given.
    pub(super) fn gives(&self, name: &str) -> bool {
        let given = |member: &&BodyMember| !matches!(member.forwarding, Forwarding::Absent | Forwarding::Consumed);
        self.members.iter().filter(given).any(|member| self.is_named(member, name))
    }
}

/// How a name reads, for how it is written.
fn read(key: &str) -> Cow<'_, str> {
    match key.strip_prefix('"').and_then(|key| key.strip_suffix('"')) {
        Some(name) if !name.contains('\\') => Cow::Borrowed(name),
        _ => Cow::Owned(serde_json::from_str(key).unwrap_or_default()),
    }
}

/// Reads one body.
pub(super) struct BodyReader<'a> {
    source: BodyText<'a>,
    call: RequestKind,
    limits: &'a RequestLimits,
    place: FieldLocation,
    members: Vec<BodyMember>,
    own: usize,
    /// Whether some name was written with escapes, so that names cannot be compared as they stand.
    escaped: bool,
    /// The names that the body gives itself, once its `extra_body` is read.
    given: HashSet<Cow<'a, str>>,
    extra_body: Option<Raw<'a>>,
    pub(super) found: ParsedFields<'a>,
    pub(super) conversation: ConversationSummary<'a>,
}

impl<'a> BodyReader<'a> {
    /// A reader of `text`.
    pub(super) fn new(text: &'a str, call: RequestKind, limits: &'a RequestLimits) -> BodyReader<'a> {
        let source = BodyText(text);
        BodyReader {
            source,
            call,
            limits,
            place: FieldLocation::TopLevel,
            members: Vec::with_capacity(USUAL_MEMBERS),
            own: 0,
            escaped: false,
            given: HashSet::new(),
            extra_body: None,
            found: ParsedFields::default(),
            conversation: ConversationSummary::new(source, limits.max_messages),
        }
    }

    /// Reads the whole text.
    ///
    /// # Errors
    /// The 400 for broken JSON wherever it is, else for the first offending field.
    pub(super) fn read(&mut self) -> Result<(), Invalid> {
        let BodyText(text) = self.source;
        self.object(Cursor::within(text, self.limits.max_depth), text.trim_end().len())?;
        self.own = self.members.len();
        if let Some(raw) = self.extra_body.take() {
            json::object(raw, &FieldLocation::EXTRA_BODY)?;
            self.place = FieldLocation::ExtraBody;
            let given = self.members.iter().filter(|member| member.forwarding != Forwarding::Absent);
            self.given = given.filter_map(|member| text.get(member.key.clone())).map(read).collect();
            self.object(Cursor::over(raw), self.source.span(raw).end)?;
        }
        Ok(())
    }

    /// Reads the members of the object at `cursor`, which ends at `end` of the body.
    fn object(&mut self, mut cursor: Cursor<'a>, end: usize) -> Result<(), Invalid> {
        let first = self.members.len();
        let read = cursor.each_member(|cursor, key| self.member(key, cursor)).and_then(|other| match other {
            None => Ok(cursor.end()?),
            Some(_) => Err(fault::not_an_object().into()),
        });
        if read.is_err() || cursor.has_lone_surrogate() {
            return Err(self.refusal(read.err()));
        }
        self.close(end.saturating_sub(1));
        self.refuse_repeated(first)
    }

    /// What is wrong with a body that could not be read: that it is no JSON, or else the mistake at which reading stopped.
    fn refusal(&self, stopped: Option<Stopped>) -> Invalid {
        match (syntax::check(self.source.0, self.limits.max_depth), stopped) {
            (Err(unreadable), _) => unreadable,
            (Ok(()), Some(Stopped::Mistake(mistake))) => *mistake,
            (Ok(()), _) => fault::not_an_object(),
        }
    }

    /// Notes where the last member ends: before the comma or bracket at `next`.
    fn close(&mut self, next: usize) {
        let text = self.source.0.as_bytes();
        if let Some(last) = self.members.last_mut().filter(|last| last.end == 0) {
            last.end = end_before(text, next);
        }
    }

    fn refuse_repeated(&self, first: usize) -> Result<(), Invalid> {
        let members = self.members.get(first..).unwrap_or_default();
        let written = |position: usize| members.get(position).and_then(|member| self.source.0.get(member.key.clone()));
        let repeated = if self.escaped {
            let names: Vec<_> = (0..members.len()).filter_map(written).map(read).collect();
            json::first_repeated(&names)
        } else {
            json::first_repeated_of(members.len(), written)
        };
        match repeated.and_then(written) {
            Some(key) => Err(fault::given_twice(&self.place.path(&read(key)))),
            None => Ok(()),
        }
    }

    /// Reads one member, whose name was just read.
    fn member(&mut self, key: Raw<'a>, cursor: &mut Cursor<'a>) -> Result<(), Stopped> {
        if self.members.len() == json::MAX_MEMBERS {
            let message = format!("Request body may have at most {} members.", json::MAX_MEMBERS);
            return Err(Invalid::body(InvalidReason::InvalidValue, message).into());
        }
        let span = self.source.span(key);
        self.close(span.start);
        let name = key.text().unwrap_or_default();
        self.escaped |= name.len() + 2 != span.len();
        let field = Field::named(self.call, &name);
        let forwarding = if self.is_overruled(field, &name) {
            cursor.value()?;
            Forwarding::Consumed
        } else {
            self.field(field, &name, cursor)?
        };
        self.members.push(BodyMember { forwarding, key: span, end: 0 });
        Ok(())
    }

    /// Whether a member of `extra_body` does not count: it is the gateway's own, or the body has it too.
    fn is_overruled(&self, field: Field, name: &str) -> bool {
        if self.place == FieldLocation::TopLevel {
            return false;
        }
        match field {
            Field::Model | Field::Messages | Field::Stream | Field::Gateway(GatewayField::ExtraBody) => true,
            Field::Routing(_) => false,
            _ => self.given.contains(name),
        }
    }

    fn field(&mut self, field: Field, name: &str, cursor: &mut Cursor<'a>) -> Result<Forwarding, Stopped> {
        let is_given = match field {
            Field::Messages => {
                self.found.has_messages = read_messages(cursor, &mut self.conversation)?;
                self.found.has_messages
            }
            Field::Tools => read_tools(cursor, &mut self.found.tools, &self.place.path(name), self.limits.max_tools)?,
            Field::Unknown => {
                if field_meant_at_top_level(name).or_else(|| parameter_meant(name)).is_some() {
                    self.found.routing.note_suspected_field(&self.place.path(name));
                }
                cursor.value()?;
                true
            }
            _ => {
                let given = json::given(cursor.value()?);
                given.map(|raw| self.value(field, name, raw)).transpose()?.is_some()
            }
        };
        Ok(if is_given { field.forwarding() } else { Forwarding::Absent })
    }

    fn value(&mut self, field: Field, name: &str, raw: Raw<'a>) -> Result<(), Invalid> {
        if field == Field::Gateway(GatewayField::ExtraBody) {
            self.extra_body = Some(raw);
            return Ok(());
        }
        let path = self.place.path(name);
        self.found.read(field, raw, &path, self.place, self.limits.max_n)?;
        let is_integer = matches!(
            field,
            Field::N | Field::MaxTokens | Field::MaxCompletionTokens | Field::Plain(Check::Integer(..))
        );
        if is_integer && raw.written().bytes().any(|byte| !byte.is_ascii_digit() && byte != b'-') {
            let want = Replacement::Integer(json::integer(raw, &path)?);
            self.conversation.edits.push(Edit { span: self.source.span(raw), want });
        }
        Ok(())
    }

    /// The body with its places.
    pub(super) fn envelope(&mut self, body: Bytes, metadata: Option<String>) -> ParsedBody {
        let mut edits = std::mem::take(&mut self.conversation.edits);
        edits.sort_by_key(|edit| edit.span.start);
        let (members, own, escaped) = (std::mem::take(&mut self.members), self.own, self.escaped);
        ParsedBody { body, members, own, edits, metadata, escaped }
    }
}
