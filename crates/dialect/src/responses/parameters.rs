//! Top-level parameters: those that the API has under some name, and the naming of all others.

use bytes::BytesMut;
use pointsman_domain::{AddedMember, AddedMembers};

use super::image_tool::wants_image;
use crate::{
    json::{Raw, push_member},
    neutral::{Conversation, UnsupportedFields},
};

/// Parameters with the same name and values here.
const SAME: [&str; 6] =
    ["service_tier", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "user", "metadata"];

/// The parameters that are sent.
#[derive(Debug, Default)]
pub(super) struct Parameters<'a> {
    same: Vec<(&'a str, &'a [u8])>,
    /// `verbosity`, which belongs into `text`.
    pub(super) verbosity: Option<&'a [u8]>,
    /// Whether the client wants log probabilities of the text.
    logprobs: bool,
    /// Whether the client wants the provider to keep the answer.
    is_stored: bool,
}

impl<'a> Parameters<'a> {
    /// Decides about each parameter. `samples`: the model takes sampling parameters.
    pub(super) fn new(
        conversation: &'a Conversation<'_>,
        samples: bool,
        unsupported: &mut UnsupportedFields,
    ) -> Parameters<'a> {
        let mut parameters = Parameters::default();
        let wants_logprobs = conversation.parameter("logprobs").is_some_and(|flag| flag.bytes() == b"true");
        for parameter in &conversation.parameters {
            let (name, value) = (&*parameter.name, parameter.value());
            let is_kept = match name {
                // Models that refuse these have the default in mind.
                "temperature" | "top_p" if !samples => is_one(value),
                "temperature" | "top_p" => parameters.keep(name, value),
                "logprobs" | "top_logprobs" if !samples => matches!(value.bytes(), b"false" | b"0"),
                "logprobs" => {
                    parameters.logprobs = wants_logprobs;
                    true
                }
                "top_logprobs" => {
                    parameters.logprobs |= value.count() != Some(0);
                    parameters.keep(name, value)
                }
                "verbosity" => {
                    parameters.verbosity = Some(value.bytes());
                    true
                }
                "store" => {
                    parameters.is_stored = value.bytes() == b"true";
                    true
                }
                "modalities" => value.elements().all(|kind| matches!(kind.text().as_deref(), Some("text" | "image"))),
                // Of the tool that makes images.
                "image_config" => wants_image(conversation),
                "n" => value.count() == Some(1),
                _ if SAME.contains(&name) => parameters.keep(name, value),
                _ => false,
            };
            if !is_kept {
                unsupported.drop(name);
            }
        }
        parameters
    }

    fn keep(&mut self, name: &'a str, value: Raw<'a>) -> bool {
        self.same.push((name, value.bytes()));
        true
    }

    /// Appends the members. `store` is always among them, because the API keeps answers without it, and so is the wish for
    /// reasoning in a form that can be sent back.
    pub(super) fn push(&self, omits: AddedMembers, out: &mut BytesMut) {
        if self.is_stored || !omits.has(AddedMember::Store) {
            push_member(out, b"store", if self.is_stored { b"true" } else { b"false" });
        }
        let wanted = [
            ("\"reasoning.encrypted_content\"", !omits.has(AddedMember::Include)),
            ("\"message.output_text.logprobs\"", self.logprobs),
        ];
        let wanted: Vec<&str> = wanted.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(name, _)| name).collect();
        if !wanted.is_empty() {
            push_member(out, b"include", format!("[{}]", wanted.join(",")).as_bytes());
        }
        for (name, value) in &self.same {
            push_member(out, name.as_bytes(), value);
        }
    }
}

fn is_one(value: Raw<'_>) -> bool {
    std::str::from_utf8(value.bytes()).ok().and_then(|text| text.parse::<f64>().ok()) == Some(1.0)
}
