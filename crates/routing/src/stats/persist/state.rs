//! Saved state of the statistics, as a document.
//!
//! Means are kept, certainty is not: a restored estimate counts as `TRUST` observations at most and ages by the time
//! the process was down. So the first decision uses what was learned, and a few answers can change it.
//!
//! Each model defines its state in a `state` module beside its fields and names every field there, so that a new
//! field does not compile before somebody decides whether to save it. Fields missing in a document count as not
//! learned. The owner of the document knows its file and when it is written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::spend_pace::SavedPace;
use crate::stats::model::saved::ImplausibleValue;
use crate::stats::{
    model::{lengths::state::LengthState, prompt_scale::PromptScaleState},
    observe::endpoint::state::SavedEndpoint,
};

/// Format name in the document.
const FORMAT: &str = "pointsman routing memory";
/// Rises when a document of a lower number would be misread. New fields do not count.
const VERSION: u64 = 1;
/// Everything learned up to a wall-clock time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SavedState {
    /// Time of the newest observation, in milliseconds since 1970.
    pub learned_at_ms: i64,
    /// By name of the endpoint.
    pub(crate) endpoints: BTreeMap<String, SavedEndpoint>,
    /// Output lengths by model and class of `max_tokens`.
    pub(crate) models: BTreeMap<String, Vec<LengthState>>,
    /// Prompt tokens per estimated one, by model.
    pub(crate) prompts: BTreeMap<String, PromptScaleState>,
    /// Names of endpoints and models with unreadable entries.
    pub(crate) unreadable_endpoints: BTreeSet<String>,
    pub(crate) unreadable_models: BTreeSet<String>,
    /// Spend paces of aliases. `Statistics` does not keep them: the routing memory adds them when it saves.
    pub spend_paces: Vec<SavedPace>,
    /// Whether the spend paces of the document are unreadable.
    pub has_unreadable_paces: bool,
}

/// Why a document is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SavedStateError {
    /// Not JSON, or not of this shape.
    Torn(String),
    /// Another format.
    Foreign,
    /// Another version of it.
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

/// Result of restoring a state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Restored endpoints.
    pub endpoints: usize,
    /// Entries of endpoints and models that are not in the catalog.
    pub unknown: usize,
    /// Rejected entries. These endpoints start without observations.
    pub rejected: Vec<RejectedEntry>,
}

/// A rejected entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedEntry {
    /// Its name.
    pub whose: String,
    /// Why it was rejected.
    pub why: ImplausibleValue,
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u64,
    learned_at_ms: i64,
    endpoints: &'a BTreeMap<String, SavedEndpoint>,
    models: &'a BTreeMap<String, Vec<LengthState>>,
    prompts: &'a BTreeMap<String, PromptScaleState>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    spend_paces: &'a [SavedPace],
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
    #[serde(borrow, default)]
    spend_paces: Option<&'a RawValue>,
}

impl SavedState {
    /// The document, as JSON.
    pub fn to_json(&self) -> Vec<u8> {
        let SavedState { learned_at_ms, endpoints, models, prompts, spend_paces, .. } = self;
        let learned_at_ms = *learned_at_ms;
        let document =
            Document { format: FORMAT, version: VERSION, learned_at_ms, endpoints, models, prompts, spend_paces };
        // Serialization cannot fail: keys are strings, and numbers that are not finite become null.
        serde_json::to_vec(&document).unwrap_or_default()
    }

    /// Reads a document. Unreadable entries of single endpoints are skipped.
    ///
    /// # Errors
    /// If it is not such a document, or of another version.
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
        // Unreadable ones are learned again within a few answers.
        let (prompts, _) = read_each(body.prompts);
        let paces = body.spend_paces.map_or(Ok(Vec::new()), |paces| serde_json::from_str(paces.get()));
        Ok(SavedState {
            learned_at_ms: body.learned_at_ms,
            endpoints,
            models,
            prompts,
            unreadable_endpoints,
            unreadable_models,
            has_unreadable_paces: paces.is_err(),
            spend_paces: paces.unwrap_or_default(),
        })
    }

    /// Number of entries of endpoints and models, unreadable ones included.
    pub(crate) fn entries(&self) -> usize {
        let SavedState { endpoints, models, unreadable_endpoints, unreadable_models, .. } = self;
        endpoints.len() + models.len() + unreadable_endpoints.len() + unreadable_models.len()
    }

    /// Number of endpoints.
    pub fn endpoints(&self) -> usize {
        self.endpoints.len()
    }
}

/// Readable entries, and the names of unreadable ones.
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
