//! What of the statistics survives a restart: a document, and how it is read with suspicion.
//!
//! Means are kept, certainty is not: an estimate comes back as it was, but counts no more than `TRUST`
//! observations, and ages by the time the process was away just as it does by idle time. So the first decision is
//! the one that was learned, and the first few answers may overturn it.
//!
//! Each model says for itself what it keeps, in a `state` module beside its fields; there every field is named, so
//! that a new one does not compile until somebody decided whether it survives. Fields that a document lacks count
//! as not learned, so old documents stay readable. Which file it is, and when it is written, is not known here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::{Catalog, Endpoint};
use crate::stats::model::saved::ImplausibleValue;
use crate::stats::{
    model::{lengths::state::LengthState, prompt_scale::PromptScaleState},
    observe::endpoint::state::EndpointState,
};

/// What the document calls itself.
const FORMAT: &str = "pointsman routing memory";
/// Counted up when a document of before would be misunderstood. New fields do not count.
const VERSION: u64 = 1;
/// What was learned, up to a moment of the wall's clock.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SavedState {
    /// When the newest of it was learned, in milliseconds since 1970.
    pub learned_at_ms: i64,
    /// By the endpoint's name.
    pub(crate) endpoints: BTreeMap<String, EndpointState>,
    /// Lengths of answers by model and class of `max_tokens`.
    pub(crate) models: BTreeMap<String, Vec<LengthState>>,
    /// Prompt tokens per estimated one, by model.
    pub(crate) prompts: BTreeMap<String, PromptScaleState>,
    /// Names of endpoints and of models whose entries could not be read.
    pub(crate) unreadable_endpoints: BTreeSet<String>,
    pub(crate) unreadable_models: BTreeSet<String>,
}

/// Why a document is no state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SavedStateError {
    /// It is not JSON, or not of the shape.
    Torn(String),
    /// It is something else.
    Foreign,
    /// It was written by another release.
    Version(u64),
}

impl fmt::Display for SavedStateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SavedStateError::Torn(what) => write!(f, "it is not a whole document ({what})"),
            SavedStateError::Foreign => f.write_str("it is something else"),
            SavedStateError::Version(version) => {
                write!(f, "it is of version {version}, and this release reads {VERSION}")
            }
        }
    }
}

impl std::error::Error for SavedStateError {}

/// What became of a state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Endpoints that are known again.
    pub endpoints: usize,
    /// Entries about endpoints and models that the catalog does not have.
    pub unknown: usize,
    /// Entries that were not believed. They start cold.
    pub rejected: Vec<RejectedEntry>,
}

/// An entry that was not believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedEntry {
    /// Whose, as the catalog calls it.
    pub whose: String,
    /// Why not.
    pub why: ImplausibleValue,
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u64,
    learned_at_ms: i64,
    endpoints: &'a BTreeMap<String, EndpointState>,
    models: &'a BTreeMap<String, Vec<LengthState>>,
    prompts: &'a BTreeMap<String, PromptScaleState>,
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: String,
    #[serde(default)]
    version: u64,
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(default)]
    learned_at_ms: i64,
    #[serde(borrow, default)]
    endpoints: BTreeMap<String, &'a RawValue>,
    #[serde(borrow, default)]
    models: BTreeMap<String, &'a RawValue>,
    #[serde(borrow, default)]
    prompts: BTreeMap<String, &'a RawValue>,
}

impl SavedState {
    /// The document, as JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let SavedState { learned_at_ms, endpoints, models, prompts, unreadable_endpoints: _, unreadable_models: _ } =
            self;
        let learned_at_ms = *learned_at_ms;
        let document = Document { format: FORMAT, version: VERSION, learned_at_ms, endpoints, models, prompts };
        // Nothing in it can fail to be written: keys are strings, and what is not finite becomes null.
        serde_json::to_vec(&document).unwrap_or_default()
    }

    /// Reads a document. Entries of single endpoints that cannot be read do not spoil the others.
    ///
    /// # Errors
    /// When it is no document, or not one that this release understands.
    pub fn parse(text: &[u8]) -> Result<SavedState, SavedStateError> {
        let torn = |error: serde_json::Error| SavedStateError::Torn(error.to_string());
        let head: Head = serde_json::from_slice(text).map_err(torn)?;
        if head.format != FORMAT {
            return Err(SavedStateError::Foreign);
        }
        if head.version != VERSION {
            return Err(SavedStateError::Version(head.version));
        }
        let body: Body<'_> = serde_json::from_slice(text).map_err(torn)?;
        let (endpoints, unreadable_endpoints) = read_each(body.endpoints);
        let (models, unreadable_models) = read_each(body.models);
        // What is unreadable of these is learned again within a few answers.
        let (prompts, _) = read_each(body.prompts);
        let learned_at_ms = body.learned_at_ms;
        Ok(SavedState { learned_at_ms, endpoints, models, prompts, unreadable_endpoints, unreadable_models })
    }

    /// Entries about endpoints and models, those that could not be read among them.
    pub(crate) fn entries(&self) -> usize {
        let SavedState { learned_at_ms: _, endpoints, models, prompts: _, unreadable_endpoints, unreadable_models } =
            self;
        endpoints.len() + models.len() + unreadable_endpoints.len() + unreadable_models.len()
    }

    /// Endpoints about which it says something.
    #[must_use]
    pub fn endpoints(&self) -> usize {
        self.endpoints.len()
    }
}

/// What can be read, and the names of what cannot.
fn read_each<'a, T: Deserialize<'a>>(
    entries: BTreeMap<String, &'a RawValue>,
) -> (BTreeMap<String, T>, BTreeSet<String>) {
    let (mut read, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
    for (name, entry) in entries {
        match serde_json::from_str(entry.get()) {
            Ok(value) => _ = read.insert(name, value),
            Err(_) => _ = unreadable.insert(name),
        }
    }
    (read, unreadable)
}

/// What the document calls an endpoint: the same across restarts and changes of the configuration.
pub(crate) fn name_of(catalog: &Catalog, endpoint: &Endpoint) -> Option<String> {
    let (model, provider) = (catalog.model_of(endpoint)?, catalog.provider_of(endpoint)?);
    let name = format!("{}@{}", model.id, provider.slug);
    Some(if endpoint.variant.is_empty() { name } else { format!("{name}/{}", endpoint.variant) })
}
