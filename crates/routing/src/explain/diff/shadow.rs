//! Another configuration that decides beside the one that serves, with the same statistics, live state, time and seed.
//!
//! It decides after the request was sent, on a copy of what the decision read. It takes nothing: no claim, no sequence number, no
//! token. Deciding is total: no input makes it panic.

use std::sync::Arc;

use parking_lot::Mutex;
use pointsman_domain::{Catalog, Objective, QualityScores, Query, ShadowChoice, Tick};

use super::{setup::Setup, side::Side};
use crate::{
    decide::{context::DecisionContext, first_choice::first_choice},
    stats::{EndpointStats, LiveView, Snapshot, splitmix64},
};

/// Salt of the draw of requests, apart from exploration noise.
const DRAW: u64 = 0x7368_6164_6f77;

/// A request, and everything that its decision read.
#[derive(Debug)]
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
    /// The newest statistics that it was asked for, with its own catalog and policy.
    latest: Mutex<Option<Arc<Snapshot>>>,
}

impl Shadow {
    /// The configuration `side` beside that of `serving`. Both have the same models, providers and endpoints in the same order.
    pub fn new(name: Arc<str>, watched: Watched, side: &Side, serving: &Side) -> Shadow {
        Shadow {
            name,
            watched,
            reads_alike: reads_alike(side, serving),
            setup: Setup::new(side, &serving.catalog, &serving.policy),
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
        let world = self.world(&asked.snapshot);
        let context = DecisionContext::new(&world, &asked.live, query, asked.now, asked.seed);
        let Some(first) = first_choice(&context, chosen) else { return nothing };
        ShadowChoice {
            choice: Some(first.index),
            gap: first.gap.map(|gap| gap as f32),
            cost: first.cost as f32,
            first_token: first.first_token as f32,
            failure: first.failure as f32,
            ..nothing
        }
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
