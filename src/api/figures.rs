//! What has been measured, as the introspection shows it.

use super::condition::Condition;

/// The measurements of every endpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    /// By position in the catalog.
    pub(crate) endpoints: Vec<EndpointFigures>,
}

impl Figures {
    pub(crate) fn endpoint(&self, position: u32) -> Option<&EndpointFigures> {
        self.endpoints.get(position as usize)
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EndpointFigures {
    pub(crate) condition: Condition,
    pub(crate) uptime_5m: Option<f64>,
    pub(crate) uptime_30m: Option<f64>,
    pub(crate) uptime_1d: Option<f64>,
    /// Seconds.
    pub(crate) first_token: Option<Quantiles>,
    /// Tokens per second.
    pub(crate) throughput: Option<Quantiles>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p75: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
}
