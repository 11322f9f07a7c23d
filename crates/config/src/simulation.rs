//! Simulated providers as configured: `[simulation]` and `[simulation.providers.<slug>]`.
//!
//! In the catalog they are providers like any other, marked as simulated. `pointsman_simulation` runs them.

use std::time::Duration;

use pointsman_domain::{Dialect, ProviderSlug, simulated::ProviderSettings};

use super::{
    providers::{Disclosure, read_slug},
    quantity::MINUTE,
    section::{Item, Section, words},
};

pointsman_domain::named! {
    /// When simulated providers are on.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum SimulationMode {
        /// While no real provider is on.
        #[default]
        Auto = "auto",
        /// Always; real providers are off.
        On = "on",
        /// Never.
        Off = "off",
    }
}

/// The simulated providers of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulationConfig {
    /// When they are on.
    pub mode: SimulationMode,
    /// Whether they are on, by `mode` and the real providers.
    pub active: bool,
    /// Their behaviour, with their positions among the catalog's providers.
    pub providers: Vec<(u32, ProviderSettings)>,
}

/// `[simulation]` as read.
pub(super) struct SimulationTable<'t> {
    pub(super) mode: SimulationMode,
    /// The variable that set the mode, if one did.
    pub(super) mode_by: Option<String>,
    pub(super) providers: Vec<SimulatedProvider<'t>>,
}

/// One `[simulation.providers.<slug>]` as read; its models are added from the catalog.
pub(super) struct SimulatedProvider<'t> {
    pub(super) named: Item<'t>,
    pub(super) slug: Option<ProviderSlug>,
    pub(super) settings: ProviderSettings,
    pub(super) disclosure: Disclosure,
}

impl<'t> SimulationTable<'t> {
    pub(super) fn read(section: &Section<'t>) -> SimulationTable<'t> {
        keys! { section:
            //! HTTP servers that Pointsman starts on loopback ports, so that it can be tried without an account. They
            //! have the same API as real providers and are called in the same way; only their answers are generated
            //! text.
            /// `auto`: simulated providers are on while no real provider is on. `on`: only simulated providers are on,
            /// whatever keys the environment has. `off`: simulated providers are off.
            mode = choice_or(&words(SimulationMode::ALL, SimulationMode::as_str), SimulationMode::Auto),
        }
        SimulationTable {
            mode,
            mode_by: section.variable("mode").map(str::to_owned),
            providers: section.named("providers", read_provider),
        }
    }
}

fn read_provider<'t>(name: &Item<'t>, section: &Section<'t>) -> SimulatedProvider<'t> {
    SimulatedProvider {
        named: name.clone(),
        slug: read_slug(name),
        settings: read_settings(name.text, section),
        disclosure: Disclosure::read(section),
    }
}

fn read_settings(slug: &str, section: &Section<'_>) -> ProviderSettings {
    let default = ProviderSettings::default();
    keys! { section => ProviderSettings { slug: slug.to_owned(), models: Vec::new() }:
        //! A simulated provider. Its data policy keys are those of real providers.
        /// Display name.
        name = with(|section, key| section.filled(key).unwrap_or(slug).to_owned()) [absent = "the short name"],
        /// The API that it serves: OpenAI's chat completions or Responses, Anthropic's Messages, Google's Gemini or
        /// Amazon Bedrock's Converse.
        dialect = choice_or(&words(Dialect::ALL, Dialect::as_str), default.dialect),
        /// Median time to the first token.
        first_token "ttft" = duration_or(Duration::ZERO..=10 * MINUTE, default.first_token),
        /// Standard deviation of its logarithm.
        first_token_spread "ttft_sigma" = number_or(0.0..=3.0, default.first_token_spread),
        /// Median speed.
        tokens_per_second = number_or(0.1..=1e6, default.tokens_per_second) [unit = "tokens per second"],
        /// Standard deviation of its logarithm.
        tokens_per_second_spread "throughput_sigma" = number_or(0.0..=3.0, default.tokens_per_second_spread),
        /// Calls in progress that it serves at full speed.
        capacity = integer_or(1..=1_000_000, default.capacity) [unit = "calls"],
        /// Above the capacity all times grow by (calls / capacity) to this power.
        slowdown_power = number_or(0.0..=5.0, default.slowdown_power),
        /// Answered with a 500.
        error_rate = number_or(0.0..=1.0, default.error_rate) [unit = "share of calls"],
        /// Truncated before the end.
        truncate_rate = number_or(0.0..=1.0, default.truncate_rate) [unit = "share of calls"],
        /// Stop sending without an end.
        hang_rate = number_or(0.0..=1.0, default.hang_rate) [unit = "share of calls"],
        /// Calls per minute above which it answers 429; 0: no limit.
        rate_limit_per_minute = ceiling_or(0) [unit = "calls"],
        /// Output tokens per streamed chunk.
        tokens_per_chunk = integer_or(1..=1_000, default.tokens_per_chunk) [unit = "tokens"],
        /// Events with unusual framing (two in one write, or one split over two), as real servers send them.
        odd_framing_rate = number_or(0.0..=1.0, default.odd_framing_rate) [unit = "share of events"],
        /// Whether answers have token counts; some real servers leave them out.
        reports_usage = flag_or(default.reports_usage),
        /// Seed of its random numbers: the same seed and order of calls give the same results.
        seed = integer_or(0..=u64::MAX >> 1, default.seed),
    }
}
