//! One item of the input.

use pointsman_domain::{Invalid, ReasoningFormat};

use super::{ChatReader, check_type, mistyped, refused, required};
use crate::{
    json::Raw,
    neutral::{
        Content, EscapedText, MemberType, Part, Path, ReasoningKind, ReasoningState, Role, ToolKind, none_of,
        optional_member,
    },
    responses::{
        encode::output::GENERATED,
        reasoning_state::{self, ForeignReasoning, Opened},
    },
};

const ROLES: [&str; 4] = ["user", "assistant", "system", "developer"];

/// Members of every item: its type, and what the API itself adds to items of an answer.
const OF_ITEMS: [&[u8]; 3] = [b"type", b"id", b"status"];
/// Members of a message that chat has.
const OF_MESSAGES: [&[u8]; 2] = [b"role", b"content"];
/// Members of a function call.
const OF_CALLS: [&[u8]; 4] = [b"call_id", b"name", b"arguments", b"namespace"];
/// Members of a call of a custom tool.
const OF_CUSTOM_CALLS: [&[u8]; 3] = [b"call_id", b"name", b"input"];
/// Members of the result of a call.
const OF_RESULTS: [&[u8]; 2] = [b"call_id", b"output"];
/// Members of a reasoning item.
const OF_REASONING: [&[u8]; 3] = [b"summary", b"content", b"encrypted_content"];
/// Members of an item that adds tools.
const OF_TOOLS: [&[u8]; 2] = [b"role", b"tools"];

impl<'a> ChatReader<'a> {
    pub(super) fn item(&mut self, item: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        check_type(item.is_object(), path, "an object")?;
        let kind = item.member(b"type").filter(|kind| !kind.is_null());
        let kind = kind.map(|kind| kind.text().ok_or_else(|| mistyped(path.member("type"), "a string")));
        match kind.transpose()?.as_deref() {
            None | Some("message") => {
                self.name_others_of_item(item, &OF_MESSAGES);
                self.message(item, path)
            }
            Some("function_call") => {
                self.name_others_of_item(item, &OF_CALLS);
                self.call(item, path, false)
            }
            Some("custom_tool_call") => {
                self.name_others_of_item(item, &OF_CUSTOM_CALLS);
                self.call(item, path, true)
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                self.name_others_of_item(item, &OF_RESULTS);
                self.result(item, path)
            }
            Some("reasoning") => {
                self.name_others_of_item(item, &OF_REASONING);
                self.reasoning_item(item, path)
            }
            Some("additional_tools") => {
                self.name_others_of_item(item, &OF_TOOLS);
                let tools = item.member(b"tools").ok_or_else(|| required(path.member("tools")))?;
                self.tools(tools, &path.member("tools").to_string())
            }
            Some("item_reference") => {
                let message = "Items are not kept here, so they cannot be referred to: send the item itself.";
                Err(refused(path.member("type"), message))
            }
            Some("web_search_call") => {
                self.unsupported.drop("input[].web_search_call");
                Ok(())
            }
            Some(_) => {
                self.needs_native(path.member("type"));
                Ok(())
            }
        }
    }

    /// Names the members of an item that endpoints of other dialects do not get.
    fn name_others_of_item(&mut self, item: Raw<'_>, known: &[&[u8]]) {
        for (key, value) in item.members() {
            let name = key.name();
            if !OF_ITEMS.contains(&&*name) && !known.contains(&&*name) {
                self.unsupported.drop_member("input[]", &name, value);
            }
        }
    }

    fn message(&mut self, item: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        let [role, content] = item.pick([b"role", b"content"]);
        let role = role.ok_or_else(|| required(path.member("role")))?;
        let content_path = path.member("content");
        let (written, role) = (role, role.text().unwrap_or_default());
        // An answer that says nothing comes back in many forms.
        if &*role == "assistant" && content.is_none_or(Raw::is_null) {
            return Ok(());
        }
        let content = content.ok_or_else(|| required(content_path))?;
        if !ROLES.contains(&&*role) {
            return Err(none_of(path.member("role"), Some(written), &ROLES));
        }
        let role = match &*role {
            "assistant" => {
                let parts = self.answer(content, &content_path)?;
                self.answer_so_far.parts.extend(parts);
                return Ok(());
            }
            "system" => Role::System,
            "developer" => Role::Developer,
            _ => Role::User,
        };
        let parts = self.content(content, &content_path)?;
        self.end_answer();
        self.push(role, parts);
        Ok(())
    }

