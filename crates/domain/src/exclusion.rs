use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    failure::{Failure, FailureCause, FailureKind},
    id::EndpointId,
    modality::Modality,
    money::Usd,
    pattern::ModelPattern,
    quality::{Quality, QualityFloor, QualityScore},
    task_class::Task,
};

/// An endpoint of the pool that may not serve the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExcludedEndpoint {
    /// Position of the endpoint in the catalog version of the decision.
    pub index: u32,
    /// Stable id of the endpoint.
    pub endpoint: EndpointId,
    /// Reason of the exclusion.
    pub reason: ExclusionReason,
    /// The figure or pattern that excluded the endpoint. Its `Display` is the text for people.
    pub detail: ExclusionDetail,
}

/// The routing field with the highest cost of a request.
pub const MAX_COST: &str = "max_cost";

impl ExcludedEndpoint {
    /// Name of what excludes the endpoint: that of its reason, or `max_cost`, which has the reason `max_price`.
    pub fn constraint(&self) -> &'static str {
        match &self.detail {
            ExclusionDetail::Above { what, .. } if what == ExclusionDetail::EXPECTED_COST => MAX_COST,
            _ => self.reason.as_str(),
        }
    }
}

crate::named! {
    /// Why an endpoint may not serve a request. Used by previews, explanations and errors.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum ExclusionReason {
        /// No allowed list names the model.
        NotAllowedModel = "not_allowed_model",
        /// A blocked list names the model.
        BlockedModel = "blocked_model",
        /// `provider.only` does not name the provider.
        ProviderNotAllowed = "provider_not_allowed",
        /// `provider.ignore` names the provider.
        ProviderIgnored = "provider_ignored",
        /// The free pool was asked for and the model costs something.
        NotFree = "not_free",
        /// A required parameter is not supported.
        UnsupportedParameter = "unsupported_parameter",
        /// An input modality is not supported.
        InputModality = "input_modality",
        /// An output modality is not supported.
        OutputModality = "output_modality",
        /// Prompt and output do not fit.
        ContextLength = "context_length",
        /// Above `provider.max_price` or `max_cost`.
        MaxPrice = "max_price",
        /// Above `max_cost_per_1k_tokens`.
        MaxCostPer1kTokens = "max_cost_per_1k_tokens",
        /// Its price is unknown, and the request limits or minimises cost.
        PriceUnknown = "price_unknown",
        /// The provider's data policy.
        DataPolicy = "data_policy",
        /// The quantization is not one of those allowed.
        Quantization = "quantization",
        /// Its quality for the class of the task is below `min_quality`.
        QualityBelow = "quality_below",
        /// Nothing is known of its quality for the class of the task, and `min_quality` asks for some.
        QualityUnknown = "quality_unknown",
        /// The key may not use it.
        KeyPolicy = "key_policy",
        /// The model is past its expiration date.
        ModelExpired = "model_expired",
        /// Switched off in the configuration.
        Disabled = "disabled",
        /// Its provider is off.
        ProviderOff = "provider_off",
        /// The configured account or model name at the provider is wrong.
        ConfigFault = "config_fault",
        /// Its breaker is open.
        CircuitOpen = "circuit_open",
        /// Its breaker is half-open and the probe is in flight.
        ProbeInFlight = "probe_in_flight",
        /// Cooldown after a 429.
        RateLimited = "rate_limited",
        /// Admission is paced after 429s.
        Paced = "paced",
        /// More requests in flight than it serves without slowing down.
        Saturated = "saturated",
        /// The model belongs to another endpoint of the API.
        WrongEndpoint = "wrong_endpoint",
        /// The gateway is shutting down.
        Draining = "draining",
    }
}

impl ExclusionReason {
    /// The number of endpoints per reason, the most frequent first; of equally frequent ones the first declared, because the
    /// caller can rather change that.
    pub fn counts(reasons: impl Iterator<Item = ExclusionReason>) -> Vec<(ExclusionReason, usize)> {
        let mut counts: Vec<(ExclusionReason, usize)> = Vec::new();
        for reason in reasons {
            match counts.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += 1,
                None => counts.push((reason, 1)),
            }
        }
        counts.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), *reason));
        counts
    }

    /// Whether the exclusion may end by itself after some time.
    #[must_use]
    pub const fn is_passing(self) -> bool {
        use ExclusionReason::{CircuitOpen, ConfigFault, Paced, ProbeInFlight, RateLimited, Saturated};
        matches!(self, CircuitOpen | ConfigFault | Paced | ProbeInFlight | RateLimited | Saturated)
    }
}

