//! `GET /admin/config`: every key with its value in force and its source, and what differs between two versions.

use actix_web::{HttpRequest, HttpResponse};
use pointsman_config::{KeyInForce, SourceLocation};
use serde::Serialize;

use crate::{
    api::{answer::uncached, auth::Administrator, models::measurements::rfc_3339, query_parameters},
    base::error::ApiError,
    state::{
        gateway::{GatewayView, Worker},
        reload_status::ConfigVersion,
    },
};

/// Most keys in one answer.
const MOST_KEYS: usize = 5_000;
/// How the files of the built-in catalogue are named.
const BUILT_IN: &str = " (built in)";

/// The versions that are compared.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Compared {
    pub(crate) from: Option<u64>,
    pub(crate) to: Option<u64>,
}

impl Compared {
    /// The versions of a query string.
    ///
    /// # Errors
    /// 400 for a bad parameter.
    pub(crate) fn parse(query: &str) -> Result<Compared, ApiError> {
        let mut compared = Compared::default();
        for (name, value) in query_parameters::pairs(query, &["from", "to"])? {
            let number = query_parameters::integer(&name, &value, 1..=query_parameters::LARGEST)?;
            let version = if name == "from" { &mut compared.from } else { &mut compared.to };
            *version = u64::try_from(number).ok();
        }
        Ok(compared)
    }
}

/// Shows all keys. With `from` also what `to`, or without it the version in force, has otherwise.
///
/// # Errors
/// 400 for a bad parameter, 404 for a version that is not kept.
pub(crate) async fn show(_: Administrator, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&ConfigValuesBody::new(&worker, Compared::parse(request.query_string())?)?))
}

/// The configuration in force, key by key.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct ConfigValuesBody {
    /// Number of the configuration in force.
    pub(crate) version: u64,
    /// Every key, by key, 5,000 at most: those that are set, those of the built-in catalogue, and those that have their
    /// defaults. Empty for a configuration that was not read from text.
    pub(crate) keys: Vec<KeyInForceBody>,
    /// Number of all keys.
    pub(crate) keys_total: usize,
    /// The versions that came into force since the start, newest first: the last 49 and that of the start.
    pub(crate) versions: Vec<VersionBody>,
    /// What differs between two versions; `null` without `from`.
    pub(crate) difference: Option<DifferenceBody>,
}

/// A key with its value in force.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct KeyInForceBody {
    /// Path of the key, such as `server.bind` or `models["acme/small"].name`.
    pub(crate) key: String,
    /// Value as TOML, cut after 120 characters. `***`: a header, a digest of a key, the address of a receiver of alerts.
    /// Keys of providers are named by variables or files, and their texts are nowhere.
    pub(crate) value: String,
    /// Where the value comes from: the file, a variable, the built-in catalogue, or nowhere.
    #[cfg_attr(test, schemars(extend("enum" = ["file", "variable", "built_in", "default"])))]
    pub(crate) source: &'static str,
    /// File and line, or the variable; `null` for a default.
    pub(crate) place: Option<String>,
}

impl KeyInForceBody {
    fn new(key: KeyInForce) -> KeyInForceBody {
        let (source, place) = match &key.location {
            SourceLocation::File { file, line, .. } => {
                let source = if file.ends_with(BUILT_IN) { "built_in" } else { "file" };
                (source, Some(format!("{file}:{line}")))
            }
            SourceLocation::Variable(name) => ("variable", Some(name.to_string())),
            SourceLocation::Default => ("default", None),
        };
        KeyInForceBody { key: key.key, value: key.value, source, place }
    }
}

/// A version of the configuration.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct VersionBody {
    /// Its number.
    pub(crate) version: u64,
    /// When it came into force. RFC 3339, UTC, with milliseconds.
    pub(crate) at: String,
    /// What started the reload; `null` for the start.
    #[cfg_attr(test, schemars(extend("enum" = ["file", "signal", "admin", null])))]
    pub(crate) cause: Option<&'static str>,
    /// Whether its keys are kept, so that it can be compared: those of the last ten versions are.
    pub(crate) is_kept: bool,
}

impl VersionBody {
    fn new(version: &ConfigVersion) -> VersionBody {
        VersionBody {
            version: version.version,
            at: rfc_3339(version.at_ms),
            cause: version.cause.map(|cause| cause.as_str()),
            is_kept: version.written.is_some(),
        }
    }
}

/// What differs between two versions.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct DifferenceBody {
    /// The one version.
    pub(crate) from: u64,
    /// The other version.
    pub(crate) to: u64,
    /// The keys that differ, by key, 5,000 at most. Empty if only the order of a list differs, or the content of a file or
    /// variable that a key names.
    pub(crate) changes: Vec<KeyDifferenceBody>,
}

/// A key that two versions have otherwise.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct KeyDifferenceBody {
    /// Path of the key.
    pub(crate) key: String,
    /// Value of the one version as TOML, cut after 120 characters; `null`: not set.
    pub(crate) from: Option<String>,
    /// Value of the other version, in the same form; `null`: not set.
    pub(crate) to: Option<String>,
}

impl ConfigValuesBody {
    /// The keys in force, and the difference that is asked for.
    ///
    /// # Errors
    /// 404 for a version that is not kept.
    pub(crate) fn new(view: &GatewayView, compared: Compared) -> Result<ConfigValuesBody, ApiError> {
        let mut keys = view.setup.written.as_ref().map(|written| written.in_force_keys()).unwrap_or_default();
        let keys_total = keys.len();
        keys.truncate(MOST_KEYS);
        let versions = view.shared.process.reloads.status.versions();
        let difference =
            compared.from.map(|from| difference(&versions, from, compared.to.unwrap_or(view.setup.version)));
        Ok(ConfigValuesBody {
            version: view.setup.version,
            keys: keys.into_iter().map(KeyInForceBody::new).collect(),
            keys_total,
            versions: versions.iter().rev().map(VersionBody::new).collect(),
            difference: difference.transpose()?,
        })
    }
}

fn difference(versions: &[ConfigVersion], from: u64, to: u64) -> Result<DifferenceBody, ApiError> {
    let kept = |number: u64| {
        let version = versions.iter().find(|version| version.version == number);
        version.and_then(|version| version.written.as_ref()).ok_or_else(|| ApiError::no_such("version that is kept"))
    };
    let (before, after) = (kept(from)?, kept(to)?);
    let changes = after.differences_from(before).into_iter().take(MOST_KEYS);
    let changes =
        changes.map(|change| KeyDifferenceBody { key: change.key, from: change.in_force, to: change.on_disk });
    Ok(DifferenceBody { from, to, changes: changes.collect() })
}
