//! `GET /openapi.json` and `GET /docs`: the description of a listener's paths, for programs and for people.
//!
//! There is one document per listener, made of the structs of answers by the test in `document.rs` and kept in the
//! repository. Tests compare them with the routes and with real answers. They hold nothing of the configuration, so no key
//! is needed. The page needs neither scripts nor another host.

#[cfg(test)]
mod described;
#[cfg(test)]
mod document;
#[cfg(test)]
mod headers;
#[cfg(test)]
mod operation;
#[cfg(test)]
mod operations;
pub(crate) mod page;
#[cfg(test)]
mod schemas;

use std::sync::LazyLock;

use actix_web::{HttpRequest, HttpResponse, http::header};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const INFERENCE: &str = include_str!("openapi/inference.json");
const ADMIN: &str = include_str!("openapi/admin.json");

/// The pages as they are sent, made at the first request.
static INFERENCE_PAGE: LazyLock<String> = LazyLock::new(|| render(INFERENCE));
static ADMIN_PAGE: LazyLock<String> = LazyLock::new(|| render(ADMIN));

/// Allows the style of the page and nothing else.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = STANDARD.encode(Sha256::digest(page::STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// Which listener is described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Document {
    /// The listener for callers.
    Inference,
    /// The listener for administrators.
    Admin,
}

/// The document as JSON.
pub(crate) async fn json(request: HttpRequest) -> HttpResponse {
    let text = match described(&request) {
        Document::Inference => INFERENCE,
        Document::Admin => ADMIN,
    };
    HttpResponse::Ok()
        .content_type("application/json")
        .insert_header((header::CACHE_CONTROL, "public, max-age=300"))
        .body(text)
}

/// The document as a page.
pub(crate) async fn html(request: HttpRequest) -> HttpResponse {
    let text = match described(&request) {
        Document::Inference => INFERENCE_PAGE.as_str(),
        Document::Admin => ADMIN_PAGE.as_str(),
    };
    page_answer(text)
}

/// 200 with a page that has no style but that of [`page::STYLE`].
pub(super) fn page_answer(text: &'static str) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header((header::CACHE_CONTROL, "public, max-age=300"))
        .insert_header((header::CONTENT_SECURITY_POLICY, POLICY.as_str()))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .body(text)
}

pub(super) fn described(request: &HttpRequest) -> Document {
    request.app_data::<Document>().copied().unwrap_or(Document::Inference)
}

fn render(text: &'static str) -> String {
    // A test checks that both documents are JSON.
    page::render(&serde_json::from_str::<Value>(text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_documents_are_of_this_version_and_every_reference_leads_somewhere() {
        fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
            match value {
                Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(Value::as_str));
                    members.values().for_each(|value| references(value, found));
                }
                Value::Array(values) => values.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        for text in [INFERENCE, ADMIN] {
            let document: Value = serde_json::from_str(text).unwrap();
            assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
            let mut found = Vec::new();
            references(&document, &mut found);
            assert!(!found.is_empty());
            for reference in found {
                assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
            }
        }
    }

    #[test]
    fn the_page_names_every_path_and_needs_no_script_and_no_network() {
        for (text, page) in [(INFERENCE, &*INFERENCE_PAGE), (ADMIN, &*ADMIN_PAGE)] {
            let document: Value = serde_json::from_str(text).unwrap();
            for path in document["paths"].as_object().unwrap().keys() {
                assert!(page.contains(path.as_str()), "{path}");
            }
            for forbidden in ["<script", "http://", "https://", "style=", "onclick", "javascript:", "@import", "url("] {
                assert!(!page.contains(forbidden), "{forbidden}");
            }
        }
    }
}
