//! The middleware of every request: assigns the request id, normalizes the path, refuses heads that are too large or name
//! a host that is not allowed, catches panics, gives every error the same body, and logs and counts the answer.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Instant};

use actix_cors::CorsError;
use actix_web::{
    Error, HttpMessage,
    body::{BodySize, BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        ConnectionType, Method, Uri, Version,
        header::{self, HeaderName, HeaderValue},
        uri::PathAndQuery,
    },
    middleware::Next,
};
use actix_web_lab::extract::LocalData;
use futures_util::FutureExt as _;
use pointsman_base::clock;
use pointsman_domain::Dialect;

use crate::{
    access::keys::Caller,
    api::auth::KnownCaller,
    base::{
        error::{ApiError, ErrorReason, refuses_key},
        events,
        request_id::{REQUEST_ID, RequestId},
    },
    http::{connections::OngoingRequest, cors, dialect, host},
    state::{
        gateway::{Shared, WorkerHandle},
        refused_calls::RefusedCall,
    },
};

const GENERATION_ID: HeaderName = HeaderName::from_static("x-generation-id");

/// The middleware. Outermost layer, so that every answer passes it.
///
/// # Errors
/// When a handler panicked, an inner layer failed, or the process shuts down. The error carries the request id.
pub async fn frame<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let started = Instant::now();
    let id = RequestId::chosen_by(request.headers());
    normalize_path(&mut request);
    let dialect = dialect::of_request(request.head());
    request.extensions_mut().insert(id.clone());
    let call = OngoingRequest::begin(&request);
    if let Some(call) = &call {
        call.read_buffered().await;
    }
    let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
    let worker = request.app_data::<LocalData<WorkerHandle>>().map(|handle| handle.worker());
    let max_head_bytes = worker.as_ref().map_or(usize::MAX, |worker| worker.setup.config.limits.max_header_bytes);
    let misdirected = host::check(&request, worker.as_ref().map(|worker| &worker.setup.config)).err();
    let shared = worker.as_ref().map(|worker| Arc::clone(&worker.shared));
    if let Some(worker) = worker {
        request.extensions_mut().insert(worker);
    }
    let result = if let Some(error) = misdirected {
        Ok(request.into_response(error.with_request_id(id.as_str()).in_dialect(dialect).respond()))
    } else if head_bytes(&request) > max_head_bytes {
        let error = ApiError::headers_too_large(max_head_bytes).with_request_id(id.as_str()).in_dialect(dialect);
        Ok(request.into_response(error.respond()))
    } else {
        call_inner(request, next, (&id, dialect), shared.as_ref()).await
    };
    if let Some(shared) = shared {
        emit_answered(&result, started, &id, &shared);
    }
    let result = result.map(|response| if is_chunked { close_if_refused(response) } else { response });
    let result = result.map(close_if_required);
    match call {
        Some(call) => result.map(|response| call.end_with(response)),
        None => result,
    }
}

/// Logs and counts the answer.
fn emit_answered(result: &Result<ServiceResponse<BoxBody>, Error>, started: Instant, id: &RequestId, shared: &Shared) {
    let status = match result {
        Ok(response) => response.status(),
        Err(error) => error.as_response_error().status_code(),
    };
    let caller = result.as_ref().ok().and_then(|response| KnownCaller::of(response.request()));
    if let Some(caller) = &caller {
        caller.state.life.answered(status.as_u16());
    }
    let route = result.as_ref().ok().and_then(|response| response.request().match_pattern());
    let reason = error_reason(result);
    let answered = events::Answered {
        route: route.as_deref(),
        status: status.as_u16(),
        took: started.elapsed(),
        reason: reason.as_ref().map(|reason| reason.reason),
        request_id: id.as_str(),
        generation: result.as_ref().ok().and_then(generation),
        key: caller.as_ref().map(|caller| caller.id),
        key_name: caller.as_ref().map(|caller| &*caller.key.name),
    };
    answered.emit(&shared.process.metrics);
    if answered.is_refused_call() {
        let caller = caller.or_else(|| shut_out(result, shared));
        shared.records.refused_calls.enter(refused_call(status.as_u16(), reason, caller, id));
    }
}

/// Reason of the error in the answer, if it is one.
fn error_reason(result: &Result<ServiceResponse<BoxBody>, Error>) -> Option<ErrorReason> {
    match result {
        Ok(response) => response.response().extensions().get::<ErrorReason>().cloned(),
        Err(error) => error.as_error::<ApiError>().map(ApiError::error_reason),
    }
}

/// Whose key was not let in: one that is disabled or has expired, or that of a disabled account or team.
fn shut_out(result: &Result<ServiceResponse<BoxBody>, Error>, shared: &Shared) -> Option<Arc<Caller>> {
    let response = result.as_ref().ok().filter(|response| refuses_key(response.status()))?;
    shared.setup.load().keys.presented(response.request().headers())
}

/// The call for the list of refused ones.
fn refused_call(status: u16, reason: Option<ErrorReason>, caller: Option<Arc<Caller>>, id: &RequestId) -> RefusedCall {
    let team = caller.as_ref().and_then(|caller| caller.account.team.load_full());
    let (reason, model) = reason.map_or(("unknown", None), |it| (it.reason, it.model));
    RefusedCall {
        at_ms: clock::unix_millis(),
        status,
        reason,
        team: team.map(|team| Arc::clone(&team.name)),
        caller,
        model,
        request_id: id.shared(),
    }
}

/// Generation id of the answer.
fn generation(response: &ServiceResponse<BoxBody>) -> Option<&str> {
    response.headers().get(GENERATION_ID)?.to_str().ok()
}

