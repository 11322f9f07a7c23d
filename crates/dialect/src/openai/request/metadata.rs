//! `metadata`: routing parameters under reserved names, the client's own tags under all others.
//!
//! Tags go to the ledger. They go upstream only when the client asked for its answer to be stored there and
//! they keep the rule of that place, which is narrower than ours. Two tags are meant for this gateway and never go there.

use pointsman_domain::{Invalid, Source};

use super::{
    fault,
    json::{self, Object},
    json_type::JsonType,
    routing::RoutingBuilder,
    suggestions::field_meant_in_metadata,
};
use crate::{
    gateway_fields::{RoutingField, is_for_gateway_in_metadata},
    json::Raw,
    neutral::Path,
};

const MAX_MEMBERS: usize = 64;
const MAX_BYTES: usize = 16_384;

/// The rule of the OpenAI dialect for tags that are stored with an answer.
const STORED_MEMBERS: usize = 16;
const STORED_NAME_CHARS: usize = 64;
const STORED_VALUE_CHARS: usize = 512;

/// Reads `metadata`: parameters into `routing`, tags into the list that is returned.
pub(super) fn read(
    raw: Raw<'_>,
    path: &Path<'_>,
    routing: &mut RoutingBuilder,
) -> Result<Vec<(String, String)>, Invalid> {
    json::object(raw, path)?;
    let too_large =
        || fault::refused(path, format!("'{path}' may hold at most {MAX_MEMBERS} members and {MAX_BYTES} bytes."));
    if raw.written().len() > MAX_BYTES {
        return Err(too_large());
    }
    let object = Object::read(raw, path)?;
    if object.len() > MAX_MEMBERS {
        return Err(too_large());
    }
    let mut tags = Vec::new();
    for member in object.iter() {
        match RoutingField::from_name(&member.name) {
            None => {
                // An object is no tag that a client would choose, and the restrictions in it lapse.
                let is_provider = member.name == "provider" && JsonType::of(member.value) == JsonType::Object;
                if is_provider || field_meant_in_metadata(&member.name).is_some() {
                    routing.note_suspected_field(&path.member(&member.name));
                }
                tags.push((member.name.clone().into_owned(), tag(member.value)));
            }
            Some(name) => {
                if let Some(raw) = json::given(member.value) {
                    routing.read(name, raw, &path.member(&member.name), Source::Metadata)?;
                }
            }
        }
    }
    Ok(tags)
}

/// The member `"metadata":{…}` that an upstream of the OpenAI dialect may be sent, if there is one.
pub(super) fn stored(raw: Raw<'_>) -> Option<String> {
    let object = Object::read(raw, &Path::Field("metadata")).ok()?;
    let mut written = String::from("\"metadata\":{");
    let mut count = 0;
    for member in object.iter().filter(|member| !is_for_gateway_in_metadata(&member.name, member.value)) {
        let value = member.value.text()?;
        let fits = |text: &str, most: usize| text.len() <= most || text.chars().count() <= most;
        if !fits(&member.name, STORED_NAME_CHARS) || !fits(&value, STORED_VALUE_CHARS) || count == STORED_MEMBERS {
            return None;
        }
        if count > 0 {
            written.push(',');
        }
        count += 1;
        written.push_str(member.key.written());
        written.push(':');
        written.push_str(member.value.written());
    }
    written.push('}');
    (count > 0).then_some(written)
}

/// A tag as the ledger keeps it: a string as it reads, anything else as compact JSON.
fn tag(raw: Raw<'_>) -> String {
    match JsonType::of(raw) {
        JsonType::Text => raw.text().unwrap_or_default().into_owned(),
        JsonType::Array | JsonType::Object => compact(raw.written()),
        _ => raw.written().to_owned(),
    }
}

/// JSON without the white space between its tokens.
fn compact(text: &str) -> String {
    let (mut inside, mut escaped) = (false, false);
    let keep = |c: &char| {
        let kept = inside || !matches!(c, ' ' | '\t' | '\n' | '\r');
        inside ^= *c == '"' && !escaped;
        escaped = inside && *c == '\\' && !escaped;
        kept
    };
    text.chars().filter(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw<'_> {
        json::whole(text, 8).unwrap()
    }

    #[test]
    fn tags_keep_their_strings_and_lose_only_the_space_between_tokens() {
        let kept = tag(raw("{ \"a b\" : [ 1,\n\t\"c \\\" d\\\\\" , \"e\" ] }"));
        assert_eq!(kept, r#"{"a b":[1,"c \" d\\","e"]}"#);
        assert_eq!(tag(raw(r#""x\ny""#)), "x\ny");
        assert_eq!(tag(raw("1.50")), "1.50");
    }

    #[test]
    fn stored_tags_are_strings_of_the_dialects_lengths_without_reserved_names() {
        let stored = |text: &str| stored(raw(text));
        assert_eq!(stored(r#"{"objective":"fastest","a":"1"}"#).as_deref(), Some(r#""metadata":{"a":"1"}"#));
        assert_eq!(stored(r#"{"objective":"fastest"}"#), None);
        assert_eq!(stored(r#"{"a":1}"#), None);
        assert_eq!(stored(&format!(r#"{{"a":"{}"}}"#, "x".repeat(513))), None);
    }

    #[test]
    fn what_rates_the_answer_before_is_not_stored_and_keeps_no_other_tag_from_it() {
        let stored = |text: &str| stored(raw(text));
        for rating in [
            r#""previous_generation_id":"gen-1","rejected":true"#,
            r#""previous_generation_id":"gen-1","rejected":"true""#,
            r#""previous_generation_id":null,"rejected":false"#,
        ] {
            let kept = stored(&format!(r#"{{"topic":"x",{rating}}}"#));
            assert_eq!(kept.as_deref(), Some(r#""metadata":{"topic":"x"}"#), "{rating}");
            assert_eq!(stored(&format!("{{{rating}}}")), None);
        }
        let own = stored(r#"{"rejected":"by the reader"}"#);
        assert_eq!(own.as_deref(), Some(r#""metadata":{"rejected":"by the reader"}"#));
    }
}
