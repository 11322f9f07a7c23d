//! Suggestions for misspelt names ("did you mean …"). Only for messages, never used to change behaviour.

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
    let apart = edit_distance(&text, &name);
    (extends || apart <= close_enough).then_some(apart)
}

fn extends(one: &str, other: &str) -> bool {
    let shorter = one.len().min(other.len());
    shorter >= 3 && (one.starts_with(other) || other.starts_with(one))
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one text to the other
/// (optimal string alignment).
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    // The two previous rows of the table, each with the distance to every prefix of `to`.
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    let mut last = None;
    for (line, letter) in from.chars().enumerate() {
        let mut row = vec![line + 1];
        for (column, other) in to.iter().enumerate() {
            let cost = |row: &[usize], back: usize| row.get((column + 1).wrapping_sub(back)).copied();
            let replaced = cost(&above, 1).map(|distance| distance + usize::from(letter != *other));
            let deleted = cost(&above, 0).map(|distance| distance + 1);
            let inserted = cost(&row, 1).map(|distance| distance + 1);
            let neighbour = column.checked_sub(1).and_then(|left| to.get(left)).copied();
            let swap = neighbour == Some(letter) && last == Some(*other);
            let swapped = swap.then(|| cost(&before, 2)).flatten().map(|distance| distance + 1);
            let best = [replaced, deleted, inserted, swapped].into_iter().flatten().min();
            row.push(best.unwrap_or(usize::MAX));
        }
        last = Some(letter);
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or(usize::MAX)
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
    fn edit_distance_counts_single_changes() {
        for (from, to, distance) in
            [("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("bnid", "bind", 1)]
        {
            assert_eq!(edit_distance(from, to), distance, "{from} {to}");
        }
    }
}
