//! Series per key. Names become labels: those of the configuration first, then those of issued keys, and beyond a bound keys
//! count as `other`. A key that was just issued gets its label when the metrics are read next.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;
use prometheus::{Counter, CounterVec, IntCounter, IntCounterVec};

use super::{endpoints, instruments::Instruments};

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
    /// By number of the key.
    by_key: ArcSwap<BTreeMap<u64, KeySeries>>,
    other: KeySeries,
}

/// The series of one label.
struct KeySeries {
    name: Arc<str>,
    /// By class of status.
    requests: [IntCounter; CLASSES.len()],
    cost: Counter,
}

impl KeySeries {
    fn new(name: Arc<str>, requests: &IntCounterVec, cost: &CounterVec) -> KeySeries {
        KeySeries {
            requests: CLASSES.map(|class| requests.with_label_values(&[&*name, class])),
            cost: cost.with_label_values(&[&*name]),
            name,
        }
    }
}

impl KeyMetrics {
    pub(super) fn new(make: &Instruments<'_>) -> Result<KeyMetrics, prometheus::Error> {
        let requests = make.counters(
            "key_requests_total",
            "Answered calls with a valid key; keys beyond the first 200 are key=\"other\"",
            &["key", "status_class"],
        )?;
        let cost = make.dollars_by(
            "key_cost_usd_total",
            "Dollars charged to a key, lost and failed attempts included; unknown prices are not",
            &["key"],
        )?;
        let other = KeySeries::new(OTHER.into(), &requests, &cost);
        Ok(KeyMetrics { requests, cost, by_key: ArcSwap::default(), other })
    }

    /// As [`KeyMetrics::adopt`], but does nothing if these are the keys that have series.
    pub(super) fn adopt_if_changed(&self, keys: impl Iterator<Item = (u64, Arc<str>)>) {
        let names: BTreeMap<u64, Arc<str>> = keys.take(MOST_KEYS).collect();
        let is_same = names.iter().eq(self.by_key.load().iter().map(|(key, series)| (key, &series.name)));
        if !is_same {
            self.adopt(names.into_iter());
        }
    }

    /// Creates the series of these keys, given by number and name, and removes those of others.
    pub(super) fn adopt(&self, keys: impl Iterator<Item = (u64, Arc<str>)>) {
        let series = |(key, name)| (key, KeySeries::new(name, &self.requests, &self.cost));
        let by_key: BTreeMap<u64, KeySeries> = keys.take(MOST_KEYS).map(series).collect();
        let names = by_key.values().chain([&self.other]).map(|series| [&*series.name]).collect();
        endpoints::retain(&self.requests, ["key"], &names);
        endpoints::retain(&self.cost, ["key"], &names);
        self.by_key.store(Arc::new(by_key));
    }

    pub(super) fn count_request(&self, key: u64, status: u16) {
        if let Some(class) = usize::from(status / 100).checked_sub(2) {
            self.of(key, |series| series.requests.get(class).into_iter().for_each(IntCounter::inc));
        }
    }

    pub(super) fn count_cost(&self, key: u64, dollars: f64) {
        if dollars > 0.0 {
            self.of(key, |series| series.cost.inc_by(dollars));
        }
    }

    fn of(&self, key: u64, count: impl FnOnce(&KeySeries)) {
        count(self.by_key.load().get(&key).unwrap_or(&self.other));
    }
}
