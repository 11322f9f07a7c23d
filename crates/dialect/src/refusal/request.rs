//! What a refused request holds, as far as it casts doubt on what the refusal says.
//!
//! A client chooses every word of its request but the upstream name of the model. A provider that repeats such words says
//! nothing of its own. Read only after a refusal.

use std::cell::OnceCell;

use memchr::memmem;
use pointsman_domain::{Evidence, FailureKind};

use super::words::plain;
use crate::json::{Cursor, Raw};

/// Most characters at the start of a message that are looked for in a request.
const START: usize = 16;

/// Most texts of one refusal that are looked up in its request.
pub(super) const MOST_LOOK_UPS: usize = 16;

/// Longest string without a space that may be a text, in bytes. Encoded images are longer.
const LONGEST_WORD: usize = 1024;

/// Members that name something that belongs to the client: a file, a store, an earlier answer.
const RESOURCES: &[&str] = &names![
    file_id file_ids fileId file_uri fileUri file_url document_url document_id library_ids collection_ids
    previous_response_id conversation conversation_id vector_store_id vector_store_ids fileSearchStoreNames
    datastore ragCorpus container container_id cachedContent cached_content batch_id thread_id assistant_id
    prompt_id preset adapter_id lora server_url connector_id guardrailIdentifier guardrailVersion data_sources
    skill_id voice_id agent_id index_id
];
/// The same, if they hold an object.
const OBJECTS: &[&str] = &names![container conversation prompt s3Location guardrailConfig voice fileData];
/// Members whose value is text, or a description of text, and which no provider opens, whatever stands in it.
const TEXTS: &[&str] = &names![
    args arguments content default description enum function functionDeclarations function_declarations functions
    input inputSchema input_schema inputText instructions json_schema metadata output parameters reasoning_content
    responseSchema response_schema schema system text thinking toolSpec
];
/// The same, if they hold a list.
const TEXT_LISTS: &[&str] = &names![enum functionDeclarations function_declarations functions];
/// Members that name a model. At the top it is the upstream name, which the gateway wrote.
const MODELS: &[&str] = &names![model models model_id modelId];
/// Members that choose a tier of service or a region, and their values for the usual one.
const TIERS: &[&str] = &names![service_tier serviceTier speed inference_geo];
const USUAL_TIERS: &[&str] = &names![auto default global standard standard_only service_tier_unspecified unspecified];
/// Members that name the client's own user.
const USERS: &[&str] = &names![user user_id safety_identifier];
/// Types of tools that run at the client, so that nothing in them can be refused but their form.
const CLIENT_TOOLS: &[&str] = &names![function custom];
/// Types of parts of messages that are known here. In a part of another type anything may be looked up.
const PARTS: &[&str] = &names![
    document file image image_url input_audio redacted_thinking refusal search_result text thinking tool_result
    tool_use video_url
];
/// The same of items of the Responses API, and of their parts.
const ITEMS: &[&str] = &names![
    compaction custom_tool_call custom_tool_call_output function_call function_call_output message reasoning
];
const ITEM_PARTS: &[&str] = &names![
    input_audio input_file input_image input_text output_text reasoning_text refusal summary_text text
];
/// What an entry of `tools` without a type has if it runs at the client.
const CLIENT_TOOL_MEMBERS: &[&str] =
    &names![name function functionDeclarations function_declarations toolSpec cachePoint];
/// Members at the top of a body that hold nothing which a provider looks up elsewhere. A member that is not listed may hold
/// another key, account or model.
const ORDINARY: &[&str] = &names![
    additionalModelRequestFields anthropic_beta anthropic_version aspect_ratio audio background betas cache_control
    cachedContent chat_template_kwargs content contents context_management conversation dimensions embedding_types
    embeddingTypes enable_thinking encoding_format frequency_penalty function_call functions generationConfig
    generation_config imageGenerationConfig image_config include include_reasoning inferenceConfig inference_geo
    input inputText input_type instances instructions keep_alive logit_bias logprobs max_completion_tokens
    max_output_tokens max_tokens max_tool_calls messages metadata min_p modalities model moderation n normalize
    options output_compression output_config output_format parallel_tool_calls parameters performanceConfig
    prediction presence_penalty previous_response_id prompt prompt_cache_key prompt_cache_retention prompt_mode
    promptVariables provider quality random_seed reasoning reasoning_effort reasoning_format reasoning_split
    repetition_penalty requestMetadata requests response_format safe_prompt safety_identifier safetySettings
    safety_settings seed service_tier serviceTier size speed stop stop_sequences store stream stream_options style
    system systemInstruction system_instruction taskType temperature text textToImageParams texts thinking
    thinking_budget tool_choice toolConfig tools top_a top_k top_logprobs top_p truncate truncation usage user
    user_id verbosity
];

