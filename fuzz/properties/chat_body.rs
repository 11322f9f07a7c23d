//! The reader of request bodies: what it takes is JSON, and goes to every endpoint as JSON that names the endpoint's
//! own model and none of our routing fields; what it refuses, it refuses with words.

use std::{path::Path, sync::LazyLock};

use bytes::Bytes;
use pointsman_config::{BUILT_IN, Config};
use pointsman_dialect::{ChatPurpose, ChatRequest, ImageRequest, RequestLimits};
use pointsman_domain::Catalog;
use serde_json::Value;

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    let simulated = [("POINTSMAN__SIMULATION__MODE".to_owned(), "on".to_owned())].into_iter().collect();
    Config::parse(BUILT_IN, "built in", Path::new("."), &simulated).expect("the shipped file is good").catalog(1)
});

/// See the module.
pub(crate) fn check(body: &[u8]) {
    let limits = RequestLimits::default();
    for form in [ChatPurpose::Chat, ChatPurpose::Preview] {
        match ChatRequest::parse(Bytes::copy_from_slice(body), form, &limits) {
            Ok(request) => taken(body, &request),
            Err(invalid) => assert!(!invalid.message.is_empty() && !invalid.message.contains('\0')),
        }
    }
    if let Ok(request) = ImageRequest::parse(Bytes::copy_from_slice(body), &limits) {
        for endpoint in &CATALOG.endpoints {
            let _ = sent(&request.upstream_body(&CATALOG, endpoint).bytes);
        }
    }
}

fn taken(body: &[u8], request: &ChatRequest) {
    let text = std::str::from_utf8(body).expect("only UTF-8 is taken");
    let read = super::json::read(text.trim_start_matches('\u{feff}'));
    for model in &CATALOG.models {
        let _ = request.unmet(&CATALOG, model);
    }
    // A handful stands for all: they differ in what they support.
    for endpoint in CATALOG.endpoints.iter().step_by(CATALOG.endpoints.len().div_ceil(6).max(1)) {
        let Some(out) = sent(&request.upstream_body(&CATALOG, endpoint).bytes) else { continue };
        assert_eq!(out["model"], *endpoint.upstream_model);
        for ours in ["provider", "models", "route", "plugins", "extra_body", "objective", "allowed_models"] {
            assert!(out.get(ours).is_none(), "{ours} was sent on");
        }
        let messages = |body: &Value| body["messages"].as_array().map(Vec::len);
        if let Some(read) = &read {
            assert_eq!(messages(read), messages(&out), "messages were lost");
        }
    }
}

fn sent(bytes: &[u8]) -> Option<Value> {
    super::json::read(std::str::from_utf8(bytes).expect("an upstream is sent UTF-8"))
}
