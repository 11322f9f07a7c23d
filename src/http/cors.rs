//! CORS: the origins that may call the gateway from a browser, and the headers that their scripts may read.
//!
//! Scripts send the key in a header that they set themselves; credentials such as cookies are never allowed.

use actix_cors::Cors;
use actix_web::http::{
    Method,
    header::{HeaderMap, VARY},
};
use pointsman_config::CorsConfig;

/// Headers of answers that scripts may read.
const EXPOSED: [&str; 24] = [
    "x-request-id",
    "x-generation-id",
    "x-route-model",
    "x-route-provider",
    "x-route-router",
    "x-route-reason",
    "x-route-attempts",
    "x-route-latency-ms",
    "x-route-overhead-ms",
    "x-route-dropped-parameters",
    "x-route-emulated-parameters",
    "x-route-ignored",
    "x-route-cost",
    "x-route-usage",
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "server-timing",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
];

/// The middleware that answers preflight requests and adds the CORS headers for the configured origins.
pub fn layer(config: &CorsConfig) -> Cors {
    let cors = Cors::default()
        .allowed_methods([Method::GET, Method::HEAD, Method::POST])
        .allow_any_header()
        .expose_headers(EXPOSED)
        .max_age(usize::try_from(config.max_age.as_secs()).ok());
    if config.allowed_origins.iter().any(|origin| origin == "*") {
        return cors.allow_any_origin().send_wildcard();
    }
    let origins = config.allowed_origins.clone();
    cors.allowed_origin_fn(move |origin, _| {
        origins.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(origin.as_bytes()))
    })
}

/// Copies the CORS headers of an answer to the one that replaces it.
pub fn copy_headers(from: &HeaderMap, to: &mut HeaderMap) {
    let is_cors = |name: &str| name.starts_with("access-control-") || name == VARY.as_str();
    for (name, value) in from.iter().filter(|(name, _)| is_cors(name.as_str())) {
        to.append(name.clone(), value.clone());
    }
}
