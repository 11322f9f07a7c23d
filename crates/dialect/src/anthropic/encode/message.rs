//! The start and the end of a message.

use bytes::BufMut as _;
use pointsman_domain::FinishReason;

use super::{AnswerForm, AnswerProgress, MessagesEncoder, StoppedAt, usage::push_usage};
use crate::{anthropic::finish::stop_reason, json::Raw, neutral::ReportedTokens};

impl MessagesEncoder {
    /// Writes the start of the message, once.
    pub(super) fn begin(&mut self) {
        if self.progress != AnswerProgress::Idle {
            return;
        }
        self.progress = AnswerProgress::Started;
        let is_streamed = self.opening.form == AnswerForm::Streamed;
        let out = &mut self.blocks.out;
        if is_streamed {
            out.put_slice(b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":");
        }
        push!(out; br#"{"id":"#, self.opening.id, br#","type":"message","role":"assistant","model":"#,
            self.opening.model, br#","content":["#);
        if is_streamed {
            out.put_slice(b"],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":");
            // Clients show from the start how full the context is, and take a zero for an error.
            let estimate =
                ReportedTokens { prompt: u64::from(self.opening.prompt_tokens.max(1)), ..Default::default() };
            let counted = self.usage.filter(|tokens| tokens.prompt > 0).unwrap_or(estimate);
            let cached = counted.cached.map(|cached| cached.min(counted.prompt - 1));
            push_usage(&ReportedTokens { completion: 1, cached, reasoning: None, ..counted }, out);
            out.put_slice(b"}}\n\n");
            self.blocks.ping();
        }
    }

    /// Writes the end of the message.
    pub(super) fn push_end(&mut self) {
        let estimate = ReportedTokens { prompt: u64::from(self.opening.prompt_tokens), ..Default::default() };
        let tokens = self.usage.unwrap_or(estimate);
        let mut reason = self.stop_reason();
        let stop_sequence = self.stop_sequence().filter(|_| reason == stop_reason(None));
        let stop_sequence = stop_sequence.map(|text| text.bytes().to_vec());
        if stop_sequence.is_some() {
            reason = "stop_sequence";
        }
        let is_streamed = self.opening.form == AnswerForm::Streamed;
        let out = &mut self.blocks.out;
        let head: &[u8] =
            if is_streamed { b"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{" } else { b"]," };
        push!(out; head, br#""stop_reason":""#, reason.as_bytes(), br#"","stop_sequence":"#,
            stop_sequence.as_deref().unwrap_or(b"null"));
        if reason == "refusal" && !self.refusal.is_empty() {
            push!(out; br#","stop_details":{"type":"refusal","category":null,"explanation":""#, self.refusal, br#""}"#);
        }
        if is_streamed {
            out.put_u8(b'}');
        }
        out.put_slice(b",\"usage\":");
        push_usage(&tokens, out);
        out.put_u8(b'}');
        if is_streamed {
            out.put_slice(b"\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
        }
    }

    /// The text that ended the answer, one of those that the client asked for; null if it is one, but not known which.
    fn stop_sequence(&self) -> Option<Raw<'_>> {
        let stopped_at = self.stopped_at.as_ref()?;
        let asked = Raw::whole_of(&self.opening.stop_sequences)?;
        let mut elements = asked.elements();
        match stopped_at {
            StoppedAt::Text(text) => elements.find(|asked| asked.text().is_some_and(|asked| asked == text.unescaped())),
            StoppedAt::Some => match (elements.next(), elements.next()) {
                (Some(only), None) => Some(only),
                _ => Some(Raw::own("null")),
            },
        }
    }

    /// The reason of the end. Agents act on calls only if it says so.
    fn stop_reason(&self) -> &'static str {
        stop_reason(match self.finish {
            Some(FinishReason::Length | FinishReason::ContentFilter) => self.finish,
            _ if self.calls > 0 => Some(FinishReason::ToolCalls),
            _ if !self.refusal.is_empty() => Some(FinishReason::ContentFilter),
            _ => None,
        })
    }
}
