//! Another configuration that decides beside the one that serves, with the same statistics, live state, time and seed.
//!
//! It decides after the request was sent, on a copy of what the decision read. It takes nothing: no claim, no sequence number, no
//! token. Deciding is total: no input makes it panic.

use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_domain::{Catalog, Objective, QualityScores, Query, ShadowChoice, Tick};

use super::{setup::Setup, side::Side};
use crate::{
    decide::{
        DecisionTerms,
        context::DecisionContext,
        first_choice::{FirstChoice, first_choice},
    },
    stats::{EndpointStats, LiveView, Snapshot, splitmix64},
};

/// Salt of the draw of requests, apart from exploration noise.
const DRAW: u64 = 0x7368_6164_6f77;

/// A request, and everything that its decision read.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The request.
    pub query: Box<Query>,
    /// The statistics.
    pub snapshot: Arc<Snapshot>,
    /// The live state.
    pub live: LiveView,
    /// Time of the decision.
    pub now: Tick,
    /// The seed of its noise.
    pub seed: Option<u64>,
    /// What other policies choose by.
    pub terms: Option<DecisionTerms>,
}

/// Which requests a shadow decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// Share of the requests, drawn by their seeds.
    pub share: f64,
    /// Only those with this alias.
    pub alias: Option<String>,
    /// Only those with this objective.
    pub objective: Option<Objective>,
    /// Only those before this time, Unix milliseconds.
    pub until_ms: Option<i64>,
}

/// Another configuration over the same models, providers and endpoints.
pub struct Shadow {
    name: Arc<str>,
    watched: Watched,
    setup: Setup,
    /// Whether requests read alike under both configurations.
    reads_alike: bool,
    /// Whether choices follow from the terms of decisions: nothing differs but objectives, weights and noise.
    only_scores: bool,
    /// Whether every endpoint has a price.
    is_priced: bool,
    /// The newest statistics that it was asked for, with its own catalog and policy.
    latest: Mutex<Option<Arc<Snapshot>>>,
}

impl Shadow {
    /// The configuration `side` beside that of `serving`. Both have the same models, providers and endpoints in the same order.
    pub fn new(name: Arc<str>, watched: Watched, side: &Side, serving: &Side) -> Shadow {
        let setup = Setup::new(side, &serving.catalog, &serving.policy);
        Shadow {
            name,
            watched,
            reads_alike: reads_alike(side, serving),
            only_scores: setup.scores_otherwise && only_aliases_score(&side.catalog, &serving.catalog),
            is_priced: side.catalog.endpoints.iter().all(|endpoint| endpoint.pricing.is_some()),
            setup,
            latest: Mutex::default(),
        }
    }

    /// Whether it decides this request, which comes at `unix_ms`.
    pub fn watches(&self, query: &Query, seed: Option<u64>, unix_ms: i64) -> bool {
        let Watched { share, alias, objective, until_ms } = &self.watched;
        let drawn = || (splitmix64(seed.unwrap_or_default() ^ DRAW) >> 11) as f64 / (1_u64 << 53) as f64;
        until_ms.is_none_or(|until_ms| unix_ms < until_ms)
            && alias.as_ref().is_none_or(|alias| query.router.as_ref() == Some(alias))
            && objective.is_none_or(|objective| query.objective.value == objective)
            && (*share >= 1.0 || drawn() < *share)
    }

    /// Whether it may read the live state of endpoints that the decision did not.
    pub fn reads_further(&self) -> bool {
        !(self.reads_alike || self.only_scores)
    }

