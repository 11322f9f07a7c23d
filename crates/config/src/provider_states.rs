//! Decides which providers are on, and writes the notes about it for the start.
//!
//! A real provider is on when it is enabled, has the key it needs, and the simulation mode is not `on`. In mode `auto`
//! simulated providers are off as soon as a real one is on, so that no client gets a simulated answer unexpectedly.

use pointsman_domain::{ProviderSlug, ProviderState};

use super::{
    credential::Credential,
    providers::ProviderTable,
    simulation::{SimulationMode, SimulationTable},
};

/// The state of all providers.
pub(super) struct ProviderStates {
    /// State of each real provider, in order.
    pub(super) real: Vec<ProviderState>,
    /// State of every simulated provider.
    pub(super) simulated: ProviderState,
    /// Sentences for the log at start.
    pub(super) notes: Vec<String>,
    /// Enabled real providers that lack the key they need.
    pub(super) without_key: Vec<ProviderSlug>,
}

impl ProviderStates {
    pub(super) fn new(real: &[ProviderTable], simulation: &SimulationTable<'_>) -> ProviderStates {
        let states: Vec<ProviderState> = real.iter().map(|provider| real_state(provider, simulation)).collect();
        let on: Vec<&ProviderTable> = real
            .iter()
            .zip(&states)
            .filter(|(_, state)| **state == ProviderState::On)
            .map(|(provider, _)| provider)
            .collect();
        let simulated = simulated_state(&on, simulation);
        let mut notes: Vec<String> =
            real.iter().zip(&states).flat_map(|(one, state)| provider_notes(one, state)).collect();
        notes.extend(simulation_note(&on, simulation, real));
        if on.is_empty() && (simulation.providers.is_empty() || simulated != ProviderState::On) {
            notes.push("No provider is on: no model can be called.".to_owned());
        }
        let lacks_key = |one: &&ProviderTable| one.enabled && matches!(one.credential, Credential::Missing { .. });
        let without_key = real.iter().filter(lacks_key).filter_map(|one| one.slug.clone()).collect();
        ProviderStates { real: states, simulated, notes, without_key }
    }
}

fn real_state(provider: &ProviderTable, simulation: &SimulationTable<'_>) -> ProviderState {
    if !provider.enabled {
        return ProviderState::Off(match &provider.enabled_by {
            Some(variable) => format!("switched off by {variable}"),
            None => "switched off in the configuration (enabled = false)".to_owned(),
        });
    }
    if let Credential::Missing { why, .. } = &provider.credential {
        return ProviderState::Off(why.clone());
    }
    if simulation.mode == SimulationMode::On {
        return ProviderState::Off(match &simulation.mode_by {
            Some(variable) => format!("{variable} allows only simulated providers"),
            None => "simulation.mode = \"on\" allows only simulated providers".to_owned(),
        });
    }
    ProviderState::On
}

fn simulated_state(on: &[&ProviderTable], simulation: &SimulationTable<'_>) -> ProviderState {
    match (simulation.mode, on.is_empty()) {
        (SimulationMode::On, _) | (SimulationMode::Auto, true) => ProviderState::On,
        (SimulationMode::Auto, false) => {
            ProviderState::Off(format!("simulated; off because a real provider is on ({})", names(on)))
        }
        (SimulationMode::Off, _) => ProviderState::Off(match &simulation.mode_by {
            Some(variable) => format!("simulated; switched off by {variable}"),
            None => "simulated; switched off in the configuration (simulation.mode = \"off\")".to_owned(),
        }),
    }
}

/// Notes about the variables that affect one real provider.
fn provider_notes(provider: &ProviderTable, state: &ProviderState) -> Vec<String> {
    let shown = slug(provider);
    let mut notes = Vec::new();
    match (&provider.enabled_by, provider.enabled) {
        (Some(variable), true) => notes.push(format!("{variable} enables provider '{shown}'.")),
        (Some(variable), false) => notes.push(format!("{variable} switches provider '{shown}' off.")),
        (None, _) => {}
    }
    if !provider.enabled {
        return notes;
    }
    let Credential::Found { from, .. } = &provider.credential else { return notes };
    match state {
        ProviderState::On => notes.push(format!("Provider '{shown}' is on: {from} holds its key.")),
        ProviderState::Off(why) => {
            notes.push(format!("Provider '{shown}' stays off although {from} holds its key: {why}."))
        }
    }
    if *state == ProviderState::On
        && let Some(url) = provider
            .connection
            .as_ref()
            .map(|connection| &connection.base_url)
            .filter(|url| !url.is_tls() && !url.is_loopback())
    {
        notes.push(format!("The key of provider '{shown}' is sent unencrypted to {url}."));
    }
    notes
}

/// A note whether the simulation is on, and why.
fn simulation_note(on: &[&ProviderTable], simulation: &SimulationTable<'_>, real: &[ProviderTable]) -> Option<String> {
    if simulation.providers.is_empty() {
        return None;
    }
    let by = simulation.mode_by.as_ref().map_or_else(
        || format!("simulation.mode = \"{}\"", simulation.mode.as_str()),
        |variable| format!("{variable}={}", simulation.mode.as_str()),
    );
    Some(match (simulation.mode, on.is_empty()) {
        (SimulationMode::On, _) => format!("Only simulated providers serve ({by}): their answers are made up."),
        (SimulationMode::Off, _) => format!("Simulated providers are off ({by})."),
        (SimulationMode::Auto, false) => {
            format!("Simulated providers are off because real ones are on: {}.", names(on))
        }
        (SimulationMode::Auto, true) => {
            let variables: Vec<&str> = real.iter().filter_map(wanted_variable).collect();
            let advice = if variables.is_empty() {
                String::new()
            } else {
                format!(" For real ones set any of {}.", variables.join(", "))
            };
            format!("Simulated providers serve, because no real one is on: their answers are made up.{advice}")
        }
    })
}

/// The variable that would switch a provider on.
fn wanted_variable(provider: &ProviderTable) -> Option<&str> {
    match &provider.credential {
        Credential::Missing { variable, .. } if provider.enabled => variable.as_deref(),
        _ => None,
    }
}

fn names(providers: &[&ProviderTable]) -> String {
    let named = providers.iter().map(|provider| match &provider.credential {
        Credential::Found { from, .. } => format!("{} ({from})", slug(provider)),
        _ => provider
            .enabled_by
            .as_ref()
            .map_or_else(|| slug(provider).to_owned(), |variable| format!("{} ({variable})", slug(provider))),
    });
    named.collect::<Vec<_>>().join(", ")
}

fn slug(provider: &ProviderTable) -> &str {
    provider.slug.as_ref().map_or("?", |slug| slug.as_str())
}
