//! Answers that clients and proxies may keep: a strong tag over the exact bytes, and 304 for who has them.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderMap, HeaderValue},
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{base::error::ApiError, config::AuthConfig};

/// Whose cache may keep an answer, for a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Anybody's: it says the same to everybody.
    Public,
    /// The caller's own: a key was needed to see it.
    Private,
}

impl Cache {
    /// The rule for pages of the catalog.
    pub(crate) fn of_catalog(auth: &AuthConfig) -> Cache {
        if auth.public_catalog { Cache::Public } else { Cache::Private }
    }

    const fn directive(self) -> &'static str {
        match self {
            Cache::Public => "public, max-age=60",
            Cache::Private => "private, max-age=60",
        }
    }
}

/// What the answers depend on besides the path: the SDK that pages is known by its name alone.
const VARY: &str = "Accept-Encoding, User-Agent";
/// Bytes of the digest that make the tag.
const TAG_BYTES: usize = 16;

/// The answer with this body, or 304 when the request names its tag.
///
/// # Errors
/// 500 when the body cannot be written as JSON.
pub(crate) fn respond(request: &HttpRequest, cache: Cache, body: &impl Serialize) -> Result<HttpResponse, ApiError> {
    let body = serde_json::to_vec(body).map_err(|_| ApiError::internal())?;
    let tag = tag_of(&body);
    let mut response = match names(request.headers(), &tag) {
        true => HttpResponse::NotModified(),
        false => HttpResponse::Ok(),
    };
    response
        .insert_header((header::ETAG, tag.as_str()))
        .insert_header((header::CACHE_CONTROL, cache.directive()))
        .insert_header((header::VARY, HeaderValue::from_static(VARY)));
    if names(request.headers(), &tag) {
        return Ok(response.finish());
    }
    Ok(response.content_type(header::ContentType::json()).body(body))
}

fn tag_of(body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    let hex: String = digest.iter().take(TAG_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

/// Whether some `If-None-Match` names `tag`, compared weakly as the header demands, or everything.
fn names(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).filter_map(|value| value.to_str().ok());
    let mut candidates = values.flat_map(|value| value.split(',')).map(str::trim);
    candidates.any(|candidate| candidate == "*" || candidate.strip_prefix("W/").unwrap_or(candidate) == tag)
}

#[cfg(test)]
mod tests {
    use actix_web::{body::MessageBody, http::StatusCode, test::TestRequest};

    use super::*;

    fn ask(if_none_match: Option<&str>) -> HttpResponse {
        let mut request = TestRequest::default();
        if let Some(value) = if_none_match {
            request = request.insert_header((header::IF_NONE_MATCH, value));
        }
        respond(&request.to_http_request(), Cache::Public, &["body"]).unwrap()
    }

    fn header_of(response: &HttpResponse, name: header::HeaderName) -> String {
        response.headers().get(name).unwrap().to_str().unwrap().to_owned()
    }

    #[test]
    fn an_answer_carries_a_strong_tag_and_says_what_it_depends_on() {
        let response = ask(None);
        assert_eq!(response.status(), StatusCode::OK);
        let tag = header_of(&response, header::ETAG);
        assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() == 2 + 2 * TAG_BYTES, "{tag}");
        assert_eq!(header_of(&response, header::CACHE_CONTROL), "public, max-age=60");
        assert_eq!(header_of(&response, header::VARY), "Accept-Encoding, User-Agent");
        assert_eq!(response.into_body().try_into_bytes().unwrap(), r#"["body"]"#);
    }

    #[test]
    fn who_has_the_bytes_gets_304_without_a_body_and_with_the_same_tag() {
        let tag = header_of(&ask(None), header::ETAG);
        for value in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
            let response = ask(Some(&value));
            assert_eq!(response.status(), StatusCode::NOT_MODIFIED, "{value}");
            assert_eq!(header_of(&response, header::ETAG), tag);
            assert!(response.headers().get(header::CONTENT_TYPE).is_none());
            assert_eq!(response.into_body().try_into_bytes().unwrap(), "");
        }
    }

    #[test]
    fn who_has_other_bytes_gets_these() {
        for value in ["\"other\"", "", "W/", "garbage"] {
            assert_eq!(ask(Some(value)).status(), StatusCode::OK, "{value}");
        }
    }
}
