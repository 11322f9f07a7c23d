//! The HTTP server: listeners, TLS, connections, middleware and every route.

pub mod connections;
pub mod cors;
pub mod dialect;
mod expectation;
pub mod host;
pub mod listeners;
pub mod middleware;
pub mod pipelining;
pub mod request_framing;
pub mod routes;
pub mod tls;
