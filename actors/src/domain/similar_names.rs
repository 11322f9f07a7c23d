//! Suggestions for misspelt names ("did you mean …"). Only for messages, never used to change behaviour.

use strsim::osa_distance;

/// Longer names are not compared, because the comparison takes quadratic time. In bytes.
const LONGEST: usize = 64;

/// The name in `known` that is most similar to `text`, if any is similar enough: a few typing errors away, or one is a
/// prefix of the other. Ignores case.
#[must_use]
pub fn closest_name<'k>(text: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let apart = |name: &'k str| Some((name_distance(text, name)?, name));
    known.into_iter().filter_map(apart).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// Number of typing errors between two names; `None` when they are too different. Ignores case.
#[must_use]
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
    fn two_swapped_letters_are_one_typing_error() {
        assert_eq!(name_distance("ojbective", "objective"), Some(1));
        assert_eq!(name_distance("Objective", "objective"), Some(0));
    }
}