    fn call(&mut self, item: Raw<'a>, path: &Path<'_>, is_custom: bool) -> Result<(), Invalid> {
        let (id, name) = (filled(item, "call_id", path)?, filled(item, "name", path)?);
        let text = if is_custom { "input" } else { "arguments" };
        let text_path = path.member(text);
        let text = item.member(text.as_bytes()).ok_or_else(|| required(text_path))?;
        let arguments = EscapedText::read(text).ok_or_else(|| mistyped(text_path, "a string"))?;
        let namespace = item.member(b"namespace").and_then(Raw::text).filter(|_| !is_custom);
        let flat = namespace.map(|namespace| EscapedText::escaping(&self.tools.flat(&namespace, &name.unescaped())));
        let (name, kind) = (flat.unwrap_or(name), if is_custom { ToolKind::Custom } else { ToolKind::Function });
        self.answer_so_far.calls.push(Part::new(Content::ToolCall { id, name, arguments, kind }));
        Ok(())
    }

    fn result(&mut self, item: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        let id = filled(item, "call_id", path)?;
        let output_path = path.member("output");
        let output = item.member(b"output").ok_or_else(|| required(output_path))?;
        let parts = Part::joined(self.content(output, &output_path)?);
        self.end_answer();
        self.push(Role::Tool, vec![Part::new(Content::ToolResult { id, parts, failed: false })]);
        Ok(())
    }

    /// Reasoning of an earlier answer. Without `encrypted_content` no provider takes it back.
    fn reasoning_item(&mut self, item: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        let list = |name| optional_member(item, path, name, MemberType::Array);
        let lists = [list("summary")?, list("content")?];
        let sealed = optional_member(item, path, "encrypted_content", MemberType::String)?;
        let texts = lists
            .into_iter()
            .flatten()
            .flat_map(Raw::elements)
            .filter_map(|part| part.member(b"text").and_then(EscapedText::read));
        let texts: Vec<EscapedText<'_>> = texts.filter(|text| !text.is_empty()).collect();
        let Some(sealed) = sealed.and_then(EscapedText::filled) else {
            if !texts.is_empty() {
                self.unsupported.drop("input[].summary");
            }
            return Ok(());
        };
        if self.answer_so_far.ends_at_reasoning() {
            self.end_answer();
        }
        let shown: String = texts.iter().map(EscapedText::unescaped).collect();
        let reasoning = &mut self.answer_so_far.reasoning;
        let mut push = |format, kind, text, sealed, id| {
            let state = ReasoningState { format, kind, text, sealed, id };
            reasoning.push(Part::new(Content::Reasoning(state)));
        };
        let opened = reasoning_state::open(&self.state_key, &sealed.unescaped(), &shown);
        match opened {
            Opened::Native => {
                // The upstream does not know ids that were made here.
                let is_ours = |id: &EscapedText<'_>| id.unescaped().starts_with(&format!("rs{GENERATED}"));
                let id = item.member(b"id").and_then(EscapedText::filled);
                for text in texts {
                    push(ReasoningFormat::Responses, ReasoningKind::Summary, Some(text), None, None);
                }
                let id = id.filter(|id| !is_ours(id));
                push(ReasoningFormat::Responses, ReasoningKind::Encrypted, None, Some(sealed), id);
            }
            Opened::Foreign(ForeignReasoning { format, kind, id, data }) => {
                let escaped = |text: &str| (!text.is_empty()).then(|| EscapedText::escaping(text));
                let text = escaped(&shown).filter(|_| kind != ReasoningKind::Encrypted);
                let sealed = escaped(&data).filter(|_| kind != ReasoningKind::Summary);
                push(format, kind, text, sealed, escaped(&id));
            }
            Opened::Unusable => self.unsupported.drop("input[].encrypted_content"),
        }
        Ok(())
    }
}

/// The text of a member that must be there and not be empty.
fn filled<'a>(item: Raw<'a>, name: &str, path: &Path<'_>) -> Result<EscapedText<'a>, Invalid> {
    let path = path.member(name);
    let value = item.member(name.as_bytes()).ok_or_else(|| required(path))?;
    let text = EscapedText::filled(value);
    text.ok_or_else(|| mistyped(path, "a non-empty string"))
}
