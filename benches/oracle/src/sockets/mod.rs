//! The same over real sockets: simulated providers as processes, an open-loop driver, Pointsman's binary between.
//!
//! A world is drawn from a seed as everywhere here and lived through [`SPEED`] times as fast. Each of its endpoints is
//! a process of its own (`provider`); requests come at their moments whether or not others are answered (`driver`).
//! Every rule meets the same requests and the same fates. Pointsman is the real binary with its times
//! scaled to this world (`gateway`); every other rule runs in the driver and calls the providers itself, with the
//! same clocks and failover. The `contest` holds what came out against the simulator in the very same world.

mod call;
mod child;
mod contest;
mod driver;
mod gateway;
#[path = "../../../peer/http.rs"]
mod http;
mod provider;
mod stage;

pub use child::guard;
pub use contest::{Outcome, run};
pub use provider::serve;
pub use stage::{SPEED, Show, Stage};
