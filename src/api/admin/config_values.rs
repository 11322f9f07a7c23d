//! `GET /admin/config`: every key with its value in force and its source, and what differs between two versions.

use actix_web::{HttpRequest, HttpResponse};
use pointsman_config::{KeyInForce, SourceLocation};
use pointsman_domain::Invalid;
use serde::Serialize;

use crate::{
    api::{
        answer::uncached,
        auth::Administrator,
        models::measurements::rfc_3339,
        query_parameters::{self, QueryParameters},
    },
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

/// Which keys can be asked for; `set`: those of the file and of variables.
pub(crate) const SOURCES: [&str; 6] = ["all", "set", "file", "variable", "built_in", "default"];

/// The keys that are listed, and the versions that are compared.
#[derive(Debug, Default)]
pub(crate) struct ConfigQuery {
    /// What the listed keys have in them; `None`: all are listed.
    pub(crate) part: Option<String>,
    /// One of [`SOURCES`]; `None`: all.
    pub(crate) source: Option<String>,
    /// The one version.
    pub(crate) from: Option<u64>,
    /// The other version; `None`: the one in force.
    pub(crate) to: Option<u64>,
}

impl ConfigQuery {
    /// What a query string asks for.
    ///
    /// # Errors
    /// 400 for a bad parameter.
    fn parse(query: &str) -> Result<ConfigQuery, ApiError> {
        let parameters = QueryParameters::read(query, &["q", "source", "from", "to"])?;
        let version = |name: &str| -> Result<Option<u64>, ApiError> {
            let Some(value) = parameters.get(name) else { return Ok(None) };
            let number = query_parameters::integer(name, value, 1..=query_parameters::LARGEST)?;
            Ok(u64::try_from(number).ok())
        };
        let source = parameters.get("source");
        if let Some(source) = source.filter(|source| !SOURCES.contains(source)) {
            return Err(ApiError::invalid(Invalid::none_of("source", source, &SOURCES)));
        }
        Ok(ConfigQuery {
            part: parameters.get("q").map(str::to_owned),
            source: source.map(str::to_owned),
            from: version("from")?,
            to: version("to")?,
        })
    }

    fn asks_for(&self, key: &KeyInForceBody) -> bool {
        let is_of = match self.source.as_deref() {
            None | Some("all") => true,
            Some("set") => ["file", "variable"].contains(&key.source),
            Some(source) => key.source == source,
        };
        is_of && self.part.as_deref().is_none_or(|part| key.key.contains(part))
    }

    /// The keys that are asked for, as many as an answer holds, and the number of all of them.
    fn listed(&self, keys: Vec<KeyInForce>) -> (Vec<KeyInForceBody>, usize) {
        let keys = keys.into_iter().map(KeyInForceBody::new);
        let mut asked: Vec<KeyInForceBody> = keys.filter(|key| self.asks_for(key)).collect();
        let found = asked.len();
        asked.truncate(MOST_KEYS);
        (asked, found)
    }
}

/// Shows the keys that are asked for. With `from` also what `to`, or without it the version in force, has otherwise.
///
/// # Errors
/// 400 for a bad parameter, 404 for a version that is not kept.
pub(crate) async fn show(_: Administrator, worker: Worker, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&ConfigValuesBody::new(&worker, &ConfigQuery::parse(request.query_string())?)?))
}

/// The configuration in force, key by key.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
pub(crate) struct ConfigValuesBody {
    /// Number of the configuration in force.
    pub(crate) version: u64,
    /// The keys that `q` and `source` ask for, without them every key: those that are set, those of the built-in catalogue, and
    /// those that have their defaults. By key, the first 5,000. Empty for a configuration that was not read from text.
    pub(crate) keys: Vec<KeyInForceBody>,
    /// Number of the keys that are asked for, more than `keys` holds if it is cut.
    pub(crate) keys_found: usize,
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

view! {
    /// A version of the configuration.
    pub(crate) struct VersionBody {
        fn new(version: &ConfigVersion) {}

        /// Its number.
        pub(crate) version: u64 = version.version,
        /// When it came into force. RFC 3339, UTC, with milliseconds.
        pub(crate) at: String = rfc_3339(version.at_ms),
        /// What started the reload; `null` for the start.
        #[cfg_attr(test, schemars(extend("enum" = ["file", "signal", "admin", null])))]
        pub(crate) cause: Option<&'static str> = version.cause.map(|cause| cause.as_str()),
        /// Whether its keys are kept, so that it can be compared: those of the last ten versions are.
        pub(crate) is_kept: bool = version.written.is_some(),
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
    /// The keys for which the two versions say different things, by key, 5,000 at most. Compared is what each version says,
    /// also where it waits for a restart. Empty if only the order of a list differs, or the content of a file or
    /// variable that a key names.
    pub(crate) changes: Vec<KeyDifferenceBody>,
}

/// A key for which two versions say different things.
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
    /// The keys in force and the difference that are asked for.
    ///
    /// # Errors
    /// 404 for a version that is not kept.
    pub(crate) fn new(view: &GatewayView, query: &ConfigQuery) -> Result<ConfigValuesBody, ApiError> {
        let keys = view.setup.written.as_ref().map(|written| written.in_force_keys()).unwrap_or_default();
        let keys_total = keys.len();
        let (keys, keys_found) = query.listed(keys);
        let versions = view.shared.process.reloads.status.versions();
        let difference = query.from.map(|from| difference(&versions, from, query.to.unwrap_or(view.setup.version)));
        Ok(ConfigValuesBody {
            version: view.setup.version,
            keys,
            keys_found,
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
    let changes = after.written_differences_from(before).into_iter().take(MOST_KEYS);
    let changes =
        changes.map(|change| KeyDifferenceBody { key: change.key, from: change.in_force, to: change.on_disk });
    Ok(DifferenceBody { from, to, changes: changes.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_filtered_before_the_list_is_cut() {
        let key = |key: String| KeyInForce { key, value: "1".to_owned(), location: SourceLocation::Default };
        let mut keys: Vec<KeyInForce> = (0..MOST_KEYS).map(|n| key(format!("models[\"acme/{n}\"].name"))).collect();
        keys.push(key("routing.objective".to_owned()));
        let (all, found) = ConfigQuery::default().listed(keys.clone());
        assert_eq!((all.len(), found), (MOST_KEYS, MOST_KEYS + 1));

        let query = ConfigQuery::parse("q=routing.&source=default").unwrap();
        let (listed, found) = query.listed(keys.clone());
        let listed: Vec<&str> = listed.iter().map(|key| key.key.as_str()).collect();
        assert_eq!((listed, found), (vec!["routing.objective"], 1));
        assert_eq!(ConfigQuery::parse("source=set").unwrap().listed(keys).1, 0);
        assert!(ConfigQuery::parse("source=joy").is_err());
    }
}
