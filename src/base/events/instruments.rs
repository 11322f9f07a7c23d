//! Making metrics: whatever is made here is shown at `/metrics` from then on.

use prometheus::{
    Counter, Error, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    Opts, Registry, core::Collector,
};

/// Makes metrics of one registry. An error is one of the names: two alike, or one that is none.
pub(super) struct Instruments<'r>(pub(super) &'r Registry);

impl Instruments<'_> {
    pub(super) fn counter(&self, name: &str, help: &str) -> Result<IntCounter, Error> {
        self.shown(IntCounter::new(name, help)?)
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        self.shown(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// A sum of dollars as a float: good for a graph, not for a bill. The ledger holds the exact amounts.
    pub(super) fn dollars(&self, name: &str, help: &str) -> Result<Counter, Error> {
        self.shown(Counter::new(name, help)?)
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, Error> {
        self.shown(IntGauge::new(name, help)?)
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, Error> {
        self.shown(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// A moment in Unix seconds.
    pub(super) fn moment(&self, name: &str, help: &str) -> Result<Gauge, Error> {
        self.shown(Gauge::new(name, help)?)
    }

    /// Times in these buckets, seconds.
    pub(super) fn times(&self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, Error> {
        self.shown(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?)
    }

    /// The same per model at a provider.
    pub(super) fn times_of_endpoints(&self, name: &str, help: &str, buckets: &[f64]) -> Result<HistogramVec, Error> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.shown(HistogramVec::new(options, &["provider", "model"])?)
    }

    fn shown<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C, Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}
