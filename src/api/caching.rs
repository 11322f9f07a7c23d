//! Cacheable answers: a strong `ETag` over the exact bytes, and 304 for a matching `If-None-Match`.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, HeaderMap, HeaderValue},
};
use pointsman_config::AuthConfig;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::base::error::ApiError;

/// Which caches may store an answer, for one minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Any cache: the answer is the same for all callers.
    Public,
    /// Only the caller's cache: the answer needs a key.
    Private,
}

impl Cache {
    /// The caches for pages of the catalog.
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

/// Request headers that the answers depend on. `User-Agent` selects the paged envelope of one SDK.
const VARY: &str = "Accept-Encoding, User-Agent";
/// Bytes of the digest in the tag.
const TAG_BYTES: usize = 16;

/// The answer with this body, or 304 if the request has its tag.
///
/// # Errors
/// 500 when the body cannot be serialized.
pub(crate) fn respond(request: &HttpRequest, cache: Cache, body: &impl Serialize) -> Result<HttpResponse, ApiError> {
    let body = serde_json::to_vec(body).map_err(|_| ApiError::internal())?;
    let tag = tag_of(&body);
    let mut response = match has_tag(request.headers(), &tag) {
        true => HttpResponse::NotModified(),
        false => HttpResponse::Ok(),
    };
    response
        .insert_header((header::ETAG, tag.as_str()))
        .insert_header((header::CACHE_CONTROL, cache.directive()))
        .insert_header((header::VARY, HeaderValue::from_static(VARY)));
    if has_tag(request.headers(), &tag) {
        return Ok(response.finish());
    }
    Ok(response.content_type(header::ContentType::json()).body(body))
}

fn tag_of(body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    format!("\"{}\"", hex::encode(digest.get(..TAG_BYTES).unwrap_or_default()))
}

/// Whether an `If-None-Match` contains `tag` (weak comparison, as the header requires) or `*`.
fn has_tag(headers: &HeaderMap, tag: &str) -> bool {
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
    fn an_answer_has_a_strong_tag_and_a_vary_header() {
        let response = ask(None);
        assert_eq!(response.status(), StatusCode::OK);
        let tag = header_of(&response, header::ETAG);
        assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() == 2 + 2 * TAG_BYTES, "{tag}");
        assert_eq!(header_of(&response, header::CACHE_CONTROL), "public, max-age=60");
        assert_eq!(header_of(&response, header::VARY), "Accept-Encoding, User-Agent");
        assert_eq!(response.into_body().try_into_bytes().unwrap(), r#"["body"]"#);
    }

    #[test]
    fn a_matching_tag_gets_304_without_a_body_and_with_the_same_tag() {
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
    fn any_other_tag_gets_the_body() {
        for value in ["\"other\"", "", "W/", "garbage"] {
            assert_eq!(ask(Some(value)).status(), StatusCode::OK, "{value}");
        }
    }
}
