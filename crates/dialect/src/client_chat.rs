//! The chat that a request of another API was turned into, with mistakes told in the client's names of fields.

use std::sync::Arc;

use bytes::Bytes;
use pointsman_domain::Invalid;

use super::{
    client_request::{ClientRequest, ClientShape},
    neutral::base64::with_plain_base64,
    openai::request::{Author, ChatPurpose, ChatRequest, RequestLimits},
};

impl ClientRequest {
    /// Reads the chat body that the request was turned into.
    ///
    /// # Errors
    /// As [`ChatRequest::parse`], with the client's names of fields.
    pub fn parse_chat(
        mut self,
        chat: Bytes,
        purpose: ChatPurpose,
        limits: &RequestLimits,
    ) -> Result<Box<ChatRequest>, Invalid> {
        let mut chat = self.shape.parse_chat(chat, purpose, limits)?;
        if chat.extras.odd_base64
            && let Some(plain) = std::str::from_utf8(&self.body).ok().and_then(with_plain_base64)
        {
            self.body = plain;
        }
        if let ClientShape::Completion { shows_usage } = &mut self.shape {
            *shows_usage = chat.include_usage == Some(true);
        }
        (chat.client, chat.has_written_messages) = (Some(Arc::new(self)), true);
        Ok(chat)
    }
}

impl ClientShape {
    /// Reads a chat body that was made for measuring.
    ///
    /// # Errors
    /// As [`ChatRequest::parse`], with the client's names of fields.
    pub fn parse_chat(
        &self,
        chat: Bytes,
        purpose: ChatPurpose,
        limits: &RequestLimits,
    ) -> Result<Box<ChatRequest>, Invalid> {
        ChatRequest::parse_of(Author::Gateway, chat, purpose, limits).map_err(|invalid| self.renamed(invalid))
    }
}
