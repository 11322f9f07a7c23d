//! An image request as the chat that asks for the same, for endpoints that make images through chat.

use pointsman_domain::{Catalog, Dialect, Endpoint};

use super::{fields::Forwarding, image::ImageRequest, outgoing::ParameterGates};
use crate::{
    image_shape::{class_of, nearest_ratio},
    json::Raw,
    neutral::{Content, Conversation, EscapedText, MediaSource, Parameter, Part, Role, Turn},
    openai::conversation_reader::read_part,
};

/// The ratios of sides that models of chat make.
const RATIOS: [&str; 8] = ["1:1", "2:3", "3:2", "3:4", "4:3", "9:16", "16:9", "21:9"];

impl ImageRequest {
    /// The chat for one endpoint. Its `unsupported` has the fields that have no place in it.
    pub(crate) fn conversation_for(&self, catalog: &Catalog, endpoint: &Endpoint) -> Option<Conversation<'_>> {
        let gates = ParameterGates { catalog, endpoint, has_schema: false };
        let takes_config = gates.admits("image_config");
        let (pixels, is_name) = (self.size.as_deref().unwrap_or_default(), |size: &str| size.ends_with('K'));
        let (ratio, class) = (self.value("aspect_ratio"), self.value("resolution"));
        // What a size in pixels is closest to, where the request says nothing itself.
        let near_ratio = nearest_ratio(pixels, &RATIOS).filter(|_| ratio.is_none());
        let near_class = class_of(pixels).filter(|_| class.is_none());
        let mut chat = Conversation::default();
        for member in &self.envelope.members {
            let name = self.envelope.name(member);
            match &*name {
                _ if !matches!(member.forwarding, Forwarding::Parameter | Forwarding::Unknown) => {}
                "user" | "seed" if gates.admits(&name) => {
                    let value = self.value(&name)?;
                    chat.parameters.push(Parameter::new(name, value));
                }
                "input_references" => {}
                "aspect_ratio" | "resolution" if takes_config => {}
                "size" if pixels == "auto" => {}
                "size" if takes_config && is_name(pixels) && class.is_none() => {}
                "size" if takes_config && near_ratio.or(near_class).is_some() => chat.unsupported.emulate("size"),
                "n" if self.n == 1 => {}
                _ => chat.unsupported.drop(&name),
            }
        }
        let prompt = Part::new(Content::Text(EscapedText::read(self.value("prompt")?)?));
        let references = self.value("input_references").into_iter().flat_map(Raw::elements);
        let mut parts = vec![prompt];
        parts.extend(references.filter_map(|reference| part_of(reference, &mut chat)));
        chat.turns = vec![Turn::new(Role::User, parts)];
        // Some chat servers make no images without text. The Responses API takes text for a wish of its own.
        let modalities = if endpoint.dialect == Dialect::Responses { "[\"image\"]" } else { "[\"image\",\"text\"]" };
        chat.parameters.push(Parameter::made("modalities", modalities.to_owned()));
        let named = self.value("size").filter(|_| is_name(pixels));
        let written = |given: Option<Raw<'_>>, near: Option<&str>| {
            given.map(|given| given.written().to_owned()).or_else(|| near.map(|near| format!("\"{near}\"")))
        };
        let ratio = written(ratio, near_ratio).map(|ratio| format!("\"aspect_ratio\":{ratio}"));
        let class = written(class.or(named), near_class).map(|class| format!("\"image_size\":{class}"));
        let config: Vec<String> = [ratio, class].into_iter().flatten().collect();
        if takes_config && !config.is_empty() {
            chat.parameters.push(Parameter::made("image_config", format!("{{{}}}", config.join(","))));
        }
        Some(chat)
    }

    fn value(&self, name: &str) -> Option<Raw<'_>> {
        Raw::whole_of(self.envelope.value(name)?)
    }
}

/// An image to start from: its address, an object with that, or a whole part of a message.
fn part_of<'a>(reference: Raw<'a>, chat: &mut Conversation<'a>) -> Option<Part<'a>> {
    let address = EscapedText::read(reference).or_else(|| reference.member(b"url").and_then(EscapedText::read));
    match address {
        Some(address) => Some(Part::new(Content::Image { source: MediaSource::at(address), detail: None })),
        None => read_part(reference, &mut chat.unsupported),
    }
}
