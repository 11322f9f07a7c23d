//! `models`: models, the providers that serve them, and prices, from the configuration; or how they do at a running gateway.

mod live;

use std::{fmt::Write as _, path::PathBuf};

use clap::Args;
use pointsman_base::clock;
use pointsman_config::Environment;
use pointsman_domain::{Endpoint, Price, Pricing, Provider};
use serde_json::{Value, json};

use super::{Finished, load, names, success};

/// Tokens that a shown price is for.
const MILLION: u64 = 1_000_000;

/// Which models to list.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ModelsRequest {
    /// Only models and providers whose name contains this text
    #[arg(add = names::models_and_providers())]
    filter: Option<String>,
    /// Configuration to read; default: ./config.toml if it exists, else the built-in one
    #[arg(id = "models_config", short = 'c', long = "config", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Also those that cannot be called now: provider off, endpoint disabled, model retired
    #[arg(long)]
    all: bool,
    /// Ask this gateway how they do: state, first token and tokens per second of the last minutes, instead of prices
    #[arg(long, conflicts_with_all = ["models_config", "all"])]
    url: Option<String>,
    /// Environment variable with a key, with --url; default: POINTSMAN_API_KEY
    #[arg(long, value_name = "NAME", requires = "url")]
    key_env: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One model at one provider.
struct Row<'a> {
    model: &'a str,
    provider: &'a str,
    callable: bool,
    endpoint: &'a Endpoint,
}

impl Row<'_> {
    /// US dollars per million tokens; `None` where no price is known.
    fn price(&self, of: impl Fn(&Pricing) -> Price) -> Option<String> {
        self.endpoint.pricing.as_deref().map(|pricing| of(pricing).times(MILLION).to_string())
    }

    fn json(&self) -> Value {
        json!({
            "model": self.model,
            "provider": self.provider,
            "callable": self.callable,
            "upstream_model": &*self.endpoint.upstream_model,
            "context_length": self.endpoint.limits.context_length,
            "prompt_usd_per_million": self.price(|pricing| pricing.prompt),
            "completion_usd_per_million": self.price(|pricing| pricing.completion),
        })
    }
}

impl ModelsRequest {
    fn wants(&self, model: &str, provider: &str) -> bool {
        self.filter.as_deref().is_none_or(|filter| model.contains(filter) || provider.contains(filter))
    }
}

/// Lists the models.
pub(super) fn run(request: &ModelsRequest, environment: &Environment) -> Finished {
    if request.url.is_some() {
        return live::run(request, environment);
    }
    let catalog = load(request.config.as_deref(), environment)?.config.catalog(1);
    let mut rows = Vec::new();
    for model in &catalog.models {
        let served = catalog.is_served(model, clock::today());
        for (_, endpoint) in catalog.endpoints_of(model) {
            let Some(provider) = catalog.provider_of(endpoint) else { continue };
            let callable = served && !endpoint.disabled && Provider::is_on(provider);
            let (model, provider) = (model.id.as_str(), provider.slug.as_str());
            if (callable || request.all) && request.wants(model, provider) {
                rows.push(Row { model, provider, callable, endpoint });
            }
        }
    }
    if request.json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        return Ok(success(format!("{}\n", json!({ "data": rows }))));
    }
    if rows.is_empty() {
        let none = "No model matches; --all shows those that cannot be called now, 'pointsman check' says why.\n";
        return Ok(success(none.to_owned()));
    }
    Ok(success(table(&rows)))
}

fn table(rows: &[Row<'_>]) -> String {
    let mut text = format!("{:<36} {:<12} {:>9} {:>9} {:>9}\n", "MODEL", "PROVIDER", "IN $/M", "OUT $/M", "CONTEXT");
    for row in rows {
        let known = |price: Option<String>| price.unwrap_or_else(|| "unknown".to_owned());
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<36} {:<12} {:>9} {:>9} {:>9}{}",
            row.model,
            row.provider,
            known(row.price(|pricing| pricing.prompt)),
            known(row.price(|pricing| pricing.completion)),
            row.endpoint.limits.context_length,
            if row.callable { "" } else { "  off" }
        );
    }
    text
}
