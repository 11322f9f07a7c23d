//! Metrics whose values others keep, read when `/metrics` is scraped.
//!
//! Every scrape makes these families anew, so that two scrapes at once do not see each other's half. Metrics that count over
//! time are made in `instruments.rs`.

use std::collections::BTreeMap;

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

use super::PREFIX;

/// Values of one moment.
pub(crate) struct Families {
    prefix: String,
    families: Vec<MetricFamily>,
}

impl Families {
    /// The families that `add` adds, in the order of their names. A family without rows is left out.
    pub(crate) fn of(add: impl FnOnce(&mut Families)) -> Vec<MetricFamily> {
        Families::with_prefix(format!("{PREFIX}_"), add)
    }

    /// The same with another beginning of all names.
    pub(super) fn with_prefix(prefix: String, add: impl FnOnce(&mut Families)) -> Vec<MetricFamily> {
        let mut all = Families { prefix, families: Vec::new() };
        add(&mut all);
        all.families.sort_by(|one, other| one.name().cmp(other.name()));
        all.families
    }

    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges(name, help, [], [([""; 0], value)]);
    }

    pub(crate) fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.counters(name, help, [], [([""; 0], value)]);
    }

    /// A row for each series: the values of the labels, and that of the gauge.
    pub(crate) fn gauges<const N: usize, L: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&str; N],
        rows: impl IntoIterator<Item = ([L; N], f64)>,
    ) {
        self.add(MetricType::GAUGE, (name, help), labels, rows);
    }

    /// The same of a counter.
    pub(crate) fn counters<const N: usize, L: AsRef<str>>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&str; N],
        rows: impl IntoIterator<Item = ([L; N], f64)>,
    ) {
        self.add(MetricType::COUNTER, (name, help), labels, rows);
    }

    fn add<const N: usize, L: AsRef<str>>(
        &mut self,
        kind: MetricType,
        (name, help): (&str, &str),
        labels: [&str; N],
        rows: impl IntoIterator<Item = ([L; N], f64)>,
    ) {
        // Labels by name, series by the values of their labels; of two rows with equal labels the later one counts.
        let mut series: BTreeMap<Vec<(&str, String)>, f64> = BTreeMap::new();
        for (values, value) in rows {
            let mut labels: Vec<_> = labels.into_iter().zip(values.map(|value| value.as_ref().to_owned())).collect();
            labels.sort_unstable();
            series.insert(labels, value);
        }
        if series.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(format!("{}{name}", self.prefix));
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(series.into_iter().map(|(labels, value)| metric(kind, labels, value)).collect());
        self.families.push(family);
    }
}

fn metric(kind: MetricType, labels: Vec<(&str, String)>, value: f64) -> Metric {
    let pair = |(name, value): (&str, String)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value);
        pair
    };
    let mut metric = Metric::from_label(labels.into_iter().map(pair).collect());
    if kind == MetricType::COUNTER {
        let mut counter = Counter::default();
        counter.set_value(value);
        metric.set_counter(counter);
    } else {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        metric.set_gauge(gauge);
    }
    metric
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn families_and_series_stand_in_order_and_a_family_without_rows_is_left_out() {
        let families = Families::of(|families| {
            families.gauge("waiting", "Calls", 2.0);
            families.gauges::<1, &str>("none", "Nothing", ["of"], []);
            let rows = [(["b", "x"], 1.5), (["a", "y"], 1.0), (["a", "y"], 3.0)];
            families.counters("done_total", "Ends", ["to", "from"], rows);
        });
        expect![[r#"
            # HELP pointsman_done_total Ends
            # TYPE pointsman_done_total counter
            pointsman_done_total{from="x",to="b"} 1.5
            pointsman_done_total{from="y",to="a"} 3
            # HELP pointsman_waiting Calls
            # TYPE pointsman_waiting gauge
            pointsman_waiting 2
        "#]]
        .assert_eq(&TextEncoder::new().encode_to_string(&families).unwrap());
    }
}
