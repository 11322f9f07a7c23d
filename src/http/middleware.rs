//! What stands around every call: its request id, its path put in order, errors in the one body
//! shape, panics caught, heads that are too large or name another host refused, and the count of what was answered.

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

use crate::{
    base::{
        error::ApiError,
        events,
        request_id::{REQUEST_ID, RequestId},
    },
    http::{connections::OngoingCall, cors, host},
    state::gateway::{Shared, WorkerHandle},
};

const GENERATION_ID: HeaderName = HeaderName::from_static("x-generation-id");

/// The middleware itself; outermost, so that nothing leaves without it.
///
/// # Errors
/// Only when a handler panicked, a layer below broke, or the process leaves: the error then carries its own request id.
pub async fn frame<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let started = Instant::now();
    let id = RequestId::chosen_by(request.headers());
    put_path_in_order(&mut request);
    request.extensions_mut().insert(id.clone());
    let call = OngoingCall::begin(&request);
    if let Some(call) = &call {
        call.take_in().await;
    }
    let endless = request.headers().contains_key(header::TRANSFER_ENCODING);
    let worker = request.app_data::<LocalData<WorkerHandle>>().map(|desk| desk.worker());
    let most = worker.as_ref().map_or(usize::MAX, |worker| worker.setup.config.limits.max_header_bytes);
    let misdirected = host::check(&request, worker.as_ref().map(|worker| &worker.setup.config)).err();
    let shared = worker.as_ref().map(|worker| Arc::clone(&worker.shared));
    if let Some(worker) = worker {
        request.extensions_mut().insert(worker);
    }
    let answered = if let Some(error) = misdirected {
        Ok(request.into_response(error.with_request_id(id.as_str()).respond()))
    } else if head_bytes(&request) > most {
        Ok(request.into_response(ApiError::headers_too_large(most).with_request_id(id.as_str()).respond()))
    } else {
        pass(request, next, &id, shared.as_ref()).await
    };
    if let Some(shared) = shared {
        count(&answered, started, &id, &shared);
    }
    let answered = answered.map(|response| if endless { end_if_refused(response) } else { response });
    let answered = answered.map(end_as_asked);
    match call {
        Some(call) => answered.map(|response| call.answered(response)),
        None => answered,
    }
}

/// Counts what was answered.
fn count(answered: &Result<ServiceResponse<BoxBody>, Error>, started: Instant, id: &RequestId, shared: &Shared) {
    let status = match answered {
        Ok(response) => response.status(),
        Err(error) => error.as_response_error().status_code(),
    };
    let route = answered.as_ref().ok().and_then(|response| response.request().match_pattern());
    events::Answered {
        route: route.as_deref(),
        status: status.as_u16(),
        took: started.elapsed(),
        request_id: id.as_str(),
        generation: answered.as_ref().ok().and_then(generation),
    }
    .emit(&shared.metrics);
}

/// The generation that an answer is about.
fn generation(answered: &ServiceResponse<BoxBody>) -> Option<&str> {
    answered.headers().get(GENERATION_ID)?.to_str().ok()
}

async fn pass<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
    id: &RequestId,
    shared: Option<&Arc<Shared>>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    // Pages that are read end soon by themselves.
    let may_last = request.method() == Method::POST;
    let time_up = async {
        match shared.filter(|_| may_last) {
            Some(shared) => shared.drain.over().await,
            None => std::future::pending().await,
        }
    };
    let answered = tokio::select! {
        // In this order, so that a call that is answered at once never asks for the time.
        biased;
        answered = AssertUnwindSafe(next.call(request)).catch_unwind() => answered,
        () = time_up => return Err(ApiError::draining().with_request_id(id.as_str()).into()),
    };
    let Ok(answered) = answered else {
        if let Some(shared) = shared {
            events::Panicked { request_id: id.as_str() }.emit(&shared.metrics);
        }
        return Err(ApiError::internal().with_request_id(id.as_str()).into());
    };
    let response = answered.map_err(|error| known(&error).with_request_id(id.as_str()))?;
    let mut response = finish(response.map_into_boxed_body(), id);
    if shared.is_some_and(|shared| shared.is_draining()) {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    Ok(response)
}

