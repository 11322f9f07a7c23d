//! Simulated providers: HTTP servers with the API of OpenAI (chat or Responses), Anthropic, Google or Amazon Bedrock on
//! loopback ports, each with its own [`ProviderSettings`].
//!
//! They are used for first trials, tests and fault injection. Requests to them use the same path as those to real
//! providers, sockets included; only the answers are generated text. This crate does not know how requests are routed.
//!
//! [`start`] gives each provider a port and returns one [`ProviderServer`] per provider. All providers share one thread. Random
//! numbers are seeded: a provider gives the same answers to the same sequence of requests.
//!
//! `load` draws times and outcomes, `answer` generates content, `stream` sends it in chunks, `server` accepts connections.

mod answer;
mod anthropic;
mod anthropic_request;
mod chat;
mod check;
mod converse;
mod counters;
mod embeddings;
mod gemini;
mod images;
mod json_response;
mod json_value;
mod load;
mod prompt_cache;
mod provider;
mod quota;
mod rejection;
mod request;
mod responses;
mod routes;
mod schema;
mod seal;
mod server;
mod stream;
mod tools;
mod words;

pub use counters::Counters;
pub use load::slowdown;
pub use pointsman_domain::simulated::{ProviderSettings, SimulatedModel};
pub use server::{ProviderServer, serve, start};

/// The random number generator. It is portable: a seed gives the same values on every machine and in later versions.
type Rng = rand::rngs::Xoshiro256PlusPlus;
