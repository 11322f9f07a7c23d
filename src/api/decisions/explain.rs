//! `GET` and `POST /route/explain`: explains the routing of a generation, with `why_not` also why a named endpoint was not
//! chosen.

use actix_web::{HttpResponse, web};
use pointsman_domain::Generation;
use pointsman_ledger::ratings::Rating;
use pointsman_routing::explain::{WhyNot, why_not_after};

use super::{explain_view::ExplainBody, sentences::Sentences, why_not_view};
use crate::{
    access::keys::{Caller, HolderNames},
    api::{answer::uncached, auth::Reader, generations::lookup, query_parameters::QueryParameters},
    base::error::ApiError,
    proxy::body::read_json,
    state::gateway::Worker,
};

const PARAMETERS: [&str; 3] = ["generation_id", "id", "why_not"];

/// Explains the generation named in the query.
///
/// # Errors
/// 400 without an id or with an unknown parameter, 404 for an id that the caller may not read.
pub async fn by_query(by: Reader) -> Result<HttpResponse, ApiError> {
    let query = QueryParameters::read(by.query(), &PARAMETERS)?;
    explain(&by.worker, &by.caller, lookup::id_in_query(&query), why_not_view::in_query(&query)?).await
}

/// Explains the generation named in the body, or else in the query.
///
/// # Errors
/// As [`by_query`].
pub async fn by_body(by: Reader, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    let query = QueryParameters::read(by.query(), &PARAMETERS)?;
    let body = read_json(&by.request, payload, by.worker.setup.body_limits(&by.caller)).await?;
    let (id, why_not) = lookup::id_in_body(&body)?;
    let why_not =
        why_not.map_or_else(|| why_not_view::in_query(&query), |name| why_not_view::checked(&name).map(Some))?;
    explain(&by.worker, &by.caller, id.or_else(|| lookup::id_in_query(&query)), why_not).await
}

async fn explain(
    worker: &Worker,
    caller: &Caller,
    id: Option<String>,
    why_not: Option<String>,
) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&Explanation::of(worker, caller, id, why_not).await?.body()))
}

/// A generation, and what is said about its routing.
pub(crate) struct Explanation {
    pub(crate) generation: Generation,
    sentences: Sentences,
    names: HolderNames,
    why_not: Option<WhyNot>,
    ratings: Vec<Rating>,
}

impl Explanation {
    /// The explanation of the generation with this id, with the answer to `why_not`.
    ///
    /// # Errors
    /// 400 without an id, 404 for an id that the caller may not read.
    pub(crate) async fn of(
        worker: &Worker,
        caller: &Caller,
        id: Option<String>,
        why_not: Option<String>,
    ) -> Result<Explanation, ApiError> {
        let record = lookup::find(worker, caller, id).await?;
        let why_not = why_not.map(|name| why_not_view::meant(name, &caller.key));
        let ledger = worker.shared.records.ledger.clone();
        let explain = move || {
            // Without them the rest is still worth showing.
            let ratings = ledger.and_then(|ledger| ledger.ratings_of(record.id).ok()).unwrap_or_default();
            let generation = lookup::with_probabilities(&record);
            let Generation { decision, attempts, policy, catalog, .. } = &generation;
            let why_not = why_not.map(|name| why_not_after(&name, decision, attempts, policy, catalog));
            (generation, why_not, ratings)
        };
        let (generation, why_not, ratings) = worker.analyse(caller, explain).await?;
        let names = worker.setup.keys.names_of(generation.owner, generation.key);
        Ok(Explanation { sentences: Sentences::of(&generation), names, generation, why_not, ratings })
    }

    /// The explanation as it is shown.
    pub(crate) fn body(&self) -> ExplainBody<'_> {
        let catalog = &self.generation.catalog;
        let body = ExplainBody::new(&self.generation, catalog, &self.sentences, &self.names);
        body.with_why_not(self.why_not.as_ref(), &self.generation, catalog).with_ratings(&self.ratings)
    }
}
