//! Look-up of a generation by its id. A record can be read as soon as the client has its id, by its owner or an
//! administrator.

use std::sync::Arc;

use actix_web::web;
use pointsman_actors::ledger::Lookup;
use pointsman_base::clock;
use pointsman_dialect::refuse_repeated;
use pointsman_domain::{Generation, GenerationId, Invalid, InvalidReason};
use pointsman_ledger::generations::GenerationStore;
use pointsman_routing::explain::fill_selection_probabilities;
use serde::Deserialize;

use crate::{
    access::keys::Caller,
    api::{generations::generation_list::unreadable, query_parameters::QueryParameters},
    base::error::ApiError,
    state::{ask::ask, gateway::Worker, replicas::LookupFault},
};

/// Parameters of a look-up.
pub(crate) const PARAMETERS: [&str; 2] = ["generation_id", "id"];

/// The body: the id under either name, and `why_not` of explain.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(
    description = "",
    extend("anyOf" = [{"required": ["generation_id"]}, {"required": ["id"]}]),
))]
pub(crate) struct LookupMembers {
    /// Id of the generation; `id` is the same.
    #[cfg_attr(test, schemars(with = "String", default, length(min = 1)))]
    generation_id: Option<String>,
    #[cfg_attr(test, schemars(with = "String", default, length(min = 1)))]
    id: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<crate::api::decisions::why_not_view::WhyNotName>"))]
    why_not: Option<serde_json::Value>,
}

impl LookupMembers {
    fn id(self) -> Option<String> {
        self.generation_id.or(self.id).filter(|id| !id.is_empty())
    }
}

/// The id in the query, as `generation_id` or `id`.
pub(crate) fn id_in_query(query: &QueryParameters) -> Option<String> {
    query.get("generation_id").or_else(|| query.get("id")).map(str::to_owned)
}

/// The id in a JSON body, as `generation_id` or `id`, and its `why_not`; an empty body has neither.
///
/// # Errors
/// 400 when the body is not a JSON object, or the id is not a string.
pub fn id_in_body(body: &[u8]) -> Result<(Option<String>, Option<String>), ApiError> {
    if body.trim_ascii().is_empty() {
        return Ok((None, None));
    }
    refuse_repeated(body)?;
    let mut members: LookupMembers = serde_json::from_slice(body).map_err(|error| {
        let example = "{\"generation_id\": \"gen-…\"}";
        match error.classify() {
            serde_json::error::Category::Data => {
                let message = format!("'generation_id' must be a string in a JSON object, such as {example}.");
                Invalid::field(InvalidReason::InvalidType, "generation_id", message)
            }
            _ => Invalid::body(InvalidReason::InvalidJson, format!("The body must be JSON, such as {example}.")),
        }
    })?;
    let why_not = members.why_not.take().filter(|name| !name.is_null()).map(|name| match name {
        serde_json::Value::String(name) => Ok(name),
        _ => Err(Invalid::field(InvalidReason::InvalidType, "why_not", "'why_not' must be a string.")),
    });
    let why_not = why_not.transpose()?;
    Ok((members.id(), why_not))
}

/// The record with this id, if `caller` owns it or is an administrator. Unknown, deleted and foreign ids give the same
/// error.
///
/// # Errors
/// 400 without an id, 404 without a readable record, 503 when the ledger does not answer, and for a record that
/// a later version wrote.
pub async fn find(worker: &Worker, caller: &Caller, id: Option<String>) -> Result<Arc<Generation>, ApiError> {
    let missing = || {
        Invalid::field(
            InvalidReason::MissingField,
            "generation_id",
            "The id of a generation is required: 'generation_id' or 'id'.",
        )
    };
    let id = GenerationId::parse(&id.ok_or_else(missing)?).ok_or_else(ApiError::unknown_generation)?;
    let (own, is_admin) = (caller.owner, caller.is_admin());
    let is_readable = move |owner: u64| is_admin || owner == own;
    worker.shared.actors.event_batchers.flush();
    let recent = ask(&worker.shared.actors.control.ledger(), Lookup { id, now_ms: clock::unix_millis() }).await?;
    // A foreign record takes the way of none: what becomes of the disk and of the other replicas must not tell it.
    let recent = recent.filter(|generation| is_readable(generation.owner));
    let found = match (recent, worker.shared.records.ledger.clone()) {
        (None, Some(ledger)) => stored(ledger, id, is_readable).await?,
        (recent, _) => recent,
    };
    let found = match (found, &worker.shared.records.replicas, &worker.shared.records.ledger) {
        (None, Some(replicas), Some(ledger)) => {
            replicas.find(id, ledger, is_readable).await.map_err(|fault| match fault {
                LookupFault::Away => ApiError::records_away(),
                LookupFault::Newer => ApiError::record_of_later_version(),
            })?
        }
        (found, ..) => found,
    };
    found.ok_or_else(ApiError::unknown_generation)
}

/// The record on disk, if it may be read by its owner. Of others it is not read at all, so that no fault tells of them.
async fn stored(
    ledger: Arc<GenerationStore>,
    id: GenerationId,
    is_readable: impl Fn(u64) -> bool + Send + 'static,
) -> Result<Option<Arc<Generation>>, ApiError> {
    let read = web::block(move || ledger.get(id, is_readable)).await.map_err(|_| ApiError::internal())?;
    Ok(read.map_err(unreadable)?.map(Arc::new))
}

/// The record with the selection probability of each candidate. Takes a few hundred draws: do not call it on a worker
/// thread.
pub fn with_probabilities(generation: &Generation) -> Generation {
    let mut decision = (*generation.decision).clone();
    fill_selection_probabilities(&mut decision, &generation.policy);
    Generation { decision: Arc::new(decision), ..generation.clone() }
}
