//! Traces in a build without the feature `otel`: there are none.

use std::{convert::Infallible, sync::Arc, time::Duration};

use pointsman_actors::ledger::RecordFollower;
use pointsman_config::TracesConfig;
use pointsman_domain::Generation;

use super::{NamesOf, sampler::Sampler};
use crate::base::events::SpanCounts;

/// Never made.
pub struct Traces(Infallible);

impl Traces {
    /// `None`, with a warning if a collector is configured.
    pub fn start(config: &TracesConfig, _: SpanCounts, _: u64) -> Option<Arc<Traces>> {
        if let Some(collector) = &config.collector {
            log::warn!("no traces are sent to {collector}: this build is without the feature 'otel'");
        }
        None
    }

    /// Never called.
    pub fn name_by(&self, _: NamesOf) {
        match self.0 {}
    }

    /// Never called.
    pub fn sampler(&self) -> &Sampler {
        match self.0 {}
    }

    /// Never called.
    pub async fn close(&self, _: Duration) {
        match self.0 {}
    }
}

impl RecordFollower for Traces {
    fn ended(&self, _: &Arc<Generation>) {
        match self.0 {}
    }
}
