//! Tool names and call ids that fit the upstream, and the way back.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::{
    conversation::{Content, Conversation, Part, Tool, ToolChoice, ToolKind, Turn},
    text::EscapedText,
};

/// Alphabet and length of names or ids at an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameRules {
    /// Further ASCII characters besides letters and digits.
    pub(crate) extra: &'static str,
    /// Whether the first character must be a letter or `_`.
    pub(crate) begins_with_letter: bool,
    /// Most characters.
    pub(crate) max: usize,
}

/// Call ids as clients of chat may see them.
pub(crate) const CLIENT_IDS: NameRules = NameRules { extra: "_-", begins_with_letter: false, max: 40 };
/// Names of tools as OpenAI's chat takes them.
pub(crate) const CHAT_NAMES: NameRules = NameRules { extra: "_-", begins_with_letter: false, max: 64 };

impl NameRules {
    fn admits(self, index: usize, c: char) -> bool {
        let is_first_letter = !self.begins_with_letter || index > 0 || c.is_ascii_alphabetic() || c == '_';
        is_first_letter && (c.is_ascii_alphanumeric() || self.extra.contains(c))
    }

    /// Whether the name may be sent as it is.
    pub(crate) fn fits(self, name: &str) -> bool {
        !name.is_empty() && name.len() <= self.max && name.chars().enumerate().all(|(index, c)| self.admits(index, c))
    }

    /// The name, or one that fits and is another one for every other name: unfit characters become `_`, and `_` with eight
    /// hexadecimal digits of a hash is appended. Deterministic. An empty name needs a name of the caller's choosing first.
    pub(crate) fn fitting(self, name: &str) -> String {
        if self.fits(name) {
            return name.to_owned();
        }
        let suffix = format!("_{:08x}", short_hash(&[name.as_bytes()]));
        let clean = name.chars().map(|c| if self.admits(1, c) { c } else { '_' });
        let mut fitting: String = clean.take(self.max.saturating_sub(suffix.len())).collect();
        if !fitting.chars().next().is_some_and(|c| self.admits(0, c)) {
            fitting.insert(0, '_');
            fitting.truncate(self.max.saturating_sub(suffix.len()));
        }
        fitting + &suffix
    }
}

/// The first 32 bits of the SHA-256 of the parts one after the other.
fn short_hash(parts: &[&[u8]]) -> u32 {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().iter().take(4).fold(0, |hash, byte| (hash << 8) | u32::from(*byte))
}

/// What `others` have in the place of a name, else the name.
fn other_name<'a>(others: &BTreeMap<String, String>, name: &EscapedText<'a>) -> EscapedText<'a> {
    let other = if others.is_empty() { None } else { others.get(&*name.unescaped()) };
    other.map_or_else(|| name.clone(), |other| EscapedText::escaping(other))
}

/// Names of the tools of one request at the upstream, and what answers must be turned back to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolNames {
    /// Sent name by original, where they differ.
    sent: BTreeMap<String, String>,
    /// Original by sent name.
    original: BTreeMap<String, String>,
    /// Originals of custom tools that were declared as functions with one string member `input`.
    custom: Vec<String>,
}

impl ToolNames {
    /// Collects the names of all tools and of all calls in the history, in order of appearance.
    pub(crate) fn new(conversation: &Conversation<'_>, rules: NameRules) -> ToolNames {
        let mut names = ToolNames::collect(&conversation.turns, &conversation.tools, rules);
        let custom = conversation.tools.iter().filter(|tool| tool.kind == ToolKind::Custom);
        names.custom.extend(custom.map(|tool| tool.name.unescaped().into_owned()));
        if let ToolChoice::Named(name) = &conversation.tool_choice {
            names.add(&name.unescaped(), rules);
        }
        names
    }

    /// The names of these tools, and of the calls in these messages.
    pub(crate) fn collect(turns: &[Turn<'_>], tools: &[Tool<'_>], rules: NameRules) -> ToolNames {
        let mut names = ToolNames::default();
        tools.iter().for_each(|tool| names.add(&tool.name.unescaped(), rules));
        for part in turns.iter().flat_map(|turn| &turn.parts) {
            if let Content::ToolCall { name, .. } = &part.content {
                names.add(&name.unescaped(), rules);
            }
        }
        names
    }

    /// Adds a name. What is sent for it depends on nothing but the name and the rules.
    pub(crate) fn add(&mut self, name: &str, rules: NameRules) {
        if rules.fits(name) || self.sent.contains_key(name) {
            return;
        }
        let sent = rules.fitting(name);
        self.original.insert(sent.clone(), name.to_owned());
        self.sent.insert(name.to_owned(), sent);
    }

