//! One item of the input.

use std::borrow::Cow;

use pointsman_domain::{Invalid, ReasoningFormat};

use super::{ChatReader, check_type, mistyped, refused, required};
use crate::{
    json::Raw,
    neutral::{
        Content, EscapedText, MemberType, Part, Path, ReasoningKind, ReasoningState, Role, ToolKind, none_of, of_type,
    },
    responses::{
        encode::output::GENERATED,
        reasoning_state::{self, ForeignReasoning, Opened},
    },
};

const ROLES: [&str; 4] = ["user", "assistant", "system", "developer"];

/// Where items stand.
const ITEMS: &str = "input[]";

// Members of each kind of item: its own, behind its type and what the API itself adds to items of an answer.
const OF_MESSAGES: [&[u8]; 5] = byte_names![type id status role content];
const OF_CALLS: [&[u8]; 7] = byte_names![type id status call_id name arguments namespace];
const OF_CUSTOM_CALLS: [&[u8]; 6] = byte_names![type id status call_id name input];
const OF_RESULTS: [&[u8]; 5] = byte_names![type id status call_id output];
const OF_REASONING: [&[u8]; 6] = byte_names![type id status summary content encrypted_content];
/// Members of an item that adds tools.
const OF_TOOLS: [&[u8]; 5] = byte_names![type id status role tools];

impl<'a> ChatReader<'a> {
    pub(super) fn item(&mut self, item: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        check_type(item.is_object(), path, "an object")?;
        let kind = item.member(b"type").filter(|kind| !kind.is_null());
        let kind = kind.map(|kind| kind.text().ok_or_else(|| mistyped(path.member("type"), "a string")));
        match kind.transpose()?.as_deref() {
            None | Some("message") => self.message(item, path),
            Some("function_call") => {
                let [.., id, name, arguments, namespace] = self.unsupported.pick(ITEMS, item.members(), OF_CALLS);
                self.call([id, name, arguments, namespace], path, ToolKind::Function)
            }
            Some("custom_tool_call") => {
                let [.., id, name, input] = self.unsupported.pick(ITEMS, item.members(), OF_CUSTOM_CALLS);
                self.call([id, name, input, None], path, ToolKind::Custom)
            }
            Some("function_call_output" | "custom_tool_call_output") => self.result(item, path),
            Some("reasoning") => self.reasoning_item(item, path),
            Some("additional_tools") => {
                let [.., tools] = self.unsupported.pick(ITEMS, item.members(), OF_TOOLS);
                let tools = tools.ok_or_else(|| required(path.member("tools")))?;
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

    fn message(&mut self, item: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        let [.., role, content] = self.unsupported.pick(ITEMS, item.members(), OF_MESSAGES);
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

    fn call(
        &mut self,
        [id, name, text, namespace]: [Option<Raw<'a>>; 4],
        path: &Path<'_>,
        kind: ToolKind,
    ) -> Result<(), Invalid> {
        let (id, name) = (filled(id, path.member("call_id"))?, filled(name, path.member("name"))?);
        let text_path = path.member(if kind == ToolKind::Custom { "input" } else { "arguments" });
        let text = text.ok_or_else(|| required(text_path))?;
        let arguments = EscapedText::read(text).ok_or_else(|| mistyped(text_path, "a string"))?;
        let flat = |namespace: Cow<'_, str>| EscapedText::escaping(&self.tools.flat(&namespace, &name.unescaped()));
        let flat = namespace.and_then(Raw::text).map(flat);
        let name = flat.unwrap_or(name);
        self.answer_so_far.calls.push(Part::new(Content::ToolCall { id, name, arguments, kind }));
        Ok(())
    }

    fn result(&mut self, item: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        let [.., id, output] = self.unsupported.pick(ITEMS, item.members(), OF_RESULTS);
        let id = filled(id, path.member("call_id"))?;
        let output_path = path.member("output");
        let output = output.ok_or_else(|| required(output_path))?;
        let parts = Part::joined(self.content(output, &output_path)?);
        self.end_answer();
        self.push(Role::Tool, vec![Part::new(Content::ToolResult { id, parts, failed: false })]);
        Ok(())
    }

    /// Reasoning of an earlier answer. Without `encrypted_content` no provider takes it back.
    fn reasoning_item(&mut self, item: Raw<'a>, path: &Path<'_>) -> Result<(), Invalid> {
        let [_, id, _, summary, content, sealed] = self.unsupported.pick(ITEMS, item.members(), OF_REASONING);
        let given = |value, kind, name| of_type(value, kind, || path.member(name).to_string());
        let lists = [given(summary, MemberType::Array, "summary")?, given(content, MemberType::Array, "content")?];
        let sealed = given(sealed, MemberType::String, "encrypted_content")?;
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
                let id = id.and_then(EscapedText::filled);
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
fn filled<'a>(value: Option<Raw<'a>>, path: Path<'_>) -> Result<EscapedText<'a>, Invalid> {
    let text = EscapedText::filled(value.ok_or_else(|| required(path))?);
    text.ok_or_else(|| mistyped(path, "a non-empty string"))
}
