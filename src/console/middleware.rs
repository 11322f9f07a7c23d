//! What stands before every page: the origin of forms, the session, and error pages instead of JSON.

use actix_web::{
    Error, HttpMessage as _,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method,
        header::{self, HeaderMap},
    },
    middleware::Next,
};

use super::{answer, layout::Frame, visitor::Visitor};
use crate::{base::error::ApiError, state::gateway::Worker};

/// Refuses forms that no page of the console sent, and the whole console while it is off. Shows errors as pages.
pub(super) async fn forms<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let is_on = Worker::of(request.request()).is_some_and(|worker| worker.setup.config.console.enabled);
    if !is_on {
        return Err(ApiError::unknown_path("/console").into());
    }
    let is_form = !matches!(*request.method(), Method::GET | Method::HEAD);
    let response = if is_form && !is_same_origin(request.headers()) {
        let (request, _) = request.into_parts();
        let refused = answer::error_page(&Frame::of(&request), &ApiError::foreign_form());
        return Ok(ServiceResponse::new(request, refused));
    } else {
        next.call(request).await?.map_into_boxed_body()
    };
    let error = response.response().error().and_then(|error| error.as_error::<ApiError>().cloned());
    let Some(error) = error else { return Ok(response) };
    let (request, _) = response.into_parts();
    let page = answer::error_page(&Frame::of(&request), &error);
    Ok(ServiceResponse::new(request, page))
}

/// Sends visitors without a session to the login page.
pub(super) async fn session<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(visitor) = Visitor::of(request.request()) else {
        let (request, _) = request.into_parts();
        let login = answer::redirect(&format!("{}login", Frame::of(&request).root));
        return Ok(ServiceResponse::new(request, login));
    };
    request.extensions_mut().insert(visitor);
    Ok(next.call(request).await?.map_into_boxed_body())
}

/// Whether a page of this origin sent the form: browsers say so in `Sec-Fetch-Site`, older ones in `Origin`.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let single = |name: &str| {
        let mut values = headers.get_all(name);
        values.next().filter(|_| values.next().is_none()).and_then(|value| value.to_str().ok())
    };
    if headers.contains_key("sec-fetch-site") {
        return single("sec-fetch-site") == Some("same-origin");
    }
    let origin = single(header::ORIGIN.as_str()).and_then(|origin| origin.split_once("://"));
    origin.zip(single(header::HOST.as_str())).is_some_and(|((_, origin), host)| origin.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sent: &[(&'static str, &'static str)], expected: bool) {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(header::HeaderName::from_static(name), header::HeaderValue::from_static(value));
        }
        assert_eq!(is_same_origin(&headers), expected, "{sent:?}");
    }

    #[test]
    fn a_form_comes_from_a_page_of_the_same_origin() {
        const HOST: (&str, &str) = ("host", "localhost:8081");
        check(&[HOST, ("sec-fetch-site", "same-origin")], true);
        check(&[HOST, ("sec-fetch-site", "cross-site"), ("origin", "http://localhost:8081")], false);
        check(&[HOST, ("sec-fetch-site", "same-site")], false);
        check(&[HOST, ("sec-fetch-site", "none")], false);
        check(&[HOST, ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")], false);
        check(&[HOST, ("origin", "http://localhost:8081")], true);
        check(&[HOST, ("origin", "http://localhost:9999")], false);
        check(&[HOST, ("origin", "null")], false);
        check(&[HOST], false);
    }
}
