//! Extractor of the name in a path.

use std::{
    future::{Ready, ready},
    ops::Deref,
};

use actix_web::{FromRequest, HttpRequest, dev::Payload, web::Path};

use crate::base::error::ApiError;

/// The last parameter of a path, decoded. Earlier parameters belong to the host application's scope.
pub(crate) struct PathName(String);

impl Deref for PathName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl FromRequest for PathName {
    type Error = ApiError;
    type Future = Ready<Result<PathName, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let all = Path::<Vec<String>>::from_request(request, payload).into_inner();
        let last = all.ok().and_then(|all| all.into_inner().pop());
        ready(last.map(PathName).ok_or_else(|| ApiError::unknown_path("")))
    }
}
