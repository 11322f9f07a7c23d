//! Providers as configured: `[providers.<slug>]`. Addresses, credentials, limits and endpoint defaults.
//!
//! [`super::provider_states`] decides whether a provider is on, because that also depends on the simulation. Secrets are read
//! here from their variables or files, and never written.

use std::{path::PathBuf, sync::Arc, time::Duration};

use pointsman_base::secret::Secret;
use pointsman_domain::{
    AddedMember, AddedMembers, Capability, CapabilitySet, Dialect, EffortBudgets, Platform, ProviderSlug,
    ReasoningHistory,
};

use super::{
    Surroundings,
    address::BaseUrl,
    admin::AdminConfig,
    catalog::built_in_providers,
    credential::{self, Credential},
    fault::hint,
    quantity::MINUTE,
    section::{Item, Section},
    server::ServerConfig,
};

/// Limit of providers, because the hot path stores their positions in one byte.
pub(super) const MAX_PROVIDERS: usize = 255;
const MAX_HEADERS: usize = 32;
const MAX_CAPABILITIES: usize = 24;
const MAX_SAFETY_SETTINGS: usize = 32;
/// Largest budget of reasoning, tokens.
const MAX_BUDGET: u32 = 10_000_000;
/// Ends of addresses of single calls, which are often given as the base address.
const CALLS: [&str; 5] = ["/chat/completions", "/completions", "/messages", "/responses", "/embeddings"];
/// From which probability of harm on Gemini blocks.
const THRESHOLDS: [&str; 5] = ["OFF", "BLOCK_NONE", "BLOCK_ONLY_HIGH", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_LOW_AND_ABOVE"];

/// Headers that the transport sets itself, or that change the framing of a message.
pub const RESERVED_HEADERS: [&str; 14] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Names of the wire formats, for `dialect`.
pub(super) const DIALECTS: [(&str, Dialect); 5] = [
    (Dialect::OpenAi.as_str(), Dialect::OpenAi),
    (Dialect::Anthropic.as_str(), Dialect::Anthropic),
    (Dialect::Gemini.as_str(), Dialect::Gemini),
    (Dialect::Responses.as_str(), Dialect::Responses),
    (Dialect::Converse.as_str(), Dialect::Converse),
];

/// Names of the headers with the key, for `auth`.
const AUTHS: [(&str, KeyHeader); 6] = [
    ("bearer", KeyHeader::Bearer),
    ("api-key", KeyHeader::ApiKey),
    ("x-api-key", KeyHeader::XApiKey),
    ("x-goog-api-key", KeyHeader::XGoogApiKey),
    (credential::SERVICE_ACCOUNT, KeyHeader::ServiceAccount),
    (credential::SIGV4, KeyHeader::SigV4),
];

/// Names of the addresses of calls, for `routes`.
const ROUTES: [(&str, Routes); 4] = [
    ("standard", Routes::Standard),
    ("deployments", Routes::Deployments),
    ("bedrock", Routes::Bedrock),
    ("vertex", Routes::Vertex),
];

/// The header that holds a provider's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// `authorization: Bearer <key>`.
    Bearer,
    /// `api-key`, as at Azure.
    ApiKey,
    /// `x-api-key`, as at Anthropic.
    XApiKey,
    /// `x-goog-api-key`, as at Google.
    XGoogApiKey,
    /// `authorization: Bearer <token>`: the key is the key file of a Google service account, which tokens are got for.
    ServiceAccount,
    /// `authorization: AWS4-HMAC-SHA256 …`: each call is signed with the keys of an AWS account.
    SigV4,
}

impl KeyHeader {
    /// The header of a dialect's own provider.
    const fn of(dialect: Dialect) -> KeyHeader {
        match dialect {
            Dialect::OpenAi | Dialect::Responses | Dialect::Converse => KeyHeader::Bearer,
            Dialect::Anthropic => KeyHeader::XApiKey,
            Dialect::Gemini => KeyHeader::XGoogApiKey,
        }
    }
}

/// How the paths of calls are made below the base address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Routes {
    /// The paths of the dialect.
    #[default]
    Standard,
    /// Below `/deployments/<model>`, as at Azure with a dated `api-version`.
    Deployments,
    /// The Messages API as Bedrock serves it.
    Bedrock,
    /// The Messages API, or the Gemini API, as Vertex AI serves it.
    Vertex,
}

impl Routes {
    /// Who serves the dialect.
    const fn platform(self) -> Platform {
        match self {
            Routes::Standard | Routes::Deployments => Platform::Native,
            Routes::Bedrock => Platform::Bedrock,
            Routes::Vertex => Platform::Vertex,
        }
    }
}