/// Calls the inner service. A panic or the end of the drain becomes an error.
async fn call_inner<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
    (id, dialect): (&RequestId, Dialect),
    shared: Option<&Arc<Shared>>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    // Only calls run long enough to be ended by a shutdown.
    let is_call = request.method() == Method::POST;
    let drain_over = async {
        match shared.filter(|_| is_call) {
            Some(shared) => shared.process.drain.over().await,
            None => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        // In this order, so that a call that is answered at once does not poll `drain_over`.
        biased;
        result = AssertUnwindSafe(next.call(request)).catch_unwind() => result,
        () = drain_over => return Err(ApiError::draining().with_request_id(id.as_str()).in_dialect(dialect).into()),
    };
    let Ok(result) = result else {
        if let Some(shared) = shared {
            shared.process.metrics.panicked(id.as_str());
        }
        return Err(ApiError::internal().with_request_id(id.as_str()).in_dialect(dialect).into());
    };
    let response = result.map_err(|error| api_error(&error).with_request_id(id.as_str()).in_dialect(dialect))?;
    let mut response = finish(response.map_into_boxed_body(), id, dialect);
    if shared.is_some_and(|shared| shared.is_draining()) {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    Ok(response)
}

/// Closes the connection of a refused call with a chunked body: the HTTP server would otherwise read the rest of the
/// body, of any length, before it answers the next request.
fn close_if_refused(mut response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    if !response.status().is_success() {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    response
}

/// Closes the connection if the request asks for it, also when further requests follow; and after a stream to an
/// HTTP/1.0 client, which has no chunked encoding: there the end of the connection marks the end of the stream.
fn close_if_required(mut response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let request = response.request().head();
    let unchunked = request.version < Version::HTTP_11 && response.response().body().size() == BodySize::Stream;
    if unchunked || request.connection_type() == ConnectionType::Close {
        let head = response.response_mut().head_mut();
        head.set_connection_type(ConnectionType::Close);
        head.no_chunking(unchunked);
    }
    response
}

/// Size of the head in bytes: the path with its query, and all header names and values.
fn head_bytes(request: &ServiceRequest) -> usize {
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    request.headers().iter().fold(path, |bytes, (name, value)| bytes + name.as_str().len() + value.len())
}

/// Adds the request id to the headers, and to the body of an error.
fn finish(response: ServiceResponse<BoxBody>, id: &RequestId, dialect: Dialect) -> ServiceResponse<BoxBody> {
    let mut response = match response.response().error() {
        Some(error) => {
            let mut answer = api_error(error).with_request_id(id.as_str()).in_dialect(dialect).respond();
            cors::copy_headers(response.headers(), answer.headers_mut());
            ServiceResponse::new(response.into_parts().0, answer)
        }
        None => response,
    };
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        if dialect == Dialect::Anthropic {
            // Where its client libraries look for it.
            response.headers_mut().insert(HeaderName::from_static("request-id"), value.clone());
        }
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The [`ApiError`] of `error`; an error of the framework is converted.
fn api_error(error: &Error) -> ApiError {
    if let Some(error) = error.as_error::<ApiError>() {
        return error.clone();
    }
    if error.as_error::<CorsError>().is_some() {
        return ApiError::refused_preflight();
    }
    match error.as_response_error().status_code().as_u16() {
        404 => ApiError::unknown_path(""),
        400..500 => ApiError::malformed(),
        _ => ApiError::internal(),
    }
}

/// Merges repeated slashes and removes a trailing one: `/api//v1/models/` becomes `/api/v1/models`. Does nothing in a host
/// application, which has already matched part of the path, and below `/console/`, where the browser resolves relative
/// links against the path that it sent.
fn normalize_path(request: &mut ServiceRequest) {
    let path = request.path();
    if request.match_info().unprocessed() != path || path.starts_with("/console/") {
        return;
    }
    if !path.contains("//") && (path.len() <= 1 || !path.ends_with('/')) {
        return;
    }
    let mut normalized = String::with_capacity(path.len());
    for part in path.split('/').filter(|part| !part.is_empty()) {
        normalized.push('/');
        normalized.push_str(part);
    }
    if normalized.is_empty() {
        normalized.push('/');
    }
    if let Some(query) = request.uri().query() {
        normalized.push('?');
        normalized.push_str(query);
    }
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(normalized).ok();
    if let Ok(uri) = Uri::from_parts(parts) {
        request.match_info_mut().get_mut().update(&uri);
        request.head_mut().uri = uri;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use actix_web::{App, middleware::from_fn, test, web};

    use super::*;
    use crate::app::server::Gateway;
    use pointsman_config::Config;

    #[actix_web::test]
    async fn a_panic_is_answered_and_counted_and_does_not_affect_other_calls() {
        let environment = Vec::<(String, String)>::new().into_iter().collect();
        let config = Config::parse("[simulation]\nmode = \"off\"\n", "test", Path::new("."), &environment);
        let gateway = Gateway::start(config.unwrap()).await.unwrap();
        let app = App::new()
            .app_data(LocalData::new(gateway.worker_handle()))
            .route("/ok", web::get().to(async || "ok"))
            .route("/panic", web::get().to(async || if true { panic!("test panic") } else { "" }))
            .wrap(from_fn(frame));
        let app = test::init_service(app).await;

        let panicked = test::try_call_service(&app, test::TestRequest::get().uri("/panic").to_request()).await;
        assert_eq!(panicked.unwrap_err().as_response_error().status_code().as_u16(), 500);
        let served = test::call_service(&app, test::TestRequest::get().uri("/ok").to_request()).await;
        assert_eq!(served.status().as_u16(), 200);

        assert_eq!(gateway.shared().process.metrics.panics(), 1);
        gateway.close().await;
    }
}
