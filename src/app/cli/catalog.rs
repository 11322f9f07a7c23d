//! `catalog diff`: prices, limits and retirements of the configuration against LiteLLM's price table.
//!
//! The only command that reads a price list, and only when it is asked to. The server never does.

#[deny(clippy::float_arithmetic)]
mod compare;
#[deny(clippy::float_arithmetic)]
mod report;
#[deny(clippy::float_arithmetic)]
mod source;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use pointsman_base::clock;
use pointsman_config::Environment;
use pointsman_domain::Catalog;

pub(super) use self::source::dollars;
use self::{compare::compare, report::Report};
use super::{CommandOutput, EXIT_DIFFERENT, Finished, load, names, refused, success};

/// What to compare.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CatalogRequest {
    #[command(subcommand)]
    action: CatalogAction,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
enum CatalogAction {
    /// Show what differs from a price list; exits with 1 if anything does
    Diff(DiffArguments),
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
struct DiffArguments {
    /// LiteLLM's price table: litellm, a saved FILE or an http(s) URL of it
    #[arg(long, value_name = "LIST")]
    from: String,
    /// Only this provider; also names its models that the configuration does not have
    #[arg(long, value_name = "SLUG", add = names::providers())]
    provider: Option<String>,
    /// Configuration; default: ./config.toml if it exists, else the built-in catalogue
    #[arg(id = "catalog_config", short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl CatalogRequest {
    /// The configuration named behind the command.
    pub(super) fn config_mut(&mut self) -> &mut Option<PathBuf> {
        let CatalogAction::Diff(arguments) = &mut self.action;
        &mut arguments.config
    }
}

/// Compares the catalogue with the list.
pub(super) fn run(request: &CatalogRequest, environment: &Environment) -> Finished {
    let CatalogAction::Diff(DiffArguments { from, provider, config, json }) = &request.action;
    let catalog = load(config.as_deref(), environment)?.config.catalog(1);
    let only = provider.as_deref();
    if let Some(slug) = only.filter(|slug| !has_provider(&catalog, slug)) {
        return Err(refused(format!("the configuration has no provider '{slug}'")));
    }
    let source = source::read(from, clock::today())?;
    let comparisons = compare(&catalog, &source, only);
    let report = Report::new(from, only, &source, &catalog, &comparisons);
    let text = if *json { report.json() } else { report.text() };
    Ok(if report.is_finding() { CommandOutput { text, code: EXIT_DIFFERENT } } else { success(text) })
}

fn has_provider(catalog: &Catalog, slug: &str) -> bool {
    catalog.providers.iter().any(|provider| provider.slug.as_str() == slug)
}