/// Connection settings of a provider that is on.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderConfig {
    /// Position in the catalog's providers.
    pub index: u32,
    /// Short name.
    pub slug: ProviderSlug,
    /// Display name.
    pub name: Arc<str>,
    /// Address.
    pub base_url: BaseUrl,
    /// API key; `None` when the provider needs none.
    pub key: Option<Secret>,
    /// The variable or the file that holds the key.
    pub key_from: Option<String>,
    /// Additional headers of every call.
    pub headers: Vec<(String, String)>,
    /// File of trusted certificates in addition to those of the system.
    pub ca_file: Option<PathBuf>,
    /// Wire format.
    pub dialect: Dialect,
    /// The header that holds the key.
    pub auth: KeyHeader,
    /// The region that calls are signed for.
    pub region: Option<String>,
    /// How the paths of calls are made.
    pub routes: Routes,
    /// Concurrency limit.
    pub max_in_flight: usize,
    /// Longest wait for a concurrency permit.
    pub permit_wait: Duration,
    /// Whether calls carry a `traceparent`.
    pub forward_traceparent: bool,
    /// Hosts, in addition to its own, from which generated images may be fetched.
    pub image_hosts: Vec<String>,
}

impl ProviderConfig {
    pub(super) const MAX_IN_FLIGHT: usize = 256;
    pub(super) const PERMIT_WAIT: Duration = Duration::from_millis(100);
}

/// Data policy, links and locations of a provider, for the provider list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Disclosure {
    pub(super) collects_data: bool,
    pub(super) zero_data_retention: bool,
    pub(super) privacy_policy_url: Option<String>,
    pub(super) terms_of_service_url: Option<String>,
    pub(super) status_page_url: Option<String>,
    pub(super) headquarters: Option<String>,
    pub(super) datacenters: Vec<String>,
}

/// Settings that the endpoints of a provider inherit, unless they set them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndpointDefaults {
    pub(super) dialect: Dialect,
    pub(super) platform: Platform,
    pub(super) wants_max_completion_tokens: bool,
    pub(super) wants_reasoning_effort: bool,
    pub(super) reasoning_history: ReasoningHistory,
    pub(super) omits: AddedMembers,
    /// `None`: what is known of the model.
    pub(super) lacks: Option<CapabilitySet>,
    pub(super) legacy_completions: bool,
    pub(super) tools_force_effort_none: bool,
    pub(super) allow_state: bool,
    pub(super) mid_conversation_system: bool,
    pub(super) effort_budgets: EffortBudgets,
    pub(super) knows_developer_role: bool,
    pub(super) forwards_unknown_fields: bool,
    /// `None`: as is known of dialect and model.
    pub(super) counts_tokens: Option<bool>,
    /// As JSON.
    pub(super) safety_settings: Option<Arc<str>>,
}

impl EndpointDefaults {
    /// The defaults of a provider that sets none.
    pub(super) const STANDARD: EndpointDefaults = EndpointDefaults {
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

    pub(super) fn read(section: &Section<'_>, inherited: EndpointDefaults) -> EndpointDefaults {
        let unknown_fields = section.choice("unknown_fields", &[("forward", true), ("drop", false)]);
        let dialect = section.choice_or("dialect", &DIALECTS, inherited.dialect);
        EndpointDefaults {
            dialect,
            platform: inherited.platform,
            wants_max_completion_tokens: section
                .flag_or("wants_max_completion_tokens", inherited.wants_max_completion_tokens),
            wants_reasoning_effort: section.flag_or("wants_reasoning_effort", inherited.wants_reasoning_effort),
            reasoning_history: reasoning_history(section).unwrap_or(inherited.reasoning_history),
            omits: omits(section).unwrap_or(inherited.omits),
            lacks: lacks(section).or(inherited.lacks),
            legacy_completions: section.flag_or("legacy_completions", inherited.legacy_completions),
            tools_force_effort_none: flag_for(section, dialect, Dialect::OpenAi, "tools_force_effort_none")
                .unwrap_or(inherited.tools_force_effort_none),
            allow_state: flag_for(section, dialect, Dialect::Responses, "allow_state").unwrap_or(inherited.allow_state),
            mid_conversation_system: flag_for(section, dialect, Dialect::Anthropic, "mid_conversation_system")
                .unwrap_or(inherited.mid_conversation_system),
            effort_budgets: section.optional("effort_budgets", effort_budgets).unwrap_or(inherited.effort_budgets),
            knows_developer_role: section.flag_or("knows_developer_role", inherited.knows_developer_role),
            forwards_unknown_fields: unknown_fields.unwrap_or(inherited.forwards_unknown_fields),
            counts_tokens: counts_tokens(section).or(inherited.counts_tokens),
            safety_settings: safety_settings(section).or(inherited.safety_settings),
        }
    }
}

/// A switch of a provider that only endpoints of one dialect obey. Reports one that is on at a provider of another dialect.
fn flag_for(section: &Section<'_>, dialect: Dialect, needed: Dialect, key: &'static str) -> Option<bool> {
    let flag = section.flag(key);
    if flag == Some(true) && dialect != needed {
        let (is, needed) = (dialect.as_str(), needed.as_str());
        let allowed = format!("dialect = \"{needed}\", or this key at the endpoints of that dialect");
        section.fault(key, format!("does nothing at endpoints of the dialect '{is}'"), allowed);
    }
    flag
}

/// Parts of the configuration that a provider's table is checked against.
pub(super) struct ProviderContext<'c> {
    pub(super) surroundings: &'c Surroundings<'c>,
    pub(super) server: &'c ServerConfig,
    pub(super) admin: &'c AdminConfig,
}

