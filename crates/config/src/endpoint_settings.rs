//! Settings of endpoints that a provider sets for all of its own, and an endpoint for itself.

use std::sync::Arc;

use pointsman_domain::{
    AddedMember, AddedMembers, Capability, CapabilitySet, Dialect, EffortBudgets, Platform, ReasoningHistory,
};

use super::section::{Item, Section, words};

const MAX_CAPABILITIES: usize = 24;
const MAX_SAFETY_SETTINGS: usize = 32;
/// Largest budget of reasoning, tokens.
const MAX_BUDGET: u32 = 10_000_000;
/// From which probability of harm on Gemini blocks.
const THRESHOLDS: [&str; 5] = ["OFF", "BLOCK_NONE", "BLOCK_ONLY_HIGH", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_LOW_AND_ABOVE"];

/// Members of a message in which reasoning goes back, for `reasoning_history`.
const REASONING_HISTORIES: [(&str, ReasoningHistory); 5] = [
    ("reasoning_content", ReasoningHistory::Content),
    ("reasoning", ReasoningHistory::Reasoning),
    ("both", ReasoningHistory::Both),
    ("reasoning_details", ReasoningHistory::Details),
    ("none", ReasoningHistory::Nothing),
];

settings! {
    /// Settings of endpoints. Those that an endpoint does not set are its provider's.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(super) struct EndpointSettings read(section, inherited: EndpointSettings) {
        /// Wire format of its chats. It also decides in which header the key is sent: `authorization` (`openai`,
        /// `openai-responses`), `x-goog-api-key` (`gemini`; the base address ends with the version, as in
        /// `https://generativelanguage.googleapis.com/v1beta`), `x-api-key` (`anthropic`, with `anthropic-version:
        /// 2023-06-01` unless `headers` sets another), or `authorization` (`converse`: Amazon Bedrock, where `base_url`
        /// is `https://bedrock-runtime.<region>.amazonaws.com` and the key is a Bedrock API key unless `auth` is
        /// `sigv4`).
        pub(super) dialect: Dialect = choice_or(&words(Dialect::ALL, Dialect::as_str), inherited.dialect),
        /// The service that serves the dialect.
        pub(super) platform: Platform => inherited.platform,
        /// Tokens of reasoning of each effort.
        pub(super) effort_budgets: EffortBudgets => inherited.effort_budgets,
        /// Whether request fields that the gateway does not know are forwarded or dropped.
        pub(super) forwards_unknown_fields "unknown_fields": bool =
            choice_or(&[("forward", true), ("drop", false)], inherited.forwards_unknown_fields),
        /// Whether it takes `max_completion_tokens` instead of `max_tokens`.
        pub(super) wants_max_completion_tokens: bool = flag_or(inherited.wants_max_completion_tokens),
        /// Whether its chat endpoints also serve `/completions`, so that they get requests to `POST /completions` as
        /// they came.
        pub(super) legacy_completions: bool = flag_or(inherited.legacy_completions),
        /// Whether it takes `reasoning_effort`, as OpenAI's own chat API does: the object `reasoning` becomes an
        /// effort, and `reasoning_details` in messages are left out. `false`: it takes the object, as OpenRouter does.
        pub(super) wants_reasoning_effort: bool = flag_or(inherited.wants_reasoning_effort),
        /// The member of a message in which readable reasoning of earlier answers goes back to a chat provider:
        /// `reasoning_content` (DeepSeek, Kimi, GLM), `reasoning` (Groq), `both` of them (vLLM, Ollama and llama.cpp,
        /// which read one, by their version), `reasoning_details` (OpenRouter), or `none` (OpenAI's own chat API, which
        /// refuses all of them). DeepSeek and Kimi refuse a turn with tools that lacks it. Clients of `/messages` and
        /// `/responses` bring it back in signatures and encrypted content, clients of chat in any of the three members.
        pub(super) reasoning_history: ReasoningHistory = with(|section, key| {
            section.choice(key, &REASONING_HISTORIES).unwrap_or(inherited.reasoning_history)
        }) [absent = "as the provider shows: reasoning goes back as `reasoning_content` once an answer had that \
                member or a refusal asked for it"],
        /// Members that the gateway adds to bodies and that this provider refuses. Without `stream_options`, tokens of
        /// streams are estimated. A provider that refuses one with a 400 or 422 is asked again without it. If it says
        /// that it does not know the member, or refuses it to two callers, that is remembered until the next reload.
        pub(super) omits: AddedMembers = with(|section, key| omits(section, key).unwrap_or(inherited.omits))
            [allowed = "`stream_options`, `store`, `include`, `reasoning.summary`"],
        /// What its endpoints refuse, whatever parameters they list: such requests go elsewhere.
        pub(super) lacks: Option<CapabilitySet> = with(|section, key| lacks(section, key).or(inherited.lacks))
            [absent = "what is known of the model",
             allowed = "`tool_choice.required`, `tools_with_reasoning`, `prefill`, `token_ids`, `media_url`, \
                 `tool_choice.none`, `custom_tools`, `json_schema.strict`, `json_schema.open`, \
                 `json_schema.more_than_24_optional`, `parallel_tool_calls`, `image_types`, `media_types`, \
                 `media_types.sound_and_video`, `media_types.rare_formats`, `media_types.office`, \
                 `media_types.other_files`, `media_url.http`, `media_url.files`"],
        /// For models that refuse functions while they reason (`tools_with_reasoning` in `lacks`): whether chats with
        /// functions are sent there nevertheless, without reasoning (`reasoning_effort: "none"`, named as emulated),
        /// instead of elsewhere.
        pub(super) tools_force_effort_none: bool = with(|section, key| {
            flag_for(section, key, (dialect, Dialect::OpenAi), inherited.tools_force_effort_none)
        }),
        /// Whether the provider may keep the responses of clients of `POST /responses` (`dialect =
        /// "openai-responses"`): `store` is the client's, answers have the provider's ids, and `previous_response_id`
        /// may name one. Such a request goes only to endpoints with this key; set it for one account, because another
        /// one does not know the id.
        pub(super) allow_state: bool = with(|section, key| {
            flag_for(section, key, (dialect, Dialect::Responses), inherited.allow_state)
        }),
        /// Whether its models take system messages in the middle of a conversation (`dialect = "anthropic"`): then one
        /// that stands behind a message of the user, last or before an answer, is sent as it is, with the beta
        /// `mid-conversation-system-2026-04-07`. Otherwise it becomes a text `<system>…</system>` of the user, and is
        /// named in `x-route-emulated-parameters`.
        pub(super) mid_conversation_system: bool = with(|section, key| {
            flag_for(section, key, (dialect, Dialect::Anthropic), inherited.mid_conversation_system)
        }),
        /// `false`: the role `developer` is replaced by `system`.
        pub(super) knows_developer_role: bool = flag_or(inherited.knows_developer_role),
        /// Whether `POST /messages/count_tokens` and `/responses/input_tokens` for a model ask the provider (`native`,
        /// without an inference; if it does not answer within 2 s, the estimate is given).
        pub(super) counts_tokens "count_tokens": Option<bool> = with(|section, key| {
            section.choice(key, &[("native", true), ("estimate", false)]).or(inherited.counts_tokens)
        }) [absent = "`native` for Claude models by `anthropic` or `converse`, models with OpenAI's names by \
                `openai-responses`, and by `gemini`; else `estimate`"],
        /// What the Gemini API blocks, such as `{ HARM_CATEGORY_HARASSMENT = "BLOCK_ONLY_HIGH" }`; empty: the
        /// provider's own settings.
        pub(super) safety_settings: Option<Arc<str>> =
            with(|section, key| safety_settings(section, key).or(inherited.safety_settings))
                [allowed = "categories of harm, each with `OFF`, `BLOCK_NONE`, `BLOCK_ONLY_HIGH`, \
                     `BLOCK_MEDIUM_AND_ABOVE` or `BLOCK_LOW_AND_ABOVE`"],
    }
}