    /// The name to send for `name`.
    pub(crate) fn sent<'a>(&self, name: &EscapedText<'a>) -> EscapedText<'a> {
        other_name(&self.sent, name)
    }

    /// The client's name for a name in an answer.
    pub(crate) fn original<'a>(&self, sent: &EscapedText<'a>) -> EscapedText<'a> {
        other_name(&self.original, sent)
    }

    /// Whether the tool of that original name is a custom tool that was declared as a function.
    pub(crate) fn is_custom(&self, original: &EscapedText<'_>) -> bool {
        !self.custom.is_empty() && self.custom.iter().any(|name| *name == *original.unescaped())
    }
}

/// Whether any tool call or result is in the history.
pub(crate) fn has_tool_history(conversation: &Conversation<'_>) -> bool {
    let is_tool = |part: &Part<'_>| matches!(part.content, Content::ToolCall { .. } | Content::ToolResult { .. });
    conversation.turns.iter().flat_map(|turn| &turn.parts).any(is_tool)
}

/// How a made call id begins.
const MADE_CALL_ID: &str = "call_";
/// Bytes of the hash that a made call id shows, in 22 characters.
const MADE_CALL_ID_BYTES: usize = 16;

/// An id for a call that the upstream gave none. Depends on nothing but `parts`, which tell the call from every other one.
pub(crate) fn made_call_id(parts: &[&[u8]]) -> EscapedText<'static> {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let shown = URL_SAFE_NO_PAD.encode(digest.get(..MADE_CALL_ID_BYTES).unwrap_or_default());
    EscapedText::escaping(&format!("{MADE_CALL_ID}{shown}"))
}

/// The id of a call in the history to which the client gave an empty one: `message` is the position of its message, `call` that
/// among the calls of the message. What follows later does not change it.
pub(crate) fn call_id_of_place(message: usize, call: usize) -> EscapedText<'static> {
    let place = [message as u64, call as u64].map(u64::to_be_bytes);
    EscapedText::escaping(&format!("{MADE_CALL_ID}{:08x}", short_hash(&[&place[0], &place[1]])))
}

/// Whether the id has the form of [`made_call_id`].
pub(crate) fn is_made_call_id(id: &EscapedText<'_>) -> bool {
    let shown = id.bytes().strip_prefix(MADE_CALL_ID.as_bytes());
    shown.is_some_and(|shown| URL_SAFE_NO_PAD.decode(shown).is_ok_and(|bytes| bytes.len() == MADE_CALL_ID_BYTES))
}

/// A call id that fits the upstream: the same for a call and its result.
pub(crate) fn fitting_call_id<'a>(id: &EscapedText<'a>, rules: NameRules) -> EscapedText<'a> {
    let text = id.unescaped();
    if rules.fits(&text) { id.clone() } else { EscapedText::escaping(&rules.fitting(&text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAUDE: NameRules = NameRules { extra: "_-", begins_with_letter: false, max: 64 };
    const GEMINI: NameRules = NameRules { extra: "_.:-", begins_with_letter: true, max: 128 };

    #[test]
    fn a_name_that_fits_is_kept() {
        assert_eq!(CLAUDE.fitting("get_weather-2"), "get_weather-2");
    }

    #[test]
    fn names_that_differ_only_in_bad_characters_stay_different_and_fit() {
        let (one, other) = (CLAUDE.fitting("call:a.b/c"), CLAUDE.fitting("call.a:b/c"));
        assert_ne!(one, other);
        for name in [&one, &other] {
            assert!(name.starts_with("call_a_b_c_") && CLAUDE.fits(name), "{name}");
        }
    }

    #[test]
    fn an_id_made_of_a_place_fits_everywhere_and_is_that_of_no_other_place() {
        let ids: Vec<String> = [(0, 0), (0, 1), (1, 0), (256, 1)]
            .into_iter()
            .map(|(message, call)| call_id_of_place(message, call).unescaped().into_owned())
            .collect();
        for (place, id) in ids.iter().enumerate() {
            assert!(id.len() == 13 && CLIENT_IDS.fits(id), "{id}");
            assert!(!ids[..place].contains(id), "{ids:?}");
        }
    }

    #[test]
    fn a_long_name_and_a_wrong_first_character_are_made_to_fit() {
        for name in ["x".repeat(500), "1st-tool!".into(), "é".into(), "-".into()] {
            assert!(GEMINI.fits(&GEMINI.fitting(&name)), "{name}");
            assert!(CLAUDE.fits(&CLAUDE.fitting(&name)), "{name}");
        }
    }
}
