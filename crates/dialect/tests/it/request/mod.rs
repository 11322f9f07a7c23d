//! Requests of the OpenAI dialect: what is refused and how, what is understood, what an upstream is sent.

mod corpus;
mod golden;
mod images;
mod lost;
mod openings;
mod preview;
mod properties;
mod refusals;
mod routing;
mod understood;
mod unmet;
mod world;
