//! Simulated providers as configured: `[simulation]` and `[simulation.providers.<slug>]`.
//!
//! In the catalog they are providers like any other, marked as simulated. [`pointsman_simulation`] runs them.

use std::time::Duration;

use pointsman_domain::ProviderSlug;
use pointsman_simulation::ProviderSettings;

use super::{
    providers::{DIALECTS, Disclosure, disclosure, read_slug},
    quantity::MINUTE,
    section::{Item, Section},
};

/// When simulated providers are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SimulationMode {
    /// While no real provider is on.
    #[default]
    Auto,
    /// Always; real providers are off.
    On,
    /// Never.
    Off,
}

impl SimulationMode {
    /// Name in configuration and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SimulationMode::Auto => "auto",
            SimulationMode::On => "on",
            SimulationMode::Off => "off",
        }
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
        let modes = [SimulationMode::Auto, SimulationMode::On, SimulationMode::Off].map(|mode| (mode.as_str(), mode));
        SimulationTable {
            mode: section.choice("mode", &modes).unwrap_or_default(),
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
        disclosure: disclosure(section),
    }
}

fn read_settings(slug: &str, section: &Section<'_>) -> ProviderSettings {
    let default = ProviderSettings::default();
    let share = |key, default| section.number_or(key, 0.0..=1.0, default);
    let spread = |key, default| section.number_or(key, 0.0..=3.0, default);
    ProviderSettings {
        slug: slug.to_owned(),
        name: section.filled("name").unwrap_or(slug).to_owned(),
        dialect: section.choice_or("dialect", &DIALECTS, default.dialect),
        first_token: section.duration_or("ttft", Duration::ZERO..=10 * MINUTE, default.first_token),
        first_token_spread: spread("ttft_sigma", default.first_token_spread),
        tokens_per_second: section.number_or("tokens_per_second", 0.1..=1e6, default.tokens_per_second),
        tokens_per_second_spread: spread("throughput_sigma", default.tokens_per_second_spread),
        capacity: section.integer_or("capacity", 1..=1_000_000, default.capacity),
        slowdown_power: section.number_or("slowdown_power", 0.0..=5.0, default.slowdown_power),
        error_rate: share("error_rate", default.error_rate),
        truncate_rate: share("truncate_rate", default.truncate_rate),
        hang_rate: share("hang_rate", default.hang_rate),
        rate_limit_per_minute: super::limits::ceiling(section, "rate_limit_per_minute")
            .unwrap_or(default.rate_limit_per_minute),
        tokens_per_chunk: section.integer_or("tokens_per_chunk", 1..=1_000, default.tokens_per_chunk),
        odd_framing_rate: share("odd_framing_rate", default.odd_framing_rate),
        reports_usage: section.flag_or("reports_usage", default.reports_usage),
        seed: section.integer_or("seed", 0..=u64::MAX >> 1, default.seed),
        models: Vec::new(),
    }
}