/// What a request holds that a refusal may be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Doubt {
    /// Something with a key, an account or a model of its own: a tool that the provider runs, another model, or a member that
    /// is not known here. Then no code and no sentence proves anything about the gateway's account or the endpoint's model.
    pub brings_its_own: bool,
    /// A resource: a file, a store, an address, an earlier answer. Then words that are not known prove nothing.
    pub names_a_resource: bool,
    /// A tier of service, a region, or providers behind the provider. Then a refusal for a while, or of the model, is about that.
    pub chooses_a_tier: bool,
}

/// The body of a request, read when it is needed.
#[derive(Debug)]
pub struct RefusedRequest<'a> {
    body: &'a [u8],
    value: OnceCell<Option<Raw<'a>>>,
    doubt: OnceCell<Doubt>,
    texts: OnceCell<Texts>,
}

/// The texts of a request as [`plain`] gives them, which hold no line break: so each ends with one.
#[derive(Debug, Default)]
struct Texts {
    names_at_top: String,
    /// Values, but the upstream name of the model, and names below the top.
    others: String,
}

impl<'a> RefusedRequest<'a> {
    /// One with this body.
    pub fn new(body: &'a [u8]) -> RefusedRequest<'a> {
        RefusedRequest { body, value: OnceCell::new(), doubt: OnceCell::new(), texts: OnceCell::new() }
    }

    fn value(&self) -> Option<Raw<'a>> {
        *self.value.get_or_init(|| Cursor::new(std::str::from_utf8(self.body).ok()?).value().ok())
    }

    /// What the request holds that a refusal may be about.
    pub fn doubt(&self) -> Doubt {
        *self.doubt.get_or_init(|| self.value().map(Doubt::read).unwrap_or_default())
    }

    /// What the client calls its own users, as [`plain`] gives it.
    pub(super) fn users(&self) -> Vec<String> {
        let Some(body) = self.value() else { return Vec::new() };
        let in_metadata = body.member(b"metadata").and_then(|metadata| metadata.member(b"user_id"));
        let users = USERS.iter().map(|name| body.member(name.as_bytes())).chain([in_metadata]);
        let users = users.flatten().filter_map(Raw::text).map(|user| plain(&user));
        users.filter(|user| !user.is_empty()).collect()
    }

    /// Whether the beginning of a message that follows `pattern` stands in the request too. `message` and `model`: as [`plain`]
    /// gives them.
    pub(super) fn holds_start_of(&self, message: &str, pattern: &str, model: &str) -> bool {
        // The client's text may be as short as the pattern's fixed beginning, so no more than that is looked for.
        let fixed = pattern.split(['*', '$']).next().unwrap_or_default().split("''").next().unwrap_or_default();
        let fixed = match message.find(model) {
            Some(at) if fixed.contains("{model}") => message.get(..at + model.len()).unwrap_or_default(),
            _ => fixed.trim_end(),
        };
        let most = match fixed.chars().count() {
            0 => START,
            count => count.min(START),
        };
        let end = message.char_indices().nth(most).map_or(message.len(), |(at, _)| at);
        self.holds(message.get(..end).unwrap_or_default())
    }

    /// Whether a value, or a name below the top, holds the word. `word` in lower case.
    pub fn repeats(&self, word: &str) -> bool {
        finds(&self.texts().others, word)
    }

