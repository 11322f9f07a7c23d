//! `catalog`: prices, limits and retirements of the configuration against a price list, and on request its prices in the file.
//!
//! The only command that reads a price list, and only when it is asked to. The server never does.

#[deny(clippy::float_arithmetic)]
mod compare;
#[deny(clippy::float_arithmetic)]
mod report;
#[deny(clippy::float_arithmetic)]
mod source;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use pointsman_base::clock;
use pointsman_config::{Config, Environment, PriceEdit, price_edits, redated};
use pointsman_domain::{Catalog, Pricing};

pub(super) use self::source::dollars;
use self::{
    compare::{Comparison, WritePermission, compare},
    report::Report,
    source::Source,
};
use super::{CommandOutput, EXIT_DIFFERENT, failure, load, names, replaced_file::replace, success};

/// The file that is read and written without a path.
const DEFAULT: &str = "config.toml";

/// What to do with which price lists.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct CatalogRequest {
    #[command(subcommand)]
    action: CatalogAction,
}

#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
enum CatalogAction {
    /// Show what differs from a price list; exits with 1 if anything does
    Diff(ListArguments),
    /// Show what would be written into the configuration, and write it with --write
    Update {
        #[command(flatten)]
        lists: ListArguments,
        /// Write the prices into the file; the old one stays as .bak
        #[arg(long)]
        write: bool,
        /// Write even what looks like an error, for this MODEL or MODEL@PROVIDER; repeatable
        #[arg(long, value_name = "ID")]
        accept: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Args)]
struct ListArguments {
    /// Price list: openrouter, models.dev, litellm, a saved FILE or an http(s) URL of one; repeatable
    #[arg(long = "from", value_name = "LIST", required = true)]
    from: Vec<String>,
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
        match &mut self.action {
            CatalogAction::Diff(lists) | CatalogAction::Update { lists, .. } => &mut lists.config,
        }
    }
}

/// Compares, and writes if that is asked for.
pub(super) fn run(request: &CatalogRequest, environment: &Environment) -> CommandOutput {
    let (lists, write, accepted) = match &request.action {
        CatalogAction::Diff(lists) => (lists, false, [].as_slice()),
        CatalogAction::Update { lists, write, accept } => (lists, *write, accept.as_slice()),
    };
    update(lists, write, accepted, environment).unwrap_or_else(|output| output)
}

fn update(
    lists: &ListArguments,
    write: bool,
    accepted: &[String],
    environment: &Environment,
) -> Result<CommandOutput, CommandOutput> {
    let loaded = load(lists.config.as_deref(), environment)?;
    let catalog = loaded.config.catalog(1);
    if let Some(slug) = lists.provider.as_deref().filter(|slug| !has_provider(&catalog, slug)) {
        return Err(failure(format!("pointsman: the configuration has no provider '{slug}'\n")));
    }
    let today = clock::today();
    let sources = lists.from.iter().map(|from| source::read(from, today)).collect::<Result<Vec<Source>, _>>()?;
    let comparisons = compare(&catalog, &sources, lists.provider.as_deref(), accepted);
    let known = |name: &&String| comparisons.iter().any(|one| one.model == **name || one.name() == **name);
    if let Some(unknown) = accepted.iter().find(|name| !known(name)) {
        return Err(failure(format!("pointsman: --accept {unknown}: no endpoint of that name is compared\n")));
    }
    let mut report = Report::new(lists, &sources, &catalog, &comparisons);
    if write {
        let path = lists.config.as_deref().unwrap_or(Path::new(DEFAULT));
        let edited = edit(path, &sources, &comparisons, environment)?;
        report.note(path, edited);
    }
    let text = if lists.json { report.json() } else { report.text() };
    Ok(if report.is_finding() { CommandOutput { text, code: EXIT_DIFFERENT } } else { success(text) })
}

fn has_provider(catalog: &Catalog, slug: &str) -> bool {
    catalog.providers.iter().any(|provider| provider.slug.as_str() == slug)
}

