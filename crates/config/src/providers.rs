//! Providers as configured: `[providers.<slug>]`. Addresses, credentials, limits and endpoint defaults.
//!
//! [`super::provider_states`] decides whether a provider is on, because that also depends on the simulation. Secrets are read
//! here from their variables or files, and never written.

use std::{path::PathBuf, sync::Arc, time::Duration};

use pointsman_base::secret::Secret;
use pointsman_domain::{Dialect, Platform, ProviderSlug};

use super::{
    Surroundings,
    address::BaseUrl,
    admin::AdminConfig,
    catalog::built_in_providers,
    credential::{self, Credential},
    endpoint_settings::{EndpointSettings, effort_budgets},
    fault::hint,
    quantity::MINUTE,
    section::{Item, Section},
    server::ServerConfig,
};

/// Limit of providers, because the hot path stores their positions in one byte.
pub(super) const MAX_PROVIDERS: usize = 255;
const MAX_HEADERS: usize = 32;
/// Ends of addresses of single calls, which are often given as the base address.
const CALLS: [&str; 5] = ["/chat/completions", "/completions", "/messages", "/responses", "/embeddings"];
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
    /// The service that serves the dialect.
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

settings! {
    /// Data policy, links and locations of a provider, for the provider list.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub(super) struct Disclosure read(section) {
        /// Shown in the list of providers.
        pub(super) datacenters: Vec<String> = with(datacenters) [allowed = "country codes"],
        /// `deny`: the provider does not use prompts for its own purposes.
        pub(super) collects_data "data_collection": bool = choice_or(&[("allow", true), ("deny", false)], true),
        /// Whether the provider stores no prompts (zero data retention).
        pub(super) zero_data_retention "zdr": bool = flag_or(false),
        /// Shown in the list of providers.
        pub(super) privacy_policy_url: Option<String> = with(link) [absent = "none", allowed = "link"],
        /// Shown in the list of providers.
        pub(super) terms_of_service_url: Option<String> = with(link) [absent = "none", allowed = "link"],
        /// Shown in the list of providers.
        pub(super) status_page_url: Option<String> = with(link) [absent = "none", allowed = "link"],
        /// Shown in the list of providers.
        pub(super) headquarters: Option<String> = filled_text() [absent = "none", allowed = "country code"],
    }
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
    pub(super) name: Arc<str>,
    pub(super) enabled: bool,
    /// The variable that set `enabled`, if one did.
    pub(super) enabled_by: Option<String>,
    pub(super) credential: Credential,
    /// Without position and key; `None` when the name or the address is wrong; the fault is reported then.
    pub(super) connection: Option<ProviderConfig>,
    pub(super) disclosure: Disclosure,
    pub(super) endpoints: EndpointSettings,
}

impl ProviderTable {
    pub(super) fn read_all(root: &Section<'_>, context: &ProviderContext<'_>) -> Vec<ProviderTable> {
        root.named("providers", |name, section| ProviderTable::read(name, section, context))
    }

