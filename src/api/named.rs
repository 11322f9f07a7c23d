//! The name at the end of a path.

use std::{
    future::{Ready, ready},
    ops::Deref,
};

use actix_web::{FromRequest, HttpRequest, dev::Payload, web::Path};

use crate::base::error::ApiError;

/// What a path names, decoded: its last parameter, for those before belong to the application that the gateway is
/// mounted in.
pub(crate) struct Named(String);

impl Deref for Named {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl FromRequest for Named {
    type Error = ApiError;
    type Future = Ready<Result<Named, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let all = Path::<Vec<String>>::from_request(request, payload).into_inner();
        let last = all.ok().and_then(|all| all.into_inner().pop());
        ready(last.map(Named).ok_or_else(ApiError::unknown_path))
    }
}
