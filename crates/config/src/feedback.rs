//! `[feedback]`: ratings of answers.

use std::collections::BTreeMap;

use super::{section::Section, tree::Value};

/// Most labels, and the longest of them, in characters.
const MOST_LABELS: usize = 64;
const LONGEST_LABEL: usize = 32;
const LABELS: &str = "names of 1 to 32 letters, digits, '-' and '_', each with a number from 0 to 1";

settings! {
    /// Ratings of answers, which clients send with `POST /api/v1/generations/{id}/feedback`. See
    /// [POLICY.md](POLICY.md#feedback).
    #[derive(Debug, Clone, PartialEq)]
    pub struct FeedbackConfig read(section) {
        /// What labels stand for, such as `{ resolved = 1, escalated = 0 }`: how acceptable an answer is that is rated with
        /// one, 0 to 1.
        pub labels: BTreeMap<String, f64> = with(labels) [kind = "table of numbers", absent = "none", allowed = "at most 64"],
        /// Largest share of the evidence about a model that one account may have, where several use it. With 1 whoever rates
        /// most decides.
        pub max_share: f64 = number_or(0.01..=1.0, 0.25),
    }
}

fn labels(section: &Section<'_>, key: &'static str) -> BTreeMap<String, f64> {
    let Some(value) = section.any(key) else { return BTreeMap::new() };
    let Value::Table(table) = value else {
        section.fault(key, format!("got {}", value.kind()), LABELS);
        return BTreeMap::new();
    };
    if table.entries.len() > MOST_LABELS {
        section.fault(key, format!("has {} entries", table.entries.len()), format!("at most {MOST_LABELS}"));
    }
    let labels = table.entries.iter().filter_map(|entry| {
        let name = &entry.key;
        let is_name = (1..=LONGEST_LABEL).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let number = entry.node.number().filter(|number| is_name && (0.0..=1.0).contains(number));
        if number.is_none() {
            section.fault(key, format!("has the entry '{name}'"), LABELS);
        }
        Some((name.clone(), number?))
    });
    labels.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Config, Environment};

    #[test]
    fn a_label_is_a_name_with_a_number_from_0_to_1() {
        let read = |labels: &str| {
            let toml = format!("[feedback.labels]\n{labels}");
            Config::parse(&toml, "test", Path::new("."), &Environment::default()).map(|config| config.feedback.labels)
        };
        let known = read("resolved = 1\nescalated = 0.0\n").unwrap();
        assert_eq!(
            known.into_iter().collect::<Vec<_>>(),
            [("escalated".to_owned(), 0.0), ("resolved".to_owned(), 1.0)]
        );
        for wrong in ["half = 1.5", "half = nan", "half = \"0.5\"", "\"two words\" = 1", "\"\" = 1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