    fn read(name_in_file: &Item<'_>, section: &Section<'_>, context: &ProviderContext<'_>) -> ProviderTable {
        let surroundings = context.surroundings;
        keys! { section:
            //! A provider with an OpenAI-compatible API. It is on when it has the key it needs. The short name has
            //! lower-case letters, digits, `-`, `_` and `.`. At most 255, simulated ones included.
            /// `false`: off, even if its key is set.
            enabled = flag_or(true),
            /// Display name.
            name = filled() [absent = "the short name"],
            /// Paths such as `/chat/completions` are appended to it.
            base_url = with(|section, _| base_url(name_in_file, section, enabled, context)) [allowed = "URL"],
            /// Variable with the key; unset or empty: the provider is off.
            api_key_env = filled() [absent = "no key is needed", allowed = "name of a variable"],
            /// Alternative: a file that contains only the key, mode 0600.
            api_key_file = filled() [absent = "no key is needed", allowed = "path, relative to this file"],
            /// Header with the key: `authorization: Bearer …` (`bearer`), `api-key` (Azure), `x-api-key`,
            /// `x-goog-api-key`. `service-account`: the key is the JSON key file of a Google service account, for which
            /// tokens are got (Vertex AI). `sigv4`: calls are signed with the keys of an AWS account (Bedrock), JSON as
            /// `aws configure export-credentials` prints it; without `api_key_env` and `api_key_file` the keys are
            /// those in `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
            auth = choice(&AUTHS) [absent = "as `dialect` says"],
            /// Region for which calls are signed with `sigv4`, such as `us-east-1`.
            region = with(|section, _| region(section, base_url.as_ref(), auth, enabled))
                [absent = "as the host of `base_url` says"],
            /// `deployments`: paths are below `/deployments/<upstream_model>`, as at Azure with a dated `api-version`
            /// in the query of `base_url`. `bedrock` and `vertex`: the Messages API (`dialect = "anthropic"`) as these
            /// clouds serve it, with the model in the path: `base_url` is
            /// `https://bedrock-runtime.<region>.amazonaws.com`, or that of the publisher, ending with
            /// `/publishers/anthropic`. `vertex` with `dialect = "gemini"`: embeddings and counts of tokens are made in
            /// the form of Vertex AI; a `base_url` that ends with `/publishers/google` says the same.
            routes = choice_or(&ROUTES, Routes::Standard),
            /// Additional headers of every call; never secrets.
            headers = with(headers),
            /// Trusted certificates in addition to those of the system.
            ca_file = with(|section, _| credential::ca_file(section, enabled, surroundings))
                [absent = "none", allowed = "path, relative to this file"],
            /// Calls in progress at this provider.
            max_in_flight = integer_or(1..=1_000_000, ProviderConfig::MAX_IN_FLIGHT) [unit = "calls"],
            /// Longest wait below this limit; then the next endpoint is used.
            permit_wait = duration_or(Duration::ZERO..=MINUTE, ProviderConfig::PERMIT_WAIT),
            /// Whether calls carry a `traceparent`: that of the attempt, or the client's own while traces are off. For
            /// gateways and servers of your own; other providers have no use for it.
            forward_traceparent = flag_or(false),
            /// Hosts, in addition to its own, from which generated images may be fetched (https at 443 or the port of
            /// `base_url`; http only if `base_url` is http).
            image_hosts = with(image_hosts) [allowed = "host names"],
        }
        let slug = read_slug(name_in_file);
        let name: Arc<str> = name.unwrap_or(name_in_file.text).into();
        let is_at_vertex = base_url.as_ref().is_some_and(BaseUrl::is_of_google_at_vertex);
        let endpoints = endpoint_settings(section, routes, is_at_vertex);
        let connect = |(slug, base_url): (&ProviderSlug, BaseUrl)| ProviderConfig {
            index: 0,
            slug: slug.clone(),
            name: Arc::clone(&name),
            base_url,
            key: None,
            key_from: None,
            headers,
            ca_file,
            dialect: endpoints.dialect,
            auth: auth.unwrap_or(KeyHeader::of(endpoints.dialect)),
            region,
            routes,
            max_in_flight,
            permit_wait,
            forward_traceparent,
            image_hosts,
        };
        let connection = slug.as_ref().zip(base_url).map(connect);
        ProviderTable {
            slug,
            name,
            enabled,
            enabled_by: section.variable("enabled").map(str::to_owned),
            credential: credential::read(section, (api_key_env, api_key_file), enabled, surroundings),
            connection,
            disclosure: Disclosure::read(section),
            endpoints,
        }
    }
}

fn endpoint_settings(section: &Section<'_>, routes: Routes, is_at_vertex: bool) -> EndpointSettings {
    let platform = routes.platform();
    let effort_budgets = section.optional("effort_budgets", effort_budgets).unwrap_or_default();
    let inherited = EndpointSettings { platform, effort_budgets, ..EndpointSettings::STANDARD };
    let defaults = EndpointSettings::read(section, inherited);
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
        EndpointSettings { platform: Platform::Vertex, ..defaults }
    } else {
        defaults
    }
}

/// Warns where a provider is known to take the other form of reasoning than its table says.
fn warn_of_reasoning(section: &Section<'_>, defaults: &EndpointSettings) {
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

fn headers(section: &Section<'_>, key: &'static str) -> Vec<(String, String)> {
    // Credentials have their own configuration keys.
    const CREDENTIALS: [&str; 4] = ["authorization", "proxy-authorization", "x-api-key", "api-key"];
    const ALLOWED: &str = "a header name and a value of visible ASCII; secrets go into api_key_env or api_key_file";
    let pairs = section.pairs(key, MAX_HEADERS);
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

fn image_hosts(section: &Section<'_>, key: &'static str) -> Vec<String> {
    let items = section.texts(key, 64).unwrap_or_default();
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

fn datacenters(section: &Section<'_>, key: &'static str) -> Vec<String> {
    section.texts(key, 64).unwrap_or_default().iter().map(|item| item.text.to_owned()).collect()
}

fn link(section: &Section<'_>, key: &'static str) -> Option<String> {
    let text = section.filled(key)?;
    if !text.starts_with("https://") && !text.starts_with("http://") {
        section.fault(key, "is not a link", "a URL that begins with https:// or http://");
    }
    Some(text.to_owned())
}