/// The figure or pattern that excluded an endpoint.
///
/// Stored as data, because a decision may exclude hundreds of endpoints and the text is rarely needed.
/// [`Display`](fmt::Display) renders the text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ExclusionDetail {
    /// A fixed text; empty when the reason is sufficient.
    Text(Cow<'static, str>),
    /// A text from the configuration, such as why a provider is off.
    Sentence(Box<str>),
    /// This entry of a list of models matched.
    Matches(ModelPattern),
    /// This entry of a list of providers matched.
    Named(Box<str>),
    /// The endpoint does not support this parameter.
    Lacks(Arc<str>),
    /// The endpoint does not accept this input modality.
    DoesNotTake(Modality),
    /// The endpoint does not produce this output modality.
    DoesNotGive(Modality),
    /// The request needs more tokens than the endpoint allows.
    Tokens {
        /// Estimated need.
        needed: u64,
        /// The endpoint's limit.
        limit: u32,
    },
    /// A price is above its ceiling.
    Above {
        /// Which price.
        what: Cow<'static, str>,
        /// The price.
        price: Usd,
        /// The ceiling.
        limit: Usd,
    },
    /// The quantization of the endpoint.
    Quantization(Option<Box<str>>),
    /// The quality is below what is asked for.
    Quality(Box<QualityShortfall>),
    /// There is neither a score nor a rating for this class.
    NoQuality(Task),
    /// The model expired on this day.
    Retired(#[serde(with = "super::days")] chrono::NaiveDate),
    /// The breaker is open.
    Open {
        /// Time until the breaker admits a probe.
        wait: Duration,
        /// Consecutive failures.
        failures: u32,
        /// The last failure.
        last: Option<FailureCause>,
    },
    /// Cooldown after a 429 or for the time of `Retry-After`.
    Cooling {
        /// Remaining cooldown.
        wait: Duration,
        /// The last failure.
        last: Option<FailureCause>,
    },
    /// The same for a `Retry-After` that was longer than any that is heeded.
    Shortened {
        /// Remaining cooldown.
        wait: Duration,
        /// The last failure.
        last: Option<FailureCause>,
        /// The wait that the provider told.
        told: Duration,
    },
    /// The configured account or model name at the provider is wrong.
    ConfigFault {
        /// Time until the next attempt.
        wait: Duration,
        /// The last failure.
        last: Option<FailureCause>,
    },
    /// More requests in flight than the endpoint serves without slowing down.
    Saturated {
        /// Requests in flight.
        in_flight: u32,
        /// Learned number of requests above which latency rises.
        knee: f64,
    },
    /// Requests to the endpoint are spaced out after 429s.
    Paced {
        /// Time until the next request is admitted.
        wait: Duration,
    },
}

/// A quality below `min_quality`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QualityShortfall {
    /// Class of the task.
    pub task: Task,
    /// The quality.
    pub quality: Quality,
    /// What is asked for.
    pub floor: QualityFloor,
    /// The score behind it; `None` where there are ratings alone.
    pub score: Option<QualityScore>,
}

impl QualityShortfall {
    /// The figure that is compared, and the least that is allowed.
    pub const fn figures(&self) -> (f64, f64) {
        self.floor.figures(&self.quality)
    }
}

impl ExclusionDetail {
    /// What is above `max_cost`. Other prices have the ceiling `provider.max_price`.
    pub const EXPECTED_COST: &'static str = "expected cost";

    /// Remaining time of the exclusion, from the decision on, if it ends by itself.
    pub const fn wait(&self) -> Option<Duration> {
        match self {
            ExclusionDetail::Open { wait, .. }
            | ExclusionDetail::Cooling { wait, .. }
            | ExclusionDetail::Shortened { wait, .. }
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
            ExclusionDetail::Above { what, price, limit } if what == ExclusionDetail::EXPECTED_COST => {
                write!(f, "{what} ${price} above max_cost ${limit}")
            }
            ExclusionDetail::Above { what, price, limit } => write!(f, "{what} ${price} above ${limit}"),
            ExclusionDetail::Quantization(Some(format)) => write!(f, "is {format}"),
            ExclusionDetail::Quantization(None) => f.write_str("does not state its quantization"),
            ExclusionDetail::Quality(shortfall) => shortfall.fmt(f),
            ExclusionDetail::NoQuality(task) => {
                let task = task.as_str();
                write!(f, "no score for {task}; quality_unknown = \"allow\" would let it in")
            }
            ExclusionDetail::Retired(day) => write!(f, "retired on {day}"),
            ExclusionDetail::Open { wait, failures, last } => open(f, *wait, *failures, *last),
            ExclusionDetail::Cooling { wait, last } => waiting(f, *last, "retry", *wait),
            ExclusionDetail::Shortened { wait, last, told } => {
                waiting(f, *last, "retry", *wait)?;
                let taken = Failure::LONGEST_WAIT.as_secs();
                write!(f, ": told to wait {}, taken as {taken} s", rough_time(*told))
            }
            ExclusionDetail::ConfigFault { wait, last } => {
                if let Some(last) = last {
                    let subject = if last.kind == FailureKind::Auth { "key or account" } else { "model" };
                    write!(f, "the provider refuses the gateway's {subject}: ")?;
                }
                waiting(f, *last, "next try", *wait)
            }
            ExclusionDetail::Saturated { in_flight, knee } => {
                write!(f, "saturated: {in_flight} in flight, knee {knee:.0}")
            }
            ExclusionDetail::Paced { wait } => write!(f, "paced, next in {:.1} s", wait.as_secs_f64()),
        }
    }
}

impl fmt::Display for QualityShortfall {
    /// `quality for math 0.52, below 0.7 (board, 2026-03-02, n 500; 38 ratings)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((figure, least), task) = (self.figures(), self.task.as_str());
        let of = if matches!(self.floor, QualityFloor::Tenth(_)) { "lower tenth of " } else { "" };
        write!(f, "{of}quality for {task} {}, below {least} (", (figure * 1e3).round() / 1e3)?;
        match &self.score {
            Some(score) => write!(f, "{score}")?,
            None => f.write_str("no score")?,
        }
        if self.quality.ratings > 0.0 {
            write!(f, "; {:.0} ratings", self.quality.ratings)?;
        }
        f.write_str(")")
    }
}

/// A long time in its largest unit, as in `141 years`.
pub fn rough_time(time: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(31_557_600, "years"), (86_400, "days"), (3_600, "hours"), (60, "minutes")];
    let seconds = time.as_secs();
    let unit = UNITS.into_iter().find(|(unit, _)| seconds >= 2 * unit);
    unit.map_or_else(|| format!("{seconds} s"), |(unit, name)| format!("{} {name}", seconds / unit))
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
