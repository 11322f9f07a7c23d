//! Tools of a namespace under one flat name, and the way back. Only this API has namespaces.

use std::collections::HashMap;

use crate::neutral::NameRules;

/// Between a namespace and a name.
const SEPARATOR: &str = "__";
/// Names of functions as chat takes them.
const FLAT: NameRules = NameRules { extra: "_-.:/", begins_with_letter: false, max: 128 };

/// The flat names of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Namespaces {
    /// Flat names by namespace, then by name.
    flat: HashMap<String, HashMap<String, String>>,
    /// Namespace and name by flat name.
    original: HashMap<String, (String, String)>,
}

impl Namespaces {
    /// The flat name of a function in a namespace: the same for its declaration and its calls, and another one for every
    /// other function. `taken`: whether a name has another meaning already.
    pub(super) fn flat(&mut self, namespace: &str, name: &str, taken: impl Fn(&str) -> bool) -> String {
        if let Some(known) = self.flat.get(namespace).and_then(|names| names.get(name)) {
            return known.clone();
        }
        // Some clients end their namespaces with the separator.
        let separator = if namespace.ends_with(SEPARATOR) { "" } else { SEPARATOR };
        let plain = FLAT.fitting(&format!("{namespace}{separator}{name}"));
        let is_taken = |flat: &str| taken(flat) || self.original.contains_key(flat);
        // The namespace tells it from all others with the same plain name, so that the first of these is nearly always free.
        let others = (2_u32..).map(|number| FLAT.fitting(&format!("{plain}#{number}#{namespace}")));
        let flat = std::iter::once(plain.clone()).chain(others).find(|flat| !is_taken(flat)).unwrap_or_default();
        self.original.insert(flat.clone(), (namespace.to_owned(), name.to_owned()));
        self.flat.entry(namespace.to_owned()).or_default().insert(name.to_owned(), flat.clone());
        flat
    }

    /// Namespace and name of a flat name, if it is one.
    pub(super) fn original(&self, flat: &str) -> Option<(&str, &str)> {
        let (namespace, name) = self.original.get(flat)?;
        Some((namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_name_is_found_again_and_never_stands_for_two_functions() {
        let mut namespaces = Namespaces::default();
        let free = |_: &str| false;
        assert_eq!(namespaces.flat("github", "get", free), "github__get");
        assert_eq!(namespaces.flat("mcp__fs__", "read", free), "mcp__fs__read");
        let other = namespaces.flat("mcp", "fs__read", free);
        assert_ne!(other, "mcp__fs__read");
        let declared = namespaces.flat("a", "b", |name| name == "a__b");
        assert_ne!(declared, "a__b");
        let long = namespaces.flat(&"n".repeat(100), &"m".repeat(100), free);
        assert!(FLAT.fits(&long), "{long}");
        assert_eq!(namespaces.flat("github", "get", free), "github__get");
        assert_eq!(namespaces.original(&other), Some(("mcp", "fs__read")));
        assert_eq!(namespaces.original("github__get"), Some(("github", "get")));
        assert_eq!(namespaces.original("get"), None);
    }

    #[test]
    fn thousands_of_functions_with_the_same_plain_name_are_told_apart_at_the_second_attempt() {
        let mut namespaces = Namespaces::default();
        let attempts = std::cell::Cell::new(0);
        for length in 2..3_002 {
            let (namespace, name) = ("_".repeat(length), "_".repeat(4_000 - length));
            namespaces.flat(&namespace, &name, |_| {
                attempts.set(attempts.get() + 1);
                false
            });
        }
        assert!(attempts.get() <= 6_100, "{attempts:?}");
        assert_eq!(namespaces.original.len(), 3_000);
    }

    #[test]
    fn a_hundred_thousand_functions_are_named_without_a_look_at_all_others() {
        let mut namespaces = Namespaces::default();
        for number in 0..100_000 {
            let name = number.to_string();
            assert_eq!(namespaces.flat("n", &name, |_| false), format!("n__{name}"));
        }
    }
}
