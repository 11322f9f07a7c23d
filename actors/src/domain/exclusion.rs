use std::{fmt, sync::Arc, time::Duration};

use super::{failure::FailureCause, id::EndpointId, modality::Modality, money::Usd, pattern::ModelPattern};

/// An endpoint of the pool that may not serve the request.
#[derive(Debug, Clone, PartialEq)]
pub struct ExcludedEndpoint {
    /// Its position among the endpoints of the catalog version of the decision.
    pub index: u32,
    /// Its stable id.
    pub endpoint: EndpointId,
    /// Why.
    pub reason: ExclusionReason,
    /// The figure or pattern that decided; its `Display` is for a human.
    pub detail: ExclusionDetail,
}

/// Why an endpoint may not serve. The vocabulary of preview, explain and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExclusionReason {
    /// No allowed list names the model.
    NotAllowedModel,
    /// A blocked list names the model.
    BlockedModel,
    /// `provider.only` does not name the provider.
    ProviderNotAllowed,
    /// `provider.ignore` names the provider.
    ProviderIgnored,
    /// The free pool was asked for and the model costs something.
    NotFree,
    /// A required parameter is not supported.
    UnsupportedParameter,
    /// An input kind is not taken.
    InputModality,
    /// An output kind is not given.
    OutputModality,
    /// Prompt and output do not fit.
    ContextLength,
    /// Above `provider.max_price` or `max_cost`.
    MaxPrice,
    /// Above `max_cost_per_1k_tokens`.
    MaxCostPer1kTokens,
    /// The provider's data policy.
    DataPolicy,
    /// Another quantization.
    Quantization,
    /// The key may not use it.
    KeyPolicy,
    /// Retired.
    ModelExpired,
    /// Switched off in the configuration.
    Disabled,
    /// Its provider is off.
    ProviderOff,
    /// Our account or model name at the provider is wrong.
    ConfigFault,
    /// Its breaker is open.
    CircuitOpen,
    /// Its one probe is out.
    ProbeInFlight,
    /// Cooling after a 429.
    RateLimited,
    /// Admission is paced after 429s.
    Paced,
    /// More in flight than it serves well.
    Saturated,
    /// The model belongs to another endpoint of the API.
    WrongEndpoint,
    /// The gateway is shutting down.
    Draining,
}

impl ExclusionReason {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ExclusionReason::NotAllowedModel => "not_allowed_model",
            ExclusionReason::BlockedModel => "blocked_model",
            ExclusionReason::ProviderNotAllowed => "provider_not_allowed",
            ExclusionReason::ProviderIgnored => "provider_ignored",
            ExclusionReason::NotFree => "not_free",
            ExclusionReason::UnsupportedParameter => "unsupported_parameter",
            ExclusionReason::InputModality => "input_modality",
            ExclusionReason::OutputModality => "output_modality",
            ExclusionReason::ContextLength => "context_length",
            ExclusionReason::MaxPrice => "max_price",
            ExclusionReason::MaxCostPer1kTokens => "max_cost_per_1k_tokens",
            ExclusionReason::DataPolicy => "data_policy",
            ExclusionReason::Quantization => "quantization",
            ExclusionReason::KeyPolicy => "key_policy",
            ExclusionReason::ModelExpired => "model_expired",
            ExclusionReason::Disabled => "disabled",
            ExclusionReason::ProviderOff => "provider_off",
            ExclusionReason::ConfigFault => "config_fault",
            ExclusionReason::CircuitOpen => "circuit_open",
            ExclusionReason::ProbeInFlight => "probe_in_flight",
            ExclusionReason::RateLimited => "rate_limited",
            ExclusionReason::Paced => "paced",
            ExclusionReason::Saturated => "saturated",
            ExclusionReason::WrongEndpoint => "wrong_endpoint",
            ExclusionReason::Draining => "draining",
        }
    }

    /// Whether time alone may lift it.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        use ExclusionReason::{CircuitOpen, ConfigFault, Paced, ProbeInFlight, RateLimited, Saturated};
        matches!(self, CircuitOpen | ConfigFault | Paced | ProbeInFlight | RateLimited | Saturated)
    }
}