impl EndpointSettings {
    /// The defaults of a provider that sets none.
    pub(super) const STANDARD: EndpointSettings = EndpointSettings {
        dialect: Dialect::OpenAi,
        platform: Platform::Native,
        wants_max_completion_tokens: false,
        wants_reasoning_effort: true,
        reasoning_history: ReasoningHistory::Unknown,
        omits: AddedMembers::of_bits(0),
        lacks: None,
        legacy_completions: false,
        tools_force_effort_none: false,
        allow_state: false,
        mid_conversation_system: false,
        effort_budgets: EffortBudgets::STANDARD,
        knows_developer_role: false,
        forwards_unknown_fields: true,
        counts_tokens: None,
        safety_settings: None,
    };
}

/// A switch that only endpoints of one dialect obey. Reports one that is on in another dialect.
fn flag_for(section: &Section<'_>, key: &'static str, (dialect, needed): (Dialect, Dialect), inherited: bool) -> bool {
    let flag = section.flag_or(key, inherited);
    if flag && section.has(key) && dialect != needed {
        let (is, needed) = (dialect.as_str(), needed.as_str());
        let allowed = format!("dialect = \"{needed}\", or this key at the endpoints of that dialect");
        section.fault(key, format!("does nothing at endpoints of the dialect '{is}'"), allowed);
    }
    flag
}

