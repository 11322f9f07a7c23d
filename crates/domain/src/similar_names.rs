//! Suggestions for misspelt names ("did you mean …"). Only for messages, never used to change behaviour.

use strsim::osa_distance;

/// Longer names are not compared, because the comparison takes quadratic time. In bytes.
const LONGEST: usize = 64;
/// Most names in a message: the rest would hide what is wrong.
const MAX_LISTED: usize = 8;

/// The name in `known` that is most similar to `text`, if any is similar enough: a few typing errors away, or one is a
/// prefix of the other. Ignores case.
pub fn closest_name<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let apart = |name: &'k str| Some((name_distance(text, name)?, name));
    known.into_iter().filter_map(apart).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// The names in `known` for a message about `text`, which is none of them: the most similar first, and no more than
/// eight.
pub fn listed_names<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    listed(text, known, str::to_owned)
}

/// The same with each name in quotes.
pub fn quoted_names<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    listed(text, known, |name| format!("\"{name}\""))
}

fn listed<'k>(text: &str, known: impl IntoIterator<Item = &'k str>, written: impl Fn(&str) -> String) -> String {
    let mut names: Vec<&str> = known.into_iter().collect();
    names.sort_by_key(|name| name_distance(text, name).unwrap_or(usize::MAX));
    let more = names.len().saturating_sub(MAX_LISTED);
    let listed = names.into_iter().take(MAX_LISTED).map(written).collect::<Vec<_>>().join(", ");
    if more == 0 { listed } else { format!("{listed} and {more} more") }
}

/// Number of typing errors between two names; `None` when they are too different. Ignores case.
pub fn name_distance(text: &str, name: &str) -> Option<usize> {
    if text.len() > LONGEST || name.len() > LONGEST {
        return None;
    }
    let (text, name) = (text.to_lowercase(), name.to_lowercase());
    let close_enough = (text.chars().count() / 3).max(1);
    let extends = extends(&text, &name);
    // The distance is at least the difference in length, so most names need no comparison.
    if !extends && text.chars().count().abs_diff(name.chars().count()) > close_enough {
        return None;
    }
    let apart = osa_distance(&text, &name);
    (extends || apart <= close_enough).then_some(apart)
}

fn extends(one: &str, other: &str) -> bool {
    let shorter = one.len().min(other.len());
    shorter >= 3 && (one.starts_with(other) || other.starts_with(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_word_is_found_and_far_ones_are_not() {
        let known = ["max_body_bytes", "max_n", "max_tools"];
        assert_eq!(closest_name("max_tool", known), Some("max_tools"));
        assert_eq!(closest_name("maxn", known), Some("max_n"));
        assert_eq!(closest_name("max", known), Some("max_n"));
        assert_eq!(closest_name("MAX_TOOLS", known), Some("max_tools"));
        assert_eq!(closest_name("temperature", known), None);
        assert_eq!(closest_name(&"x".repeat(100), known), None);
    }

    #[test]
    fn a_list_begins_with_the_similar_names_and_is_cut() {
        let known: Vec<String> = (0..20).map(|n| format!("provider-{n}")).chain(["acme".to_owned()]).collect();
        let listed = listed_names("acne", known.iter().map(String::as_str));
        assert!(listed.starts_with("acme, provider-0, ") && listed.ends_with("provider-6 and 13 more"), "{listed}");
        assert_eq!(listed_names("x", ["a", "b"]), "a, b");
        assert_eq!(quoted_names("b", ["a", "b"]), "\"b\", \"a\"");
    }

    #[test]
    fn two_swapped_letters_are_one_typing_error() {
        assert_eq!(name_distance("ojbective", "objective"), Some(1));
        assert_eq!(name_distance("Objective", "objective"), Some(0));
    }
}