/// What became of the file.
#[derive(Debug, Default)]
struct Edited {
    /// Endpoints with new prices: positions of comparisons.
    written: Vec<usize>,
    /// Endpoints whose prices cannot be written.
    by_hand: Vec<usize>,
    /// How many prices only got a new date.
    redated: usize,
}

/// Writes the file, if anything changes in it.
fn edit(
    path: &Path,
    sources: &[Source],
    comparisons: &[Comparison],
    environment: &Environment,
) -> Result<Edited, CommandOutput> {
    let shown = path.display();
    let before = fs::read_to_string(path).map_err(|error| {
        let hint = "the built-in catalogue is not written; 'pointsman init' makes a file of your own";
        failure(format!("pointsman: {shown} cannot be read: {error}; {hint}\n"))
    })?;
    let mut file = EditedFile { text: before.clone(), path, environment };
    let mut edited = Edited::default();
    for (index, comparison) in comparisons.iter().enumerate() {
        let Some((edit, source)) = price_edit(comparison).zip(sources.get(comparison.source)) else { continue };
        let edit = PriceEdit { source: source.name.to_owned(), date: source.day, ..edit };
        match comparison.permission {
            WritePermission::Same => edited.redated += usize::from(file.redate(&edit)),
            WritePermission::Write if file.write(&edit) => edited.written.push(index),
            WritePermission::Write => edited.by_hand.push(index),
            WritePermission::Ask(_) | WritePermission::Refuse(_) => {}
        }
    }
    if file.text != before {
        replace(path, &file.text)
            .map_err(|error| failure(format!("pointsman: {shown} cannot be written: {error}\n")))?;
    }
    Ok(edited)
}

fn price_edit(comparison: &Comparison) -> Option<PriceEdit> {
    let Comparison { model, provider, variant, earlier, .. } = comparison.clone();
    let pricing = comparison.target.clone()?;
    Some(PriceEdit { model, provider, variant, earlier, pricing, source: String::new(), date: chrono::NaiveDate::MIN })
}

/// The text of the file while prices are written into it. Each change is read back before it counts.
struct EditedFile<'a> {
    text: String,
    path: &'a Path,
    environment: &'a Environment,
}

/// The prices of all endpoints, by model: provider, variant and prices, in the order of the configuration.
type Prices = BTreeMap<String, Vec<(String, String, Option<Pricing>)>>;

impl EditedFile<'_> {
    /// Whether the prices could be written, and nothing else changed by that.
    fn write(&mut self, edit: &PriceEdit) -> bool {
        let Some(mut wanted) = self.prices(&self.text) else { return false };
        let endpoints = wanted.get_mut(&edit.model).into_iter().flatten();
        let mut own = endpoints.filter(|(provider, variant, _)| (provider, variant) == (&edit.provider, &edit.variant));
        own.by_ref().for_each(|(.., prices)| *prices = Some(edit.pricing.clone()));
        let right = price_edits(&self.text, edit).into_iter().find(|text| self.prices(text).as_ref() == Some(&wanted));
        let is_done = right.is_some();
        right.into_iter().for_each(|text| self.text = text);
        is_done
    }

    /// Whether the prices got a newer date.
    fn redate(&mut self, edit: &PriceEdit) -> bool {
        let text = redated(&self.text, edit).filter(|text| self.prices(text) == self.prices(&self.text));
        let is_done = text.is_some();
        text.into_iter().for_each(|text| self.text = text);
        is_done
    }

    /// `None` if the text is no valid configuration.
    fn prices(&self, text: &str) -> Option<Prices> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let config = Config::parse(text, &self.path.to_string_lossy(), directory, self.environment).ok()?;
        let catalog = config.catalog(1);
        let mut prices = Prices::new();
        for model in &catalog.models {
            for (_, endpoint) in catalog.endpoints_of(model) {
                let provider = catalog.provider_of(endpoint)?.slug.as_str().to_owned();
                let entry = (provider, endpoint.variant.clone(), endpoint.pricing.as_deref().cloned());
                prices.entry(model.id.as_str().to_owned()).or_default().push(entry);
            }
        }
        Some(prices)
    }
}