/// The figure or pattern that excluded an endpoint.
///
/// Kept as data, because a decision may exclude hundreds of endpoints and hardly anybody reads why;
/// its [`Display`](fmt::Display) is the text for a human.
#[derive(Debug, Clone, PartialEq)]
pub enum ExclusionDetail {
    /// The reason says everything, or this sentence does.
    Text(&'static str),
    /// The sentence of the configuration, such as why a provider is off.
    Sentence(Box<str>),
    /// This entry of a list of models matched.
    Matches(ModelPattern),
    /// This entry of a list of providers named it.
    Named(Box<str>),
    /// It does not support this parameter.
    Lacks(Arc<str>),
    /// It does not take this kind of input.
    DoesNotTake(Modality),
    /// It does not give this kind of output.
    DoesNotGive(Modality),
    /// So many tokens are needed, so many are there.
    Tokens {
        /// Estimated need.
        needed: u64,
        /// The endpoint's limit.
        limit: u32,
    },
    /// A price above a ceiling.
    Above {
        /// Which price.
        what: &'static str,
        /// What it is.
        price: Usd,
        /// What it may be.
        limit: Usd,
    },
    /// The number format of its weights.
    Quantization(Option<Box<str>>),
    /// It was retired that day.
    Retired(chrono::NaiveDate),
    /// Its breaker is open.
    Open {
        /// How much longer.
        wait: Duration,
        /// Failures in a row.
        failures: u32,
        /// The last of them.
        last: Option<FailureCause>,
    },
    /// It cools after a 429, or as long as it asked for.
    Cooling {
        /// How much longer.
        wait: Duration,
        /// What it answered.
        last: Option<FailureCause>,
    },
    /// Our account or our name for the model is wrong there.
    ConfigFault {
        /// When it is tried again.
        wait: Duration,
        /// What it answered.
        last: Option<FailureCause>,
    },
    /// More in flight than it serves well.
    Saturated {
        /// Requests in flight.
        in_flight: u32,
        /// Its learned knee.
        knee: f64,
    },
    /// Admission is paced.
    Paced {
        /// Until the next request is due.
        wait: Duration,
    },
}

impl ExclusionDetail {
    /// How long what stands in the way will last, from the decision on.
    #[must_use]
    pub const fn wait(&self) -> Option<Duration> {
        match self {
            ExclusionDetail::Open { wait, .. }
            | ExclusionDetail::Cooling { wait, .. }
            | ExclusionDetail::ConfigFault { wait, .. }
            | ExclusionDetail::Paced { wait } => Some(*wait),
            _ => None,
        }
    }
}

impl fmt::Display for ExclusionDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExclusionDetail::Text(text) => f.write_str(text),
            ExclusionDetail::Sentence(text) => f.write_str(text),
            ExclusionDetail::Matches(pattern) => write!(f, "matches {pattern}"),
            ExclusionDetail::Named(entry) => write!(f, "named by '{entry}'"),
            ExclusionDetail::Lacks(name) => write!(f, "does not support '{name}'"),
            ExclusionDetail::DoesNotTake(modality) => write!(f, "does not take {modality}"),
            ExclusionDetail::DoesNotGive(modality) => write!(f, "does not give {modality}"),
            ExclusionDetail::Tokens { needed, limit } => write!(f, "needs about {needed} tokens, has {limit}"),
            ExclusionDetail::Above { what, price, limit } => write!(f, "{what} ${price} above ${limit}"),
            ExclusionDetail::Quantization(Some(format)) => write!(f, "is {format}"),
            ExclusionDetail::Quantization(None) => f.write_str("does not state its quantization"),
            ExclusionDetail::Retired(day) => write!(f, "retired on {day}"),
            ExclusionDetail::Open { wait, failures, last } => open(f, *wait, *failures, *last),
            ExclusionDetail::Cooling { wait, last } => waiting(f, *last, "retry", *wait),
            ExclusionDetail::ConfigFault { wait, last } => waiting(f, *last, "next try", *wait),
            ExclusionDetail::Saturated { in_flight, knee } => {
                write!(f, "saturated: {in_flight} in flight, knee {knee:.0}")
            }
            ExclusionDetail::Paced { wait } => write!(f, "paced, next in {:.1} s", wait.as_secs_f64()),
        }
    }
}

fn open(f: &mut fmt::Formatter<'_>, wait: Duration, failures: u32, last: Option<FailureCause>) -> fmt::Result {
    write!(f, "breaker open {:.1} s more", wait.as_secs_f64())?;
    match (failures, last) {
        (_, None) => Ok(()),
        (0 | 1, Some(cause)) => write!(f, ": {cause}"),
        (_, Some(cause)) => write!(f, ": {failures} consecutive {cause}"),
    }
}

fn waiting(f: &mut fmt::Formatter<'_>, last: Option<FailureCause>, what: &str, wait: Duration) -> fmt::Result {
    match last {
        Some(cause) => write!(f, "{cause}, {what} in {:.1} s", wait.as_secs_f64()),
        None => write!(f, "{what} in {:.1} s", wait.as_secs_f64()),
    }
}
