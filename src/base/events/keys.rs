//! Series per key. Names become labels: those of the configuration first, then those of issued keys, and beyond a bound keys
//! count as `other`. A key that was just issued gets its label when the metrics are read next.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use arc_swap::ArcSwap;
use prometheus::{
    CounterVec, IntCounterVec,
    core::{Collector, MetricVec, MetricVecBuilder},
};

use super::instruments::Instruments;

/// Most keys with a label of their own.
pub(crate) const MOST_KEYS: usize = 200;
/// Label of all other keys. No key of the configuration can have this name twice; one that has it shares the series.
const OTHER: &str = "other";
/// Classes of statuses.
const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// Series per key.
pub(super) struct KeyMetrics {
    requests: IntCounterVec,
    cost: CounterVec,
    /// Labels by number of the key.
    labels: ArcSwap<BTreeMap<u64, Arc<str>>>,
}

impl KeyMetrics {
    pub(super) fn new(make: &Instruments<'_>) -> Result<KeyMetrics, prometheus::Error> {
        Ok(KeyMetrics {
            requests: make.counters(
                "key_requests_total",
                "Answered calls with a valid key; keys beyond the first 200 are key=\"other\"",
                &["key", "status_class"],
            )?,
            cost: make.dollars_by(
                "key_cost_usd_total",
                "Dollars charged to a key, lost and failed attempts included; unknown prices are not",
                &["key"],
            )?,
            labels: ArcSwap::default(),
        })
    }

    /// As [`KeyMetrics::adopt`], but does nothing if these are the keys that have series.
    pub(super) fn adopt_if_changed(&self, keys: impl Iterator<Item = (u64, Arc<str>)>) {
        let labels: BTreeMap<u64, Arc<str>> = keys.take(MOST_KEYS).collect();
        if **self.labels.load() != labels {
            self.adopt(labels.into_iter());
        }
    }

    /// Creates the series of these keys, given by number and name, and removes those of others.
    pub(super) fn adopt(&self, keys: impl Iterator<Item = (u64, Arc<str>)>) {
        let labels: BTreeMap<u64, Arc<str>> = keys.take(MOST_KEYS).collect();
        let mut names: HashSet<&str> = labels.values().map(|name| &**name).collect();
        names.insert(OTHER);
        for name in &names {
            let _ = self.cost.with_label_values(&[*name]);
            for class in CLASSES {
                let _ = self.requests.with_label_values(&[*name, class]);
            }
        }
        retain(&self.requests, &names);
        retain(&self.cost, &names);
        self.labels.store(Arc::new(labels));
    }

    pub(super) fn count_request(&self, key: u64, status: u16) {
        let class = usize::from(status / 100).checked_sub(2).and_then(|at| CLASSES.get(at));
        if let Some(class) = class {
            self.requests.with_label_values(&[self.label(key).as_str(), class]).inc();
        }
    }

    pub(super) fn count_cost(&self, key: u64, dollars: f64) {
        if dollars > 0.0 {
            self.cost.with_label_values(&[self.label(key).as_str()]).inc_by(dollars);
        }
    }

    fn label(&self, key: u64) -> Label {
        Label(self.labels.load().get(&key).map(Arc::clone))
    }
}

/// Label of a key.
struct Label(Option<Arc<str>>);

impl Label {
    fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or(OTHER)
    }
}

/// Removes the series of all keys that are not named.
fn retain<B: MetricVecBuilder>(metric: &MetricVec<B>, names: &HashSet<&str>)
where
    MetricVec<B>: Collector,
{
    for family in metric.collect() {
        for series in family.get_metric() {
            let labels: HashMap<&str, &str> =
                series.get_label().iter().map(|label| (label.name(), label.value())).collect();
            if labels.get("key").is_some_and(|key| !names.contains(key)) {
                let _ = metric.remove(&labels);
            }
        }
    }
}
