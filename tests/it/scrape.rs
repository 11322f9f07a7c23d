//! `/metrics` as read by Prometheus: families with their type, help and series.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::TestGateway;

/// One scrape.
pub(crate) struct Scrape {
    pub(crate) bytes: usize,
    pub(crate) families: BTreeMap<String, Family>,
}

/// One family.
#[derive(Default)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) help: String,
    /// Name of the sample, labels without `le`, value.
    pub(crate) samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

impl Family {
    /// The names of its labels, without `le`.
    pub(crate) fn labels(&self) -> BTreeSet<&str> {
        self.samples.iter().flat_map(|(_, labels, _)| labels.keys().map(String::as_str)).collect()
    }

    /// The values of one label.
    pub(crate) fn values(&self, label: &str) -> BTreeSet<&str> {
        self.samples.iter().filter_map(|(_, labels, _)| labels.get(label).map(String::as_str)).collect()
    }
}

impl Scrape {
    /// Reads `/metrics` now. Fails the test when a line is none of the text format.
    pub(crate) async fn of(gateway: &TestGateway) -> Scrape {
        Scrape::parse(&gateway.get("/metrics").await.text())
    }

    pub(crate) fn parse(text: &str) -> Scrape {
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "HELP", name, help] => families.entry(name.into()).or_default().help = help.into(),
                ["#", "TYPE", name, kind] => families.entry(name.into()).or_default().kind = kind.into(),
                _ => {
                    let (name, mut labels, value) = sample(line);
                    let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
                        let base = name.strip_suffix(end)?;
                        families.get(base).filter(|family| family.kind == "histogram").map(|_| base.to_owned())
                    });
                    labels.remove("le");
                    let family = families.get_mut(&base.unwrap_or_else(|| name.clone()));
                    let family = family.unwrap_or_else(|| panic!("no TYPE before {line}"));
                    family.samples.push((name, labels, value));
                }
            }
        }
        Scrape { bytes: text.len(), families }
    }

    /// The family of this name, without the prefix.
    #[track_caller]
    pub(crate) fn family(&self, name: &str) -> &Family {
        let full = format!("pointsman_{name}");
        self.families.get(&full).unwrap_or_else(|| panic!("{full} is missing: {:?}", self.families.keys()))
    }

    /// The sum over all series with these labels; fails without one. The name may end in `_count` or `_sum`.
    #[track_caller]
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let full = format!("pointsman_{name}");
        let all = self.families.values().flat_map(|family| &family.samples);
        let is_meant = |series: &BTreeMap<String, String>| {
            labels.iter().all(|(label, value)| series.get(*label).is_some_and(|found| found == value))
        };
        let found: Vec<f64> = all.filter(|(n, l, _)| *n == full && is_meant(l)).map(|(_, _, value)| *value).collect();
        assert!(!found.is_empty(), "no {full} with {labels:?}");
        found.iter().sum()
    }

    /// All series as text without values.
    pub(crate) fn series(&self) -> BTreeSet<String> {
        let samples = self.families.values().flat_map(|family| &family.samples);
        samples.map(|(name, labels, _)| format!("{name} {labels:?}")).collect()
    }
}

/// Name, labels and value of a line such as `name{a="b"} 1`.
fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let Some((name, labels)) = series.split_once('{') else { return (series.to_owned(), BTreeMap::new(), value) };
    let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("open labels: {line}"));
    let labels = labels.strip_suffix('"').unwrap_or_else(|| panic!("an open label: {line}")).split("\",");
    let pairs = labels.map(|label| label.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}")));
    (name.to_owned(), pairs.map(|(label, value)| (label.to_owned(), value.to_owned())).collect(), value)
}
