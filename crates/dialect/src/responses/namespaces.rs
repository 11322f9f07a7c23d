//! Tools of a namespace under one flat name, and the way back. Only this API has namespaces.

use crate::neutral::NameRules;

/// Between a namespace and a name.
const SEPARATOR: &str = "__";
/// Names of functions as chat takes them.
const FLAT: NameRules = NameRules { extra: "_-.:/", begins_with_letter: false, max: 128 };

/// The flat names of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Namespaces(Vec<Flattened>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Flattened {
    flat: String,
    namespace: String,
    name: String,
}

impl Namespaces {
    /// The flat name of a function in a namespace: the same for its declaration and its calls, and another one for every
    /// other function. `taken`: whether a name has another meaning already.
    pub(super) fn flat(&mut self, namespace: &str, name: &str, taken: impl Fn(&str) -> bool) -> String {
        if let Some(known) = self.0.iter().find(|known| known.namespace == namespace && known.name == name) {
            return known.flat.clone();
        }
        // Some clients end their namespaces with the separator.
        let separator = if namespace.ends_with(SEPARATOR) { "" } else { SEPARATOR };
        let plain = FLAT.fitting(&format!("{namespace}{separator}{name}"));
        let is_taken = |flat: &str| taken(flat) || self.0.iter().any(|known| known.flat == flat);
        let others = (2_u32..).map(|number| FLAT.fitting(&format!("{plain}#{number}")));
        let flat = std::iter::once(plain.clone()).chain(others).find(|flat| !is_taken(flat)).unwrap_or_default();
        self.0.push(Flattened { flat: flat.clone(), namespace: namespace.to_owned(), name: name.to_owned() });
        flat
    }

    /// Namespace and name of a flat name, if it is one.
    pub(super) fn original(&self, flat: &str) -> Option<(&str, &str)> {
        let known = self.0.iter().find(|known| known.flat == flat)?;
        Some((&known.namespace, &known.name))
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
}