/// One `[providers.<slug>]` as read.
pub(super) struct ProviderTable {
    pub(super) slug: Option<ProviderSlug>,
    pub(super) name: String,
    pub(super) enabled: bool,
    /// The variable that set `enabled`, if one did.
    pub(super) enabled_by: Option<String>,
    /// The address; `None` when it is wrong; the fault is reported then.
    pub(super) base_url: Option<BaseUrl>,
    pub(super) credential: Credential,
    /// The header of the dialect when it is `None`.
    pub(super) auth: Option<KeyHeader>,
    pub(super) region: Option<String>,
    pub(super) routes: Routes,
    pub(super) headers: Vec<(String, String)>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) max_in_flight: usize,
    pub(super) permit_wait: Duration,
    pub(super) forward_traceparent: bool,
    pub(super) image_hosts: Vec<String>,
    pub(super) disclosure: Disclosure,
    pub(super) endpoint_defaults: EndpointDefaults,
}

impl ProviderTable {
    pub(super) fn read_all(root: &Section<'_>, context: &ProviderContext<'_>) -> Vec<ProviderTable> {
        root.named("providers", |name, section| ProviderTable::read(name, section, context))
    }

    /// The header that holds the key.
    pub(super) fn key_header(&self) -> KeyHeader {
        self.auth.unwrap_or(KeyHeader::of(self.endpoint_defaults.dialect))
    }

    fn read(name_in_file: &Item<'_>, section: &Section<'_>, context: &ProviderContext<'_>) -> ProviderTable {
        let enabled = section.flag_or("enabled", true);
        let slug = read_slug(name_in_file);
        let name = section.filled("name").unwrap_or(name_in_file.text).to_owned();
        let base_url = base_url(name_in_file, section, enabled, context);
        let credential = credential::read(section, enabled, context.surroundings);
        let auth = section.choice("auth", &AUTHS);
        let region = region(section, base_url.as_ref(), auth, enabled);
        let routes = section.choice("routes", &ROUTES).unwrap_or_default();
        let is_at_vertex = base_url.as_ref().is_some_and(BaseUrl::is_of_google_at_vertex);
        ProviderTable {
            slug,
            name,
            enabled,
            enabled_by: section.variable("enabled").map(str::to_owned),
            base_url,
            credential,
            auth,
            region,
            routes,
            headers: headers(section),
            ca_file: credential::ca_file(section, enabled, context.surroundings),
            max_in_flight: section.integer_or("max_in_flight", 1..=1_000_000, ProviderConfig::MAX_IN_FLIGHT),
            permit_wait: section.duration_or("permit_wait", Duration::ZERO..=MINUTE, ProviderConfig::PERMIT_WAIT),
            forward_traceparent: section.flag_or("forward_traceparent", false),
            image_hosts: image_hosts(section),
            disclosure: disclosure(section),
            endpoint_defaults: endpoint_defaults(section, routes, is_at_vertex),
        }
    }
}

fn endpoint_defaults(section: &Section<'_>, routes: Routes, is_at_vertex: bool) -> EndpointDefaults {
    let platform = routes.platform();
    let defaults = EndpointDefaults::read(section, EndpointDefaults { platform, ..EndpointDefaults::STANDARD });
    let has_form = match platform {
        Platform::Native => true,
        Platform::Bedrock => defaults.dialect == Dialect::Anthropic,
        Platform::Vertex => matches!(defaults.dialect, Dialect::Anthropic | Dialect::Gemini),
    };
    if !has_form {
        let wrong = "is no form of this dialect";
        let allowed = "beside it dialect = \"anthropic\" (bedrock, vertex) or \"gemini\" (vertex), or no routes";
        section.fault("routes", wrong, allowed);
    }
    warn_of_reasoning(section, &defaults);
    // Where Google publishes its models, the Gemini API is that of Vertex AI.
    if is_at_vertex && defaults.dialect == Dialect::Gemini {
        EndpointDefaults { platform: Platform::Vertex, ..defaults }
    } else {
        defaults
    }
}

