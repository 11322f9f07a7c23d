//! Top-level parameters: those that the API has under some name, and the naming of all others.

use bytes::BytesMut;
use sha2::{Digest as _, Sha256};

use crate::{
    claude::models::{Capabilities, Sampling, sampled},
    json::{Raw, push_member},
    neutral::{Conversation, UnsupportedFields},
};

/// Bytes of the hash that stands for the user.
const USER_ID_BYTES: usize = 16;

/// The value of the header `anthropic-version` that a body is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ApiVersion {
    /// `2023-06-01`
    #[default]
    V2023_06_01,
    /// `2026-10-21`: sampling parameters are refused on every model.
    V2026_10_21,
}

/// The parameters that are sent.
#[derive(Debug, Default)]
pub(super) struct Parameters<'a> {
    temperature: Option<&'a [u8]>,
    top_p: Option<&'a [u8]>,
    top_k: Option<&'a [u8]>,
    user_id: Option<String>,
    service_tier: Option<&'static [u8]>,
    is_fast: bool,
    cache_control: Option<Raw<'a>>,
}

impl<'a> Parameters<'a> {
    /// Decides about each parameter. `is_thinking`: the request asks for reasoning.
    pub(super) fn new(
        conversation: &'a Conversation<'_>,
        capabilities: &Capabilities,
        version: ApiVersion,
        is_thinking: bool,
        unsupported: &mut UnsupportedFields,
    ) -> Parameters<'a> {
        let mut parameters = Parameters::default();
        let samples = capabilities.sampling != Sampling::No && version != ApiVersion::V2026_10_21;
        for parameter in &conversation.parameters {
            let (name, value) = (&*parameter.name, parameter.value());
            let is_kept = match name {
                "temperature" | "top_p" | "top_k" => {
                    samples && parameters.sampling(name, value, is_thinking, unsupported)
                }
                "user" | "safety_identifier" => parameters.user(name, value, unsupported),
                "service_tier" => parameters.tier(value, capabilities),
                "cache_control" if value.is_object() => {
                    parameters.cache_control = Some(value);
                    true
                }
                _ => parameter.asks_for_nothing(),
            };
            if !is_kept {
                unsupported.drop(name);
            }
        }
        if capabilities.sampling == Sampling::EitherOf && parameters.temperature.is_some() && parameters.top_p.is_some()
        {
            parameters.top_p = None;
            unsupported.drop("top_p");
        }
        parameters
    }

    /// Whether the prompt is marked as cacheable as a whole.
    pub(super) fn has_cache_control(&self) -> bool {
        self.cache_control.is_some()
    }

    fn sampling(&mut self, name: &str, value: Raw<'a>, is_thinking: bool, unsupported: &mut UnsupportedFields) -> bool {
        let sent = sampled(name, value, is_thinking, unsupported);
        match name {
            "temperature" => self.temperature = sent,
            "top_p" => self.top_p = sent,
            _ => self.top_k = sent,
        }
        sent.is_some()
    }

    /// Nothing that identifies a person may be sent: a hash tells users apart.
    fn user(&mut self, name: &str, value: Raw<'_>, unsupported: &mut UnsupportedFields) -> bool {
        let Some(text) = value.text().filter(|text| !text.is_empty() && self.user_id.is_none()) else { return false };
        let digest = Sha256::digest(text.as_bytes());
        self.user_id = Some(hex::encode(digest.get(..USER_ID_BYTES).unwrap_or_default()));
        unsupported.emulate(name);
        true
    }

    fn tier(&mut self, value: Raw<'_>, capabilities: &Capabilities) -> bool {
        match value.text().as_deref() {
            Some("auto") => self.service_tier = Some(b"\"auto\""),
            Some("default") => self.service_tier = Some(b"\"standard_only\""),
            Some("fast") if capabilities.fast => self.is_fast = true,
            _ => return false,
        }
        true
    }

    /// Appends the members.
    pub(super) fn push(&self, out: &mut BytesMut) {
        for (name, value) in [
            (&b"temperature"[..], self.temperature),
            (b"top_p", self.top_p),
            (b"top_k", self.top_k),
            (b"service_tier", self.service_tier),
            (b"speed", self.is_fast.then_some(&b"\"fast\""[..])),
            (b"cache_control", self.cache_control.map(Raw::bytes)),
        ] {
            if let Some(value) = value {
                push_member(out, name, value);
            }
        }
        if let Some(user_id) = &self.user_id {
            push!(out; br#","metadata":{"user_id":"#, user_id, b"}");
        }
    }
}
