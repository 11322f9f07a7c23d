//! Names that a shell completes: models, aliases and providers of the configuration in this directory.

use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use pointsman_base::clock;
use pointsman_config::{Config, Environment};
use pointsman_domain::{Catalog, Provider};

/// Models that can be called, and aliases.
pub(super) fn models() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(|catalog| models_of(catalog).chain(aliases_of(catalog)).collect()))
}

/// Models that can be called, and the providers that are on.
pub(super) fn models_and_providers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(|catalog| models_of(catalog).chain(providers_of(catalog)).collect()))
}

/// The providers that are on.
pub(super) fn providers() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(|catalog| providers_of(catalog).collect()))
}

/// None where the configuration has a fault: `check` tells it.
fn candidates(of: impl Fn(&Catalog) -> Vec<String>) -> Vec<CompletionCandidate> {
    let loaded = Config::load(None, &Environment::of_process());
    let names = loaded.map(|loaded| of(&loaded.config.catalog(1))).unwrap_or_default();
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn models_of(catalog: &Catalog) -> impl Iterator<Item = String> {
    let today = clock::today();
    let served = catalog.models.iter().filter(move |model| catalog.is_served(model, today));
    served.map(|model| model.id.to_string())
}

fn aliases_of(catalog: &Catalog) -> impl Iterator<Item = String> {
    catalog.aliases.iter().map(|alias| alias.id.clone())
}

fn providers_of(catalog: &Catalog) -> impl Iterator<Item = String> {
    catalog.providers.iter().filter(|provider| Provider::is_on(provider)).map(|provider| provider.slug.to_string())
}
