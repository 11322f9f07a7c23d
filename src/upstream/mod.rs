//! One HTTP attempt at a provider that cannot lie.
//!
//! [`UpstreamClient::send`] asks a provider once and returns either the running body of a regular 200 or an
//! [`UpstreamError`] that says what kind of failure it was. Everything irregular is an error here: an interim head
//! taken for an answer, a cut body, bytes after a body, a false encoding, a redirect. No connection that was ever
//! irregular is used again, so no caller can see another caller's answer.
//!
//! From the outside in: `client` is what callers use, `connector` opens sockets for awc, `guard` sits on each of them
//! and watches the framing, `body` is the running answer with its clocks, `failure` and `refusal` name what went wrong.
//! `names` resolves hosts, `idle` closes connections whose time is over, `shortage` knows what is no provider's fault.
//! `fetch` downloads images that a provider answered with a link to; `page` reads a page of a gateway for the command
//! line; `http_client` builds the awc client below all of them.
//!
//! It does not know models, routing or JSON answers: whether a whole body is also a *valid* answer is decided by the
//! dialect, and whether another endpoint is tried by the dispatcher.

mod body;
mod client;
pub mod concurrency;
mod connection;
mod connector;
mod failure;
mod fetch;
mod guard;
mod http_client;
mod idle;
mod mask;
mod names;
mod page;
mod probe;
pub mod providers;
mod rate_limits;
mod redact;
mod refusal;
mod request;
mod retry_after;
mod shortage;
mod tls;
mod transport;

pub use body::UpstreamBody;
pub use client::{Call, TransportLimits, UpstreamAnswer, UpstreamClient};
pub use connection::{Connection, ConnectionFault};
pub use failure::UpstreamError;
pub use guard::dry_run::{ExaminedExchange, examine};
pub use page::read_page;
pub use probe::Phases;
pub use redact::Redactor;
pub use retry_after::retry_after;
pub use tls::{TlsFault, client_config};
