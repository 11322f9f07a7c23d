//! Resources of the listeners, which answer methods that they do not have with 405.

use actix_web::{Resource, Route, guard, web};

use super::error::ApiError;

/// A route for `GET` and `HEAD`.
pub(crate) fn read() -> Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

pub(crate) fn page(path: &str) -> Resource {
    resource(path, "GET, HEAD")
}

pub(crate) fn call(path: &str) -> Resource {
    resource(path, "POST")
}

pub(crate) fn page_and_call(path: &str) -> Resource {
    resource(path, "GET, HEAD, POST")
}

/// A resource that answers other methods than `allowed` with 405 and names the allowed ones.
pub(crate) fn resource(path: &str, allowed: &'static str) -> Resource {
    web::resource(path)
        .default_service(web::to(move || std::future::ready(Err::<String, _>(ApiError::method_not_allowed(allowed)))))
}
