//! A request of a visitor, as the pages take it.

use std::{
    future::{Ready, ready},
    ops::Deref,
};

use actix_web::{FromRequest, HttpMessage as _, HttpRequest, dev::Payload};

use super::{layout::Frame, visitor::Visitor};
use crate::{api::auth::Authorized, base::error::ApiError, state::gateway::Worker};

/// A request of a visitor, and the frame of the page that answers it.
pub(super) struct Visit {
    by: Authorized,
    pub(super) frame: Frame,
}

impl Visit {
    /// The request, as the calls of the API take one.
    pub(super) fn into_authorized(self) -> Authorized {
        self.by
    }
}

impl Deref for Visit {
    type Target = Authorized;

    fn deref(&self) -> &Authorized {
        &self.by
    }
}

impl FromRequest for Visit {
    type Error = ApiError;
    type Future = Ready<Result<Visit, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let visitor = request.extensions().get::<Visitor>().cloned();
        ready(visitor.zip(Worker::of(request)).ok_or_else(ApiError::internal).map(|(visitor, worker)| Visit {
            by: Authorized { caller: visitor.caller, worker, request: request.clone() },
            frame: Frame::of(request),
        }))
    }
}
