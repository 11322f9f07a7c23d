//! The whole server on port 0, in front of upstreams that are scripted byte by byte.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at the first surprise")]

mod scripted;
mod upstream_answers;
mod upstream_calls;
mod upstream_clocks;
mod upstream_connections;
mod upstream_refusals;
mod upstream_requests;
mod upstream_tls;
mod upstream_without_guard;
