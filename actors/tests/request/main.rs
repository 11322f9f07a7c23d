//! Requests of the OpenAI dialect: what is refused and how, what is understood, what an upstream is sent.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may stop at the first surprise, in their helpers too"
)]

mod corpus;
mod golden;
mod images;
mod openings;
mod preview;
mod properties;
mod refusals;
mod routing;
mod understood;
mod unmet;
mod world;
