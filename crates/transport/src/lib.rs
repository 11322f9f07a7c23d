//! HTTP calls that the gateway makes: above all one attempt at a provider, with strict checks of the answer's framing.
//!
//! [`UpstreamClient::send`] sends one request and returns the body of a regular 200, or an [`UpstreamError`] with the kind
//! of the failure. Every irregular answer is an error: an interim head in place of the answer, a cut body, bytes after the
//! body, an unexpected encoding, a redirect. A connection that was irregular once is never used again, so no caller can
//! see another caller's answer.
//!
//! From the outside in: `client` is used by callers and makes requests with awc. `awc_connector` answers them: it keeps
//! connections, `connector` opens them, `exchange` writes a request and gives the answer, `guard` wraps each socket and reads
//! only regular answers. `body` is the answer with its timeouts, `failure` and `refusal` classify errors. `names` resolves hosts,
//! `keep_alive` closes idle connections, `shortage` recognises missing resources of the gateway itself. `redact`
//! removes keys from text that is shown, `mask` from bytes that pass through.
//!
//! Three others use the same connections with the same checks, and so live here too: `image_fetcher` downloads images that
//! a provider links to, `single_call` asks a gateway or a provider for the command line, `post_client` posts spans and alerts.
//! `http_client` builds the awc client of all of them.
//!
//! Nothing is routed here, and no answer of a model is read: the dialect decides whether a body is a *valid* answer, and the
//! dispatcher whether another endpoint is tried.

mod awc_connector;
mod body;
mod client;
pub mod concurrency;
mod connection;
mod connection_events;
mod connector;
mod error_response;
mod exchange;
mod failure;
mod guard;
pub mod habits;
mod http_client;
mod image_fetcher;
mod keep_alive;
mod mask;
mod names;
mod objection;
mod post_client;
pub mod providers;
mod rate_limits;
mod redact;
mod request;
mod retry_after;
mod service_account;
mod shortage;
mod signer;
mod single_call;
mod tls;
mod token;
mod transport;

pub use body::UpstreamBody;
pub use client::{TransportLimits, UpstreamClient, UpstreamRequest, UpstreamResponse};
pub use connection::{Connection, ConnectionFault};
pub use connection_events::Phases;
pub use failure::UpstreamError;
pub use guard::dry_run::{ExaminedExchange, examine};
pub use objection::{Lesson, Objection};
pub use post_client::{PostAnswer, PostClient};
pub use redact::Redactor;
pub use retry_after::retry_after;
pub use signer::Signer;
pub use single_call::{ProviderPage, call_page, read_page, read_provider_page, read_signed_list, try_service_account};
pub use tls::{TlsFault, client_config, own_config, read_system_roots};
