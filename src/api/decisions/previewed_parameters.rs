//! What becomes of the fields of a request at one candidate, for previews.

use std::{collections::BTreeSet, sync::Arc};

use pointsman_dialect::{OutgoingBody, SignatureSources, top_level_names};
use pointsman_domain::{Catalog, Endpoint};
use serde::Serialize;

use crate::proxy::dispatch::RequestedWork;

/// The fields of the client's request, by what becomes of them. Each is named once, in the client's spelling; parts of a field are named
/// in addition to it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct PreviewedParameters {
    /// API of the endpoint. This and what follows is in previews only.
    #[cfg_attr(test, schemars(with = "crate::base::words::Dialect"))]
    upstream_dialect: &'static str,
    /// Sent under the same name.
    kept_parameters: Vec<String>,
    /// Sent in another form.
    translated_parameters: Vec<String>,
    /// Not sent; their meaning is produced by other means.
    emulated_parameters: Vec<String>,
    /// Not sent.
    dropped_parameters: Vec<String>,
}

impl PreviewedParameters {
    /// What becomes of the parameters at an endpoint. `None` if the request cannot be translated for it.
    pub(crate) fn new(work: &RequestedWork, catalog: &Catalog, endpoint: &Endpoint) -> Option<PreviewedParameters> {
        let outgoing = work.upstream_body(catalog, endpoint, None, SignatureSources::default())?;
        let has_other_form =
            outgoing.translation.is_some() && !outgoing.is_clients_own || is_from_another_api(work, &outgoing);
        let sent = if has_other_form { Vec::new() } else { top_level_names(&outgoing.bytes) };
        let OutgoingBody { emulated, dropped, .. } = outgoing;
        let is_listed = |list: &[Arc<str>], name: &String| list.iter().any(|listed| **listed == **name);
        let left =
            work.given_names().into_iter().filter(|name| !is_listed(&dropped, name) && !is_listed(&emulated, name));
        let (kept, translated) = left.partition(|name| sent.contains(name));
        Some(PreviewedParameters {
            upstream_dialect: endpoint.dialect.as_str(),
            kept_parameters: kept,
            translated_parameters: translated,
            emulated_parameters: texts(&emulated),
            dropped_parameters: texts(&dropped),
        })
    }
}

/// Sorted, each once.
fn texts(names: &[Arc<str>]) -> Vec<String> {
    let names: BTreeSet<&str> = names.iter().map(|name| &**name).collect();
    names.into_iter().map(str::to_owned).collect()
}

/// Whether a chat endpoint gets a chat that was made from a request in another form.
fn is_from_another_api(work: &RequestedWork, outgoing: &OutgoingBody) -> bool {
    work.is_from_another_api() && !outgoing.is_clients_own
}