    /// Whether a member has this name.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.value().is_some_and(|value| has_member(value, name.as_bytes()))
    }

    /// The most output tokens that the request allows for all its answers, as far as it names any.
    pub(super) fn most_output(&self) -> u64 {
        let count = |name: &[u8]| self.value().and_then(|body| body.member(name)).and_then(Raw::count);
        let names: [&[u8]; 3] = [b"max_completion_tokens", b"max_output_tokens", b"max_tokens"];
        let most = names.into_iter().find_map(count).unwrap_or(0);
        most.saturating_mul(count(b"n").unwrap_or(1).max(1))
    }

    /// Whether the request holds this text, in a name or a value. `text`: as [`plain`] gives it.
    pub(super) fn holds(&self, text: &str) -> bool {
        let texts = self.texts();
        !text.is_empty() && (finds(&texts.others, text) || finds(&texts.names_at_top, text))
    }

    fn texts(&self) -> &Texts {
        self.texts.get_or_init(|| self.value().map(Texts::read).unwrap_or_default())
    }
}

impl Texts {
    fn read(body: Raw<'_>) -> Texts {
        let mut texts = Texts::default();
        for (key, value) in body.members() {
            let name = key.name();
            push(&mut texts.names_at_top, key);
            if *name != *b"model" {
                texts.add(value);
            }
        }
        texts
    }

    fn add(&mut self, value: Raw<'_>) {
        push(&mut self.others, value);
        for (key, value) in value.members() {
            push(&mut self.others, key);
            self.add(value);
        }
        value.elements().for_each(|value| self.add(value));
    }
}

/// Adds a string, unless it is no sentence but data, such as an image.
fn push(texts: &mut String, value: Raw<'_>) {
    let is_of_data = |byte: &u8| byte.is_ascii_graphic() && *byte != b'\\';
    if !value.is_string() || (value.bytes().len() > LONGEST_WORD && value.bytes().iter().all(is_of_data)) {
        return;
    }
    if let Some(text) = value.text() {
        texts.push_str(&plain(&text));
        texts.push('\n');
    }
}

fn finds(texts: &str, text: &str) -> bool {
    memmem::find(texts.as_bytes(), text.as_bytes()).is_some()
}

impl Doubt {
    /// Finds what the request with this body gives reason to doubt.
    pub fn of_request(body: &[u8]) -> Doubt {
        RefusedRequest::new(body).doubt()
    }

    /// Whether an error about the account or the model may be about something in the request.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.brings_its_own || self.names_a_resource
    }

    /// What a failure of the request is evidence of, whether there was an answer or not. `evidence`: without this doubt.
    #[must_use]
    pub const fn weigh(self, kind: FailureKind, evidence: Evidence) -> Evidence {
        use FailureKind::{
            Forbidden, Malformed, NotFound, Overloaded, RateLimited, Reset, Server, Timeout, Truncated,
            UnexpectedStatus,
        };
        let is_busy = matches!(kind, RateLimited | Overloaded);
        let is_fault = matches!(kind, Overloaded | Server | Timeout | Reset | Malformed | Truncated | UnexpectedStatus);
        match evidence {
            // The tier has no room. For calls without it, the endpoint may have some.
            _ if is_busy && self.chooses_a_tier => Evidence::Request,
            // What the request brings may have broken, or have no room.
            _ if self.brings_its_own && (is_busy || is_fault) => Evidence::Request,
            Evidence::Known(_) if self.brings_its_own => Evidence::Request,
            // A tier may lack a model that the endpoint has.
            Evidence::Known(_) if self.chooses_a_tier && matches!(kind, NotFound | Forbidden) => Evidence::None,
            // What it names may be dead, late or too large.
            Evidence::None if self.names_a_resource && is_fault => Evidence::OF_ONE_CALLER,
            evidence => evidence,
        }
    }

    fn read(body: Raw<'_>) -> Doubt {
        let mut doubt = Doubt::default();
        let is_conversation = body.member(b"messages").or_else(|| body.member(b"input")).is_some();
        for (key, value) in body.members() {
            let name = key.name();
            let is_void = value.is_null() || value.bytes() == b"false" || value.bytes() == b"\"\"" || is_empty(value);
            if is_void {
                continue;
            }
            doubt.brings_its_own |= !is_one_of(ORDINARY, &name);
            // Beside a conversation it is the name of one that is stored.
            doubt.names_a_resource |= &*name == b"prompt" && value.is_string() && is_conversation;
            // Providers behind the provider, or a region: they may lack a model or have no room, as a tier may.
            doubt.names_a_resource |= matches!(&*name, b"provider" | b"inference_geo");
            doubt.chooses_a_tier |= &*name == b"provider";
            doubt.brings_its_own |= &*name == b"background" && value.bytes() == b"true";
            doubt.brings_its_own |= &*name == b"tools" && value.elements().any(runs_at_the_provider);
            doubt.brings_its_own |= &*name == b"messages" && value.elements().any(has_an_unknown_part);
            doubt.brings_its_own |= &*name == b"input" && value.elements().any(is_an_unknown_item);
            doubt.note(&name, value);
            if !is_text(&name, value) {
                doubt.walk(&name, value);
            }
        }
        doubt
    }

    /// Reads what stands below a member.
    fn walk(&mut self, name: &[u8], value: Raw<'_>) {
        for (key, value) in value.members() {
            let name = key.name();
            self.note(&name, value);
            let names_a_model = value.is_string() || value.elements().any(Raw::is_string);
            self.brings_its_own |= is_one_of(MODELS, &name) && names_a_model;
            if !is_text(&name, value) {
                self.walk(&name, value);
            }
        }
        for value in value.elements() {
            // An element has the name of its list; texts in it are texts.
            if value.is_string() { self.note(name, value) } else { self.walk(name, value) }
        }
    }

    fn note(&mut self, name: &[u8], value: Raw<'_>) {
        self.names_a_resource |= is_resource(name, value);
        if let Some(text) = value.text().filter(|_| value.is_string()) {
            self.chooses_a_tier |= is_one_of(TIERS, name) && !text.is_empty() && !is_usual_tier(&text);
        }
    }
}

