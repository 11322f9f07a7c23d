//! What another configuration would have chosen for recorded traffic: for the command line and for `/admin/diff`.
//!
//! [`run`] reads the records twice: first every decision must come out as it was made, then it is made again under the other
//! configuration. [`report`] is the answer as JSON, [`text`] the same for people; [`estimate_report`] and [`estimate_text`] say what would have
//! happened, [`regret_report`] what better decisions would have saved, [`recorded`] and [`break_even`] what chance and second answers cost. The decisions themselves are made in
//! `pointsman_routing::explain::diff`.

mod answered;
pub(crate) mod break_even;
mod comparisons;
pub(crate) mod configuration;
pub(crate) mod estimate_report;
pub(crate) mod estimate_text;
pub(crate) mod limit;
pub(crate) mod recorded;
pub(crate) mod regret_report;
pub(crate) mod regret_run;
pub(crate) mod regret_text;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod text;
