//! Simulated providers: real HTTP servers in OpenAI's dialect, each with a character of its own.
//!
//! They are what a first try runs on, what the tests route between, and what chaos is rehearsed with.
//! Requests to them travel the whole path, sockets included; only the words are made up, and say so.
//! Nothing here knows the router: a simulated provider is a stranger on a loopback port.
//!
//! [`start`] gives each [`Character`] a port of its own and returns one [`Running`] per provider. All of
//! them share one thread. Chance is seeded: the same character answers the same sequence of requests in
//! the same way. Where to go next: `character` says what can be simulated, `load` how long things take,
//! `answer` what is said, `stream` how it is told, `server` how it is served.

mod answer;
mod character;
mod chat;
mod check;
mod counters;
mod drawing;
mod images;
mod json_response;
mod load;
mod mentions;
mod png;
mod provider;
mod quota;
mod refusal;
mod request;
mod routes;
mod schema;
mod server;
mod stream;
mod tools;
mod words;

pub use character::{Character, SimulatedModel};
pub use counters::{Counters, SeenRequest};
pub use load::slowdown;
pub use server::{Running, serve, start};

/// The generator behind everything random here. Portable by definition: the same seed gives the same
/// run on every machine and with every later version.
type Dice = rand::rngs::Xoshiro256PlusPlus;
