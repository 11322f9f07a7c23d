//! Creates metrics and registers them for `/metrics`.

use prometheus::{
    Counter, CounterVec, Error, Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, core::Collector,
};

/// Creates metrics in one registry. Errors are duplicate or invalid names.
pub(super) struct Instruments<'r>(pub(super) &'r Registry);

impl Instruments<'_> {
    pub(super) fn counter(&self, name: &str, help: &str) -> Result<IntCounter, Error> {
        self.register(IntCounter::new(name, help)?)
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// A sum of dollars as a float, for graphs. The ledger has the exact amounts.
    pub(super) fn dollars(&self, name: &str, help: &str) -> Result<Counter, Error> {
        self.register(Counter::new(name, help)?)
    }

    /// The same by labels.
    pub(super) fn dollars_by(&self, name: &str, help: &str, labels: &[&str]) -> Result<CounterVec, Error> {
        self.register(CounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, Error> {
        self.register(IntGauge::new(name, help)?)
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, Error> {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// A time in Unix seconds.
    pub(super) fn timestamp(&self, name: &str, help: &str) -> Result<Gauge, Error> {
        self.register(Gauge::new(name, help)?)
    }

    /// A histogram of durations, with these buckets in seconds.
    pub(super) fn times(&self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, Error> {
        self.register(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?)
    }

    /// The same by labels.
    pub(super) fn times_by(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: &[f64],
    ) -> Result<HistogramVec, Error> {
        let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register(HistogramVec::new(options, labels)?)
    }

    fn register<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C, Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }
}
