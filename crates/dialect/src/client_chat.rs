//! Requests of other APIs as chats, with mistakes in the client's names of fields.

use std::sync::Arc;

use bytes::Bytes;
use pointsman_domain::Invalid;

use super::{
    anthropic::inbound::{self, InboundMessages, Purpose},
    client_request::{ClientRequest, ClientShape, ConversationReader, MessageSource, completion_field},
    json::MAX_DEPTH,
    neutral::{
        ClientChat, StateKey, UnsupportedFields, UpstreamHeaders, base64::with_plain_base64, with_whole_characters,
    },
    openai::{
        agent_chat::{AgentChat, read_agent_chat},
        request::{ChatPurpose, ChatRequest, FieldNames, RequestLimits},
        text_completion::{self, read_completion_request},
    },
    responses::{self, inbound::read_responses, provider_state::ProviderState},
};

/// How requests of clients are read.
#[derive(Debug, Clone, Copy)]
pub struct ClientReader<'r> {
    /// Opens reasoning of other providers that clients got sealed.
    pub state_key: &'r StateKey,
    /// What the chat is for.
    pub purpose: ChatPurpose,
    /// Bounds of a chat.
    pub limits: &'r RequestLimits,
}

impl ClientReader<'_> {
    /// Reads a body of `POST /v1/messages` of this `anthropic-version`. `headers`: what endpoints of the same dialect get.
    ///
    /// # Errors
    /// The 400 for a refused request, with the client's names of fields.
    pub fn messages(
        &self,
        body: Bytes,
        version: Option<&str>,
        headers: &UpstreamHeaders,
    ) -> Result<Box<ChatRequest>, Invalid> {
        self.read(body, |body| {
            let read = inbound::read(body, Purpose::Answer, self.state_key, self.max_depth())?;
            read.check_version(version)?;
            self.chat_of_messages(read, body, Purpose::Answer, headers)
        })
    }

    /// Reads a body of `POST /v1/messages/count_tokens`.
    ///
    /// # Errors
    /// As [`ClientReader::messages`].
    pub fn counted_messages(&self, body: Bytes, headers: &UpstreamHeaders) -> Result<Box<ChatRequest>, Invalid> {
        self.read(body, |body| {
            let read = inbound::read(body, Purpose::Count, self.state_key, self.max_depth())?;
            self.chat_of_messages(read, body, Purpose::Count, headers)
        })
    }

    /// Reads a body of `POST /responses`. `state`: whether a provider may keep responses. `drops_hosted_tools`: tools that run
    /// at the provider are left out elsewhere.
    ///
    /// # Errors
    /// As [`ClientReader::messages`].
    pub fn responses(
        &self,
        body: Bytes,
        state: impl Fn() -> ProviderState,
        drops_hosted_tools: bool,
    ) -> Result<Box<ChatRequest>, Invalid> {
        self.read(body, |body| {
            let mut read = read_responses(body, self.state_key, &state, self.max_depth())?;
            let mut chat = self.items(&read.chat, body, &mut read.unsupported)?;
            let native_feature = read.native_feature.or(read.hosted_tool.filter(|_| !drops_hosted_tools));
            let shape = ClientShape::Responses(read.echo);
            let client = ClientRequest { native_feature, ..self.client(shape, body, read.unsupported) };
            chat.client = Some(Arc::new(client));
            Ok(chat)
        })
    }

    /// Reads a body of `POST /completions`, with the chat that is measured in its place.
    ///
    /// # Errors
    /// As [`ClientReader::messages`].
    pub fn completion(&self, body: Bytes) -> Result<Box<ChatRequest>, Invalid> {
        self.read(body, |body| {
            let (read, mut unsupported) =
                (read_completion_request(body, self.max_depth())?, UnsupportedFields::default());
            let source = self.source(body, |body, _| text_completion::conversation_of(body));
            let mut chat = self.chat(&read, source, completion_field, &mut unsupported)?;
            let shape = ClientShape::Completion { shows_usage: chat.include_usage == Some(true) };
            chat.client = Some(Arc::new(self.client(shape, body, unsupported)));
            Ok(chat)
        })
    }

    /// Reads a body of `POST /chat/completions`. One that was refused may be in the form of the Responses API, in which some
    /// agents send it.
    ///
    /// # Errors
    /// The 400 for a refused request.
    pub fn chat_or_items(&self, body: Bytes) -> Result<Box<ChatRequest>, Invalid> {
        let refused = match ChatRequest::parse(body.clone(), self.purpose, self.limits) {
            Ok(chat) => return Ok(chat),
            Err(refused) => refused,
        };
        self.read(body, |body| {
            let read = read_agent_chat(body, self.state_key, self.max_depth()).ok_or_else(|| refused.clone())?;
            let (mut chat, unsupported) = match read? {
                AgentChat::Body(chat, unsupported) => {
                    (ChatRequest::parse(chat, self.purpose, self.limits)?, unsupported)
                }
                AgentChat::Items(mut read) => (self.items(&read.chat, body, &mut read.unsupported)?, read.unsupported),
            };
            chat.unsupported = unsupported;
            Ok(chat)
        })
    }

    fn chat_of_messages(
        &self,
        mut read: InboundMessages<'_>,
        body: &Bytes,
        purpose: Purpose,
        headers: &UpstreamHeaders,
    ) -> Result<Box<ChatRequest>, Invalid> {
        let read_again: ConversationReader = match purpose {
            Purpose::Answer => |body, key| inbound::conversation_of(body, Purpose::Answer, key),
            Purpose::Count => |body, key| inbound::conversation_of(body, Purpose::Count, key),
        };
        let source = self.source(body, read_again);
        let mut chat = self.chat(&read.chat, source, inbound::field_name, &mut read.unsupported)?;
        // It is no tag.
        chat.tags.retain(|(name, _)| name != "user_id");
        let InboundMessages { omits_thinking, stop_sequences, has_blank_answers, unsupported, .. } = read;
        let shape = ClientShape::Messages { omits_thinking, stop_sequences, has_blank_answers };
        let client = ClientRequest {
            native_feature: read.native_feature,
            headers: headers.clone(),
            ..self.client(shape, body, unsupported)
        };
        chat.client = Some(Arc::new(client));
        Ok(chat)
    }

    /// The chat of a body of the Responses API.
    fn items(
        &self,
        chat: &ClientChat<'_>,
        body: &Bytes,
        unsupported: &mut UnsupportedFields,
    ) -> Result<Box<ChatRequest>, Invalid> {
        let source = MessageSource { has_short_texts: false, ..self.source(body, responses::inbound::conversation_of) };
        self.chat(chat, source, responses::inbound::field_name, unsupported)
    }

    /// Reads a body, and again where clients have written it in an odd way: with halves of characters, or with media in another
    /// form of base64 than providers want.
    fn read(
        &self,
        mut body: Bytes,
        read: impl Fn(&Bytes) -> Result<Box<ChatRequest>, Invalid>,
    ) -> Result<Box<ChatRequest>, Invalid> {
        let chat = with_whole_characters(&mut body, &read)?;
        if chat.extras.odd_base64
            && let Some(plain) = std::str::from_utf8(&body).ok().and_then(with_plain_base64)
        {
            return read(&plain);
        }
        Ok(chat)
    }

    fn chat(
        &self,
        read: &ClientChat<'_>,
        source: MessageSource,
        names: FieldNames,
        unsupported: &mut UnsupportedFields,
    ) -> Result<Box<ChatRequest>, Invalid> {
        let body = source.body.clone();
        let mut chat = ChatRequest::of_client(read, body, self.purpose, self.limits, names, unsupported)?;
        chat.extras.odd_base64 = read.has_odd_base64;
        chat.message_source = Some(source);
        Ok(chat)
    }

    /// How deep a body may be nested.
    fn max_depth(&self) -> usize {
        self.limits.max_depth.min(MAX_DEPTH)
    }

    fn client(&self, shape: ClientShape, body: &Bytes, unsupported: UnsupportedFields) -> ClientRequest {
        let (body, state_key) = (body.clone(), self.state_key.clone());
        ClientRequest { shape, body, unsupported, native_feature: None, headers: Vec::new(), state_key }
    }

    fn source(&self, body: &Bytes, read: ConversationReader) -> MessageSource {
        MessageSource { body: body.clone(), state_key: self.state_key.clone(), read, has_short_texts: true }
    }
}