/// The server reads the rest of a body in chunks, however long, before it answers anything else; of a refused call
/// nobody wants it.
fn end_if_refused(mut response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    if !response.status().is_success() {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    response
}

/// A connection ends behind the call that asked for it, whatever the client sent behind it; and behind a stream to an
/// HTTP/1.0 client, which knows no chunks: the end of the connection is the end of the stream.
fn end_as_asked(mut response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let request = response.request().head();
    let unchunked = request.version < Version::HTTP_11 && response.response().body().size() == BodySize::Stream;
    if unchunked || request.connection_type() == ConnectionType::Close {
        let head = response.response_mut().head_mut();
        head.set_connection_type(ConnectionType::Close);
        head.no_chunking(unchunked);
    }
    response
}

/// Bytes of the path with its query and of all names and values.
fn head_bytes(request: &ServiceRequest) -> usize {
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    request.headers().iter().fold(path, |bytes, (name, value)| bytes + name.as_str().len() + value.len())
}

/// Adds the request id; an error's body is written anew so that it names the id too.
fn finish(response: ServiceResponse<BoxBody>, id: &RequestId) -> ServiceResponse<BoxBody> {
    let mut response = match response.response().error() {
        Some(error) => {
            let mut answer = known(error).with_request_id(id.as_str()).respond();
            cors::keep(response.headers(), answer.headers_mut());
            ServiceResponse::new(response.into_parts().0, answer)
        }
        None => response,
    };
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Our own error, or what an error of the framework amounts to.
fn known(error: &Error) -> ApiError {
    if let Some(error) = error.as_error::<ApiError>() {
        return error.clone();
    }
    if error.as_error::<CorsError>().is_some() {
        return ApiError::refused_preflight();
    }
    match error.as_response_error().status_code().as_u16() {
        404 => ApiError::unknown_path(),
        400..500 => ApiError::malformed(),
        _ => ApiError::internal(),
    }
}

/// Doubled slashes become one and a trailing slash goes, so that `/api//v1/models/` is `/api/v1/models`. Not in an
/// application of somebody else, where the path was looked up already.
fn put_path_in_order(request: &mut ServiceRequest) {
    let path = request.path();
    if request.match_info().unprocessed() != path {
        return;
    }
    if !path.contains("//") && (path.len() <= 1 || !path.ends_with('/')) {
        return;
    }
    let mut tidy = String::with_capacity(path.len());
    for part in path.split('/').filter(|part| !part.is_empty()) {
        tidy.push('/');
        tidy.push_str(part);
    }
    if tidy.is_empty() {
        tidy.push('/');
    }
    if let Some(query) = request.uri().query() {
        tidy.push('?');
        tidy.push_str(query);
    }
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(tidy).ok();
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
    use crate::{app::server::Gateway, config::Config};

    #[actix_web::test]
    async fn a_panic_is_answered_counted_and_keeps_to_its_call() {
        let environment = Vec::<(String, String)>::new().into_iter().collect();
        let config = Config::parse("[simulation]\nmode = \"off\"\n", "test", Path::new("."), &environment);
        let gateway = Gateway::start(config.unwrap()).await.unwrap();
        let app = App::new()
            .app_data(LocalData::new(gateway.desk()))
            .route("/well", web::get().to(async || "well"))
            .route("/ill", web::get().to(async || if true { panic!("on purpose") } else { "" }))
            .wrap(from_fn(frame));
        let app = test::init_service(app).await;

        let panicked = test::try_call_service(&app, test::TestRequest::get().uri("/ill").to_request()).await;
        assert_eq!(panicked.unwrap_err().as_response_error().status_code().as_u16(), 500);
        let served = test::call_service(&app, test::TestRequest::get().uri("/well").to_request()).await;
        assert_eq!(served.status().as_u16(), 200);

        let text = String::from_utf8(gateway.shared().metrics.render(&[]).unwrap()).unwrap();
        assert!(text.lines().any(|line| line == "pointsman_panics_total 1"), "{text}");
        gateway.close().await;
    }
}
