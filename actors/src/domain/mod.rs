//! The words everybody uses: plain values, no behaviour that needs a clock, a socket or chance.
//!
//! Every other room speaks in these types. Nothing here knows JSON, HTTP or actix; wire shapes live
//! in [`crate::dialect`] and beside the handlers of the server.

mod attempt;
mod attempt_record;
mod catalog;
mod conversation;
mod decision;
mod detail;
mod generation;
mod id;
mod invalid;
mod modality;
mod money;
mod objective;
mod omitted;
mod ordinary;
mod parameter;
mod pattern;
mod policy;
mod preference;
mod query;
mod spelling;
mod tick;
mod usage;
mod what_if;

pub use attempt::{Blame, Event, EventKind, Failure, FailureKind, GateEvent, Next};
pub use attempt_record::{AttemptReason, AttemptRecord};
pub use catalog::{
    Alias, Architecture, Catalog, CatalogFault, DefaultParameters, Endpoint, EndpointLimits, Model, Provider,
    ProviderState, Resolved, Target,
};
pub use conversation::{ConversationOpening, Sticky};
pub use decision::{
    Candidate, Decision, DecisionCode, Excluded, ExclusionReason, Health, Inputs, OutputSpread, Prediction, RouteError,
    Saving, ScoreTerm, ScoreTerms, ScoreUnit,
};
pub use detail::{ExclusionDetail, FailureCause};
pub use generation::{ApiType, Finish, Generation, GenerationStatus};
pub use id::{EndpointId, GenerationId, ModelId, ModelIdFault, ProviderSlug};
pub use invalid::{Invalid, InvalidReason, PromptFault};
pub use modality::{Modalities, Modality};
pub use money::{Price, Usd, UsdFault};
pub use objective::{Objective, Weights};
pub use omitted::OmittedCandidates;
pub use parameter::{ParameterNames, ParameterSet, TooManyParameters};
pub use pattern::{ModelPattern, PatternFault};
pub use policy::{
    BalancedPolicy, BreakerPolicy, HedgePolicy, PhaseClocks, RetryPolicy, RoutingPolicy, StatsPolicy, StickyPolicy,
    TargetPolicy,
};
pub use preference::{Percentile, PreferenceFault};
pub use query::{
    DataCollection, Needs, Preference, PriceCeiling, ProviderPolicy, Query, RoutingParameters, Source, Sourced,
};
pub use spelling::{letters_apart, nearest};
pub use tick::Tick;
pub use usage::{CostBreakdown, Pricing, Usage};
pub use what_if::{Circuit, EndpointOverride, PriceOverride, WhatIf};