fn is_one_of(list: &[&str], name: &[u8]) -> bool {
    list.iter().any(|known| known.as_bytes() == name)
}

/// Whether a member names something that the provider has to look up.
fn is_resource(name: &[u8], value: Raw<'_>) -> bool {
    let is_named = || value.text().is_some_and(|text| !text.is_empty()) || value.elements().next().is_some();
    let is_address =
        || !is_one_of(TEXTS, name) && !name.starts_with(b"$") && value.text().is_some_and(|text| text.contains("://"));
    (is_one_of(RESOURCES, name) && is_named()) || (is_one_of(OBJECTS, name) && value.is_object()) || is_address()
}

/// Whether nothing in a member is looked up.
fn is_text(name: &[u8], value: Raw<'_>) -> bool {
    is_one_of(TEXTS, name) && (value.is_object() || is_one_of(TEXT_LISTS, name))
}

fn is_usual_tier(tier: &str) -> bool {
    USUAL_TIERS.contains(&tier.trim().to_ascii_lowercase().as_str())
}

fn is_empty(value: Raw<'_>) -> bool {
    (value.is_array() || value.is_object()) && !value.is_filled()
}

/// Whether an entry of `tools` is run by the provider, with whatever the entry names.
fn runs_at_the_provider(tool: Raw<'_>) -> bool {
    match tool.kind() {
        Some(kind) => !CLIENT_TOOLS.contains(&&*kind),
        None => !CLIENT_TOOL_MEMBERS.iter().any(|name| tool.member(name.as_bytes()).is_some()),
    }
}

/// Whether a message has a part or a call of a type that is not known here, with whatever it names.
fn has_an_unknown_part(message: Raw<'_>) -> bool {
    let has_other = |name: &[u8], known: &[&str]| {
        let elements = message.elements_of(name);
        let mut types = elements.filter_map(Raw::kind);
        types.any(|kind| !known.contains(&&*kind))
    };
    has_other(b"content", PARTS) || has_other(b"tool_calls", CLIENT_TOOLS)
}

/// The same of an item of the Responses API.
fn is_an_unknown_item(item: Raw<'_>) -> bool {
    let is_other = |of: Raw<'_>, known: &[&str]| of.kind().is_some_and(|kind| !known.contains(&&*kind));
    let parts = [b"content".as_slice(), b"output", b"summary"].into_iter().filter_map(|name| item.member(name));
    is_other(item, ITEMS) || parts.flat_map(Raw::elements).any(|part| is_other(part, ITEM_PARTS))
}

/// Whether a member of `value`, or of what it holds, has this name.
fn has_member(value: Raw<'_>, name: &[u8]) -> bool {
    value.members().any(|(key, value)| key.name().eq_ignore_ascii_case(name) || has_member(value, name))
        || value.elements().any(|value| has_member(value, name))
}