/// Warns where a provider is known to take the other form of reasoning than its table says.
fn warn_of_reasoning(section: &Section<'_>, defaults: &EndpointDefaults) {
    let address = section.text("base_url").unwrap_or_default();
    let is_at = |host: &str| address.contains(host);
    if defaults.dialect != Dialect::OpenAi {
        return;
    }
    if defaults.wants_reasoning_effort && is_at("openrouter.ai/") {
        let advice = "false: OpenRouter takes the object `reasoning`, not `reasoning_effort` alone";
        section.warning("wants_reasoning_effort", format!("should be {advice}"));
    } else if !defaults.wants_reasoning_effort && (is_at("api.openai.com") || is_at(".openai.azure.com")) {
        let advice = "true, its default: OpenAI's own chat API refuses the object `reasoning`";
        section.warning("wants_reasoning_effort", format!("should be {advice}"));
    }
}

/// Whether the tokens of prompts are counted by the provider, if it is said.
pub(super) fn counts_tokens(section: &Section<'_>) -> Option<bool> {
    section.choice("count_tokens", &[("native", true), ("estimate", false)])
}

/// `safetySettings` of the Gemini API, if any are said.
pub(super) fn safety_settings(section: &Section<'_>) -> Option<Arc<str>> {
    let pairs = section.pairs("safety_settings", MAX_SAFETY_SETTINGS);
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
fn effort_budgets(section: &Section<'_>) -> EffortBudgets {
    let tokens = |key, default| section.integer_or(key, 1..=MAX_BUDGET, default);
    let standard = EffortBudgets::default();
    let budgets = EffortBudgets {
        minimal: tokens("minimal", standard.minimal),
        low: tokens("low", standard.low),
        medium: tokens("medium", standard.medium),
        high: tokens("high", standard.high),
        xhigh: tokens("xhigh", standard.xhigh),
        max: tokens("max", standard.max),
    };
    let EffortBudgets { minimal, low, medium, high, xhigh, max } = budgets;
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
    budgets
}

/// What endpoints refuse, if it is said.
pub(super) fn lacks(section: &Section<'_>) -> Option<CapabilitySet> {
    let items = section.texts("lacks", MAX_CAPABILITIES)?;
    let set = items.iter().filter_map(|item| {
        let set = CapabilitySet::named(item.text);
        // Who refuses open schemas takes only the form that has a limit of optional properties as well.
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
pub(super) fn omits(section: &Section<'_>) -> Option<AddedMembers> {
    let items = section.texts("omits", AddedMember::ALL.len())?;
    let mut omits = AddedMembers::default();
    for item in items {
        match AddedMember::ALL.into_iter().find(|member| member.as_str() == item.text) {
            Some(member) => omits = omits.with(member),
            None => item.unknown("no member that the gateway adds", AddedMember::ALL.map(AddedMember::as_str)),
        }
    }
    Some(omits)
}

pub(super) fn reasoning_history(section: &Section<'_>) -> Option<ReasoningHistory> {
    let words = [
        ("reasoning_content", ReasoningHistory::Content),
        ("reasoning", ReasoningHistory::Reasoning),
        ("both", ReasoningHistory::Both),
        ("reasoning_details", ReasoningHistory::Details),
        ("none", ReasoningHistory::Nothing),
    ];
    section.choice("reasoning_history", &words)
}

/// The slug in the name of a provider's table.
pub(super) fn read_slug(name: &Item<'_>) -> Option<ProviderSlug> {
    let slug = ProviderSlug::new(name.text);
    if slug.is_none() {
        name.fault("is not a provider's short name", "1 to 64 of: lower-case letters, digits, '-', '_', '.'");
    }
    slug
}

fn base_url(name: &Item<'_>, section: &Section<'_>, enabled: bool, context: &ProviderContext<'_>) -> Option<BaseUrl> {
    let built_in = built_in_providers();
    let meant = hint(name.text, built_in.iter().map(|known| &*known.slug).filter(|slug| *slug != name.text));
    let text = section.required_or("base_url", &format!("is missing{meant}"), BaseUrl::SHAPE)?;
    let url =
        BaseUrl::parse(text).map_err(|fault| section.fault("base_url", fault.to_string(), BaseUrl::SHAPE)).ok()?;
    if let Some(call) = CALLS.into_iter().find(|call| url.path().ends_with(call)) {
        let wrong = format!("ends in {call}, the path of one call: paths of calls are appended to it");
        section.fault("base_url", wrong, "the address before that");
    }
    let (server, admin) = (context.server, context.admin);
    let is_ours = |loopback: bool, port: u16| enabled && url.is_loopback() && loopback && url.port() == port;
    if is_ours(server.is_loopback(), server.bind.port()) {
        let wrong = "is the address of this gateway itself (server.bind): its calls would go round in circles";
        section.fault("base_url", wrong, "another port, here or in server.bind");
    } else if !admin.is_default() && admin.bind.is_some_and(|bind| is_ours(admin.is_loopback(), bind.port())) {
        let wrong = "is where this gateway is administered (admin.bind): no model answers there";
        section.fault("base_url", wrong, "another port, here or in admin.bind");
    }
    Some(url)
}

/// The region that calls are signed for: as configured, or as the address of Bedrock names it.
fn region(section: &Section<'_>, base_url: Option<&BaseUrl>, auth: Option<KeyHeader>, enabled: bool) -> Option<String> {
    let configured = section.filled("region").map(str::to_owned);
    let of_address = || base_url?.host().split('.').nth(1).filter(|label| is_region(label)).map(str::to_owned);
    let region = configured.or_else(of_address);
    if region.is_none() && enabled && auth == Some(KeyHeader::SigV4) {
        section.fault("region", "is needed to sign calls, and base_url names none", "a region, such as \"us-east-1\"");
    }
    region
}

/// Whether a part of a host is the name of a region, such as `us-gov-west-1`.
fn is_region(label: &str) -> bool {
    let mut parts = label.split('-');
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = |part: &str| part.bytes().all(|byte| byte.is_ascii_lowercase());
    label.contains('-') && parts.next_back().is_some_and(is_number) && parts.all(is_word)
}

fn headers(section: &Section<'_>) -> Vec<(String, String)> {
    // Credentials have their own configuration keys.
    const CREDENTIALS: [&str; 4] = ["authorization", "proxy-authorization", "x-api-key", "api-key"];
    const ALLOWED: &str = "a header name and a value of visible ASCII; secrets go into api_key_env or api_key_file";
    let pairs = section.pairs("headers", MAX_HEADERS);
    let good = pairs.iter().filter_map(|(name, value)| {
        let name = name.to_ascii_lowercase();
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let wrong = if CREDENTIALS.contains(&name.as_str()) || RESERVED_HEADERS.contains(&name.as_str()) {
            "is set by the gateway itself"
        } else if name.is_empty() || !name.bytes().all(token) {
            "is not a header name"
        } else if !value.text.bytes().all(|b| b == b' ' || b.is_ascii_graphic()) {
            "has a value that is not allowed in a header"
        } else {
            return Some((name, value.text.to_owned()));
        };
        value.fault(wrong, ALLOWED);
        None
    });
    good.collect()
}

fn image_hosts(section: &Section<'_>) -> Vec<String> {
    let items = section.texts("image_hosts", 64).unwrap_or_default();
    let good = items.iter().filter_map(|item| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
        let good = !item.text.is_empty() && item.text.bytes().all(plain);
        if !good {
            item.fault("is not a host name", "a host name without scheme, port and path, such as \"cdn.example.com\"");
        }
        good.then(|| item.text.to_ascii_lowercase())
    });
    good.collect()
}

pub(super) fn disclosure(section: &Section<'_>) -> Disclosure {
    let text = |key| section.filled(key).map(str::to_owned);
    let datacenters = section.texts("datacenters", 64).unwrap_or_default();
    Disclosure {
        collects_data: section.choice_or("data_collection", &[("allow", true), ("deny", false)], true),
        zero_data_retention: section.flag_or("zdr", false),
        privacy_policy_url: link(section, "privacy_policy_url"),
        terms_of_service_url: link(section, "terms_of_service_url"),
        status_page_url: link(section, "status_page_url"),
        headquarters: text("headquarters"),
        datacenters: datacenters.iter().map(|item| item.text.to_owned()).collect(),
    }
}

fn link(section: &Section<'_>, key: &'static str) -> Option<String> {
    let text = section.filled(key)?;
    if !text.starts_with("https://") && !text.starts_with("http://") {
        section.fault(key, "is not a link", "a URL that begins with https:// or http://");
    }
    Some(text.to_owned())
}
