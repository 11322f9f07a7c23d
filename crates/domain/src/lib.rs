//! Types that all other crates share: ids, money, catalog, query, decision, generation record. Plain values without
//! clock, randomness or I/O.
//!
//! Nothing here knows JSON, HTTP or actix. What is in a record of the ledger, a catalog or a policy derives serde for that alone: its
//! members are stored in their order, and names never leave the process. Wire formats are in `pointsman_dialect` and beside the handlers of the
//! server.

mod alias_split;
mod api_type;
#[deny(clippy::float_arithmetic)]
mod attempt_record;
mod capability;
mod cascade;
mod catalog;
mod catalog_defaults;
mod chat_habits;
mod circuit;
mod conversation;
mod days;
mod decision;
mod dialect;
mod effort_budgets;
mod event;
mod exclusion;
mod failure;
#[deny(clippy::float_arithmetic)]
mod generation;
mod id;
mod invalid;
mod modality;
mod money;
mod named;
mod objective;
mod parameter;
mod pattern;
mod policy;
mod prediction;
mod preference;
#[deny(clippy::float_arithmetic)]
mod price_tier;
mod quality;
mod query;
mod reasoning_format;
mod recorded_gate;
mod reopens;
mod request_facts;
mod score_terms;
mod service_prices;
mod service_tier;
mod shadow;
mod similar_names;
pub mod simulated;
#[deny(clippy::float_arithmetic)]
mod spending;
mod taken_split;
mod task_class;
mod tick;
#[deny(clippy::float_arithmetic)]
mod tiered_prices;
mod trace_parent;
#[deny(clippy::float_arithmetic)]
mod usage;
mod what_if;

pub use alias_split::{AliasSplit, Canary, Guardrail, SplitPart, SplitRule, SplitShare, StickyBy};
pub use api_type::ApiType;
pub use attempt_record::{AttemptReason, AttemptRecord};
pub use capability::{Capability, CapabilitySet};
pub use cascade::{BrokenAnswer, Cascade, CascadeSignal};
pub use catalog::{
    Alias, Architecture, Catalog, CatalogFault, DefaultParameters, Endpoint, EndpointLimits, Model, Provider,
    ProviderState, Resolved, Target,
};
pub use chat_habits::{AddedMember, AddedMembers, ReasoningHistory};
pub use circuit::Circuit;
pub use conversation::{PromptPrefix, SessionOpening, StickyEndpoint};
pub use decision::{
    CacheSaving, Candidate, Decision, DecisionCode, EndpointHealth, OutputCostSpread, QualityBaseline, RouteError,
    ScoreInputs,
};
pub use dialect::{Dialect, Platform};
pub use effort_budgets::EffortBudgets;
pub use event::{EndpointEvent, EventKind, GateEvent};
pub use exclusion::{ExcludedEndpoint, ExclusionDetail, ExclusionReason, MAX_COST, QualityShortfall, rough_time};
pub use failure::{Blame, Evidence, Failure, FailureCause, FailureKind, Finding, Next};
pub use generation::{FinishReason, Generation, GenerationStatus, Waited};
pub use id::{EndpointId, GenerationId, ModelId, ModelIdFault, ProviderSlug};
pub use invalid::{Invalid, InvalidReason, PromptFault};
pub use modality::{Modalities, Modality};
pub use money::{Price, Usd, UsdFault, grouped, shown_dollars};
pub use objective::{Objective, Weights};
pub use parameter::{ParameterNames, ParameterSet, TooManyParameters};
pub use pattern::{ModelPattern, PatternFault};
pub use policy::{
    BreakerPolicy, HedgePolicy, PhaseClocks, RetryPolicy, RoutingPolicy, StatsPolicy, StickyPolicy, TargetPolicy,
};
pub use prediction::Prediction;
pub use preference::{Percentile, Preference, PreferenceFault};
pub use price_tier::PriceTier;
pub use quality::{Quality, QualityFloor, QualityScore, QualityScores, RatingSource, UnknownQuality};
pub use query::{
    DataCollection, Exploration, LostParameter, NativeFeature, Needs, PriceCeiling, ProviderPolicy, Query,
    RoutingParameters, Source, Sourced,
};
pub use reasoning_format::ReasoningFormat;
pub use recorded_gate::{GateState, RecordedGate};
pub use reopens::Reopens;
pub use request_facts::RequestFacts;
pub use score_terms::{ScoreTerm, ScoreTerms, ScoreUnit};
pub use service_tier::{RequestedService, ServedService, ServiceName, ServicePreference};
pub use shadow::ShadowChoice;
pub use similar_names::{closest_name, listed_names, name_distance, quoted_names};
pub use spending::{ResetPeriod, SpendLimit, SpendingMeter, Spent};
pub use taken_split::TakenSplit;
pub use task_class::{Task, TaskClass, TaskClassSource, TaskFeatures};
pub use tick::Tick;
pub use trace_parent::{ServedTime, TraceParent, is_in_share, span_of, trace_of};
pub use usage::{CostBreakdown, GeographyPrice, Pricing, ServiceTierPrices, Usage};
pub use what_if::{EndpointOverride, PriceOverride, WhatIf};