/// `safetySettings` of the Gemini API, if any are said.
fn safety_settings(section: &Section<'_>, key: &'static str) -> Option<Arc<str>> {
    let pairs = section.pairs(key, MAX_SAFETY_SETTINGS);
    let entry = |(category, threshold): &(&str, Item<'_>)| {
        let is_word = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        if !category.starts_with("HARM_CATEGORY_") || !category.bytes().all(is_word) {
            threshold.fault("is no category of harm", "a name such as HARM_CATEGORY_HARASSMENT");
            return None;
        }
        if !THRESHOLDS.contains(&threshold.text) {
            threshold.unknown("no threshold", THRESHOLDS);
            return None;
        }
        Some(format!("{{\"category\":\"{category}\",\"threshold\":\"{}\"}}", threshold.text))
    };
    let entries: Vec<String> = pairs.iter().filter_map(entry).collect();
    (!entries.is_empty()).then(|| format!("[{}]", entries.join(",")).into())
}

/// Tokens of reasoning of each effort.
pub(super) fn effort_budgets(section: &Section<'_>) -> EffortBudgets {
    let standard = EffortBudgets::default();
    keys! { section:
        //! Tokens of reasoning that an effort becomes at models that take a budget instead (older models of Anthropic
        //! and Google). A higher effort must not have a lower budget.
        /// Budget of the effort `minimal`.
        minimal = integer_or(1..=MAX_BUDGET, standard.minimal) [unit = "tokens"],
        /// Budget of `low`.
        low = integer_or(1..=MAX_BUDGET, standard.low) [unit = "tokens"],
        /// Budget of `medium`, also where no effort is given.
        medium = integer_or(1..=MAX_BUDGET, standard.medium) [unit = "tokens"],
        /// Budget of `high`.
        high = integer_or(1..=MAX_BUDGET, standard.high) [unit = "tokens"],
        /// Budget of `xhigh`.
        xhigh = integer_or(1..=MAX_BUDGET, standard.xhigh) [unit = "tokens"],
        /// Budget of `max`.
        max = integer_or(1..=MAX_BUDGET, standard.max) [unit = "tokens"],
    }
    let steps = [
        ("low", minimal, low),
        ("medium", low, medium),
        ("high", medium, high),
        ("xhigh", high, xhigh),
        ("max", xhigh, max),
    ];
    for (key, lower, own) in steps.into_iter().filter(|(_, lower, own)| own < lower) {
        section.fault(
            key,
            format!("is {own} tokens, less than the {lower} of the effort below it"),
            "budgets that do not fall",
        );
    }
    EffortBudgets { minimal, low, medium, high, xhigh, max }
}

/// What endpoints refuse, if it is said.
fn lacks(section: &Section<'_>, key: &'static str) -> Option<CapabilitySet> {
    let items = section.texts(key, MAX_CAPABILITIES)?;
    let set = items.iter().filter_map(|item| {
        let set = CapabilitySet::named(item.text);
        // An endpoint that refuses open schemas needs the closed form, which limits optional properties, too.
        let set =
            set.map(|set| if set.has(Capability::OpenSchema) { set.with(Capability::OptionalProperties) } else { set });
        if set.is_none() {
            item.unknown("no capability", CapabilitySet::names());
        }
        set
    });
    Some(set.fold(CapabilitySet::NONE, CapabilitySet::union))
}

/// Members that the gateway leaves out although it adds them elsewhere.
fn omits(section: &Section<'_>, key: &'static str) -> Option<AddedMembers> {
    let items = section.texts(key, AddedMember::ALL.len())?;
    let what = "no member that the gateway adds";
    let omits = items.iter().filter_map(|item| item.named(what, AddedMember::ALL, AddedMember::as_str));
    Some(omits.fold(AddedMembers::default(), AddedMembers::with))
}
