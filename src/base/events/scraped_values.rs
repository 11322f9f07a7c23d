//! What others keep, read when `/metrics` is scraped. Every scrape makes these families anew, so that two scrapes at once do
//! not see each other's half.

use prometheus::{
    Error, GaugeVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, proto::MetricFamily,
};

use super::PREFIX;
use crate::base::{load_reading::LoadReading, log_output};

/// Values that are read when `/metrics` is requested.
pub struct ScrapedValues<'a> {
    /// Inference calls in progress.
    pub in_flight: u32,
    /// Most of them; `None` without a limit.
    pub most_in_flight: Option<u32>,
    /// Calls that wait for an endpoint to take requests again.
    pub waiting: usize,
    /// Batches that wait in the mailbox of the health actor.
    pub health_depth: usize,
    /// Batches that wait in the mailbox of the ledger.
    pub ledger_depth: usize,
    /// Events dropped because the event buffer of a worker was full, since the start.
    pub dropped_events: u64,
    /// Renderings of the live feed.
    pub live_renderings: u64,
    /// Records dropped because all event buffers were full, since the start.
    pub dropped_records: u64,
    /// Bytes, connections and refusals.
    pub load: LoadReading,
    /// Most buffered bytes.
    pub most_buffered_bytes: usize,
    /// Labels of the endpoints, and whether each is silent now.
    pub silence: Vec<([&'a str; 2], bool)>,
    /// Enabled providers: slug, permits in use, limit.
    pub providers: Vec<(&'a str, usize, usize)>,
    /// Keys, accounts and teams with a limit on spending.
    pub budgets: Vec<LimitedHolder<'a>>,
    /// Age of the oldest price of each provider whose prices are dated, in seconds.
    pub price_ages: Vec<(&'a str, f64)>,
}

/// A key, an account or a team with a limit on spending.
pub struct LimitedHolder<'a> {
    /// `key`, `account` or `team`.
    pub kind: &'static str,
    /// Its name.
    pub name: &'a str,
    /// What is left, in dollars.
    pub left: f64,
    /// The limit, in dollars.
    pub limit: f64,
}

/// Kinds of holders of a limit on spending.
const HOLDERS: [&str; 3] = ["key", "account", "team"];

impl ScrapedValues<'_> {
    /// The families of all values.
    pub(super) fn families(&self) -> Result<Vec<MetricFamily>, Error> {
        let registry = Registry::new_custom(Some(PREFIX.to_owned()), None)?;
        self.add_load(&Families(&registry))?;
        self.add_by_label(&Families(&registry))?;
        Ok(registry.gather())
    }

    fn add_load(&self, families: &Families<'_>) -> Result<(), Error> {
        families.gauge("in_flight_requests", "Inference calls in progress", i64::from(self.in_flight))?;
        let most = self.most_in_flight.map_or(0, i64::from);
        families.gauge("concurrency_limit", "Most inference calls in progress; 0: no limit", most)?;
        let waiting = "Calls that wait for an endpoint to take requests again";
        families.gauge("waiting_calls", waiting, value(self.waiting))?;
        let bytes = "Buffered bytes of answers and of request bodies, counted three times each";
        families.gauge("buffered_body_bytes", bytes, value(self.load.buffered_bytes))?;
        families.gauge("buffered_body_limit_bytes", "Most of these bytes", value(self.most_buffered_bytes))?;
        families.gauge("client_connections", "Client connections", value(self.load.connections))?;
        let events = "Statistics events dropped because an event buffer was full";
        families.counter("dropped_events_total", events, self.dropped_events)?;
        let renderings = "Renderings of the live feed, each for all its subscribers";
        families.counter("live_renderings_total", renderings, self.live_renderings)?;
        let lines = "Log lines dropped because their writer was behind";
        families.counter("log_lines_dropped_total", lines, log_output::dropped())?;
        let records = "Records of generations dropped because an event buffer was full";
        families.counter("dropped_records_total", records, self.dropped_records)
    }

    fn add_by_label(&self, families: &Families<'_>) -> Result<(), Error> {
        let shed = "Calls refused because a limit of the gateway was reached";
        let shed = families.counters("shed_requests_total", shed, &["reason"])?;
        for (why, count) in self.load.shed {
            shed.with_label_values(&[why.as_str()]).inc_by(count);
        }
        let depth =
            families.gauges("mailbox_depth", "Batches waiting in the mailbox of a control actor", &["actor"])?;
        depth.with_label_values(&["health"]).set(value(self.health_depth));
        depth.with_label_values(&["ledger"]).set(value(self.ledger_depth));
        let silent = "1 while an endpoint counts as silent because of its unanswered requests";
        let silent = families.gauges("endpoint_silent", silent, &["provider", "model"])?;
        for (labels, is_silent) in &self.silence {
            // Two variants of one pair share a series: silent if one of them is.
            let gauge = silent.with_label_values(labels);
            gauge.set(gauge.get().max(i64::from(*is_silent)));
        }
        let most = families.gauges("provider_places", "Concurrency limit of a provider", &["provider"])?;
        let taken = families.gauges("provider_places_taken", "Calls in progress at a provider", &["provider"])?;
        for (provider, in_use, limit) in &self.providers {
            most.with_label_values(&[*provider]).set(value(*limit));
            taken.with_label_values(&[*provider]).set(value(*in_use));
        }
        for kind in HOLDERS {
            let limit =
                format!("Limit on the spending of {} {kind} in its period", if kind == "account" { "an" } else { "a" });
            let limits = families.floats(&format!("{kind}_budget_usd"), &limit, kind)?;
            let left = "What is left of it; reserved amounts are not";
            let left = families.floats(&format!("{kind}_budget_left_usd"), left, kind)?;
            for holder in self.budgets.iter().filter(|holder| holder.kind == kind) {
                limits.with_label_values(&[holder.name]).set(holder.limit);
                left.with_label_values(&[holder.name]).set(holder.left);
            }
        }
        let ages = families.floats("price_age_seconds", "Age of the oldest dated price of a provider", "provider")?;
        for (provider, age) in &self.price_ages {
            ages.with_label_values(&[*provider]).set(*age);
        }
        Ok(())
    }
}

/// Adds families to a registry.
struct Families<'r>(&'r Registry);

impl Families<'_> {
    fn gauge(&self, name: &str, help: &str, value: i64) -> Result<(), Error> {
        let gauge = IntGauge::new(name, help)?;
        gauge.set(value);
        self.0.register(Box::new(gauge))
    }

    fn counter(&self, name: &str, help: &str, value: u64) -> Result<(), Error> {
        let counter = IntCounter::new(name, help)?;
        counter.inc_by(value);
        self.0.register(Box::new(counter))
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
        self.0.register(Box::new(counters.clone())).map(|()| counters)
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, Error> {
        let gauges = IntGaugeVec::new(Opts::new(name, help), labels)?;
        self.0.register(Box::new(gauges.clone())).map(|()| gauges)
    }

    fn floats(&self, name: &str, help: &str, label: &str) -> Result<GaugeVec, Error> {
        let gauges = GaugeVec::new(Opts::new(name, help), &[label])?;
        self.0.register(Box::new(gauges.clone())).map(|()| gauges)
    }
}

fn value(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