    /// What it would have chosen for a request with these tags, for which the endpoint at `chosen` was.
    pub fn decide(&self, asked: &Asked, tags: &[(String, String)], chosen: Option<u32>) -> ShadowChoice {
        let nothing = ShadowChoice {
            shadow: Arc::clone(&self.name),
            choice: None,
            gap: None,
            cost: 0.0,
            first_token: 0.0,
            failure: 0.0,
        };
        let read = (!self.reads_alike).then(|| {
            let draw = asked.now.0 ^ asked.seed.unwrap_or_default();
            self.setup.read(Query::clone(&asked.query), draw, tags)
        });
        let query = match &read {
            None => &*asked.query,
            Some(Some(query)) => query,
            Some(None) => return nothing,
        };
        let first = self.by_terms(asked, query, chosen).or_else(|| {
            let world = self.world(&asked.snapshot);
            first_choice(&DecisionContext::new(&world, &asked.live, query, asked.now, asked.seed), chosen)
        });
        let Some(first) = first else { return nothing };
        ShadowChoice {
            choice: Some(first.index),
            gap: first.gap.map(|gap| gap as f32),
            cost: first.cost as f32,
            first_token: first.first_token as f32,
            failure: first.failure as f32,
            ..nothing
        }
    }

    /// The choice by the terms of the decision that serves. `None` where it does not follow from them.
    fn by_terms(&self, asked: &Asked, query: &Query, chosen: Option<u32>) -> Option<FirstChoice> {
        let terms = asked.terms.as_ref().filter(|_| self.only_scores)?;
        // `cheapest` alone excludes endpoints without a price.
        let [own, serving] = [query, &asked.query].map(|query| query.objective.value == Objective::Cheapest);
        if own != serving && !self.is_priced {
            return None;
        }
        let Asked { snapshot, live, now, seed, .. } = asked;
        let context = DecisionContext::under(&self.setup.snapshot.policy, snapshot, live, query, (*now, *seed));
        terms.first_choice(&context, self.setup.weighs_otherwise, chosen)
    }

    /// The statistics under its own catalog and policy. Copied once for each version that is published.
    fn world(&self, serving: &Snapshot) -> Arc<Snapshot> {
        let mut latest = self.latest.lock();
        if let Some(known) = latest.as_ref().filter(|known| known.version == serving.version) {
            return Arc::clone(known);
        }
        let own = &self.setup.snapshot;
        let endpoints = serving.endpoints.iter().zip(&own.endpoints).map(|(measured, own)| EndpointStats {
            facts: own.facts,
            prices: own.prices.clone(),
            ..measured.clone()
        });
        // Ratings count only where the scores are those that they were added to.
        let has_scores_of = scores(&own.catalog).eq(scores(&serving.catalog));
        let world = Arc::new(Snapshot {
            version: serving.version,
            catalog: Arc::clone(&own.catalog),
            policy: Arc::clone(&own.policy),
            at: serving.at,
            endpoints: endpoints.collect(),
            lengths: serving.lengths.clone(),
            prompts: serving.prompts.clone(),
            quality: Arc::clone(if has_scores_of { &serving.quality } else { &own.quality }),
        });
        *latest = Some(Arc::clone(&world));
        world
    }
}

/// Scores of endpoints and models.
fn scores(catalog: &Catalog) -> impl Iterator<Item = &QualityScores> {
    let of_models = catalog.models.iter().map(|model| &model.quality);
    of_models.chain(catalog.endpoints.iter().map(|endpoint| &endpoint.quality))
}

/// Whether the catalogs differ in nothing but objectives and weights of aliases.
fn only_aliases_score(own: &Catalog, serving: &Catalog) -> bool {
    let mut catalog = own.clone();
    catalog.version = serving.version;
    for (alias, serving) in catalog.aliases.iter_mut().zip(&serving.aliases) {
        (alias.objective, alias.weights) = (serving.objective, serving.weights);
    }
    catalog == *serving
}

/// Whether nothing differs by which requests are read.
fn reads_alike(side: &Side, serving: &Side) -> bool {
    fn of(catalog: &Catalog) -> impl PartialEq {
        (&catalog.aliases, &catalog.parameters, catalog.synonyms())
    }
    let expires = |catalog: &Catalog| catalog.models.iter().map(|model| model.expiration_date).collect::<Vec<_>>();
    let objective = |side: &Side| side.objective.unwrap_or_default();
    of(&side.catalog) == of(&serving.catalog)
        && expires(&side.catalog) == expires(&serving.catalog)
        && side.policy.balanced == serving.policy.balanced
        && objective(side) == objective(serving)
}
