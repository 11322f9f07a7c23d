//! Rewrites a configuration with former names of keys as it is written today. Everything else stays byte for byte.
//!
//! The text is changed one key at a time and read again after each. A key that stays in its table is renamed where it
//! stands. One that moves to another table is cut with the comments above it and put behind the header of that table.

use std::ops::Range;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    quantity::Unit,
    reference::{REFERENCE, Reference},
};

/// A configuration as it is written today.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Migration {
    /// The text.
    pub text: String,
    /// What was changed, a sentence each.
    pub changes: Vec<String>,
    /// What must be changed by hand, a sentence each.
    pub left: Vec<String>,
}

/// A former name in the text, and what it is called today; `None` if it has no effect any more.
struct Former {
    path: Vec<String>,
    current: Option<Vec<String>>,
}

/// Rewrites `text`.
///
/// # Errors
/// The syntax fault of a text that is no TOML.
pub fn migrate(text: &str) -> Result<Migration, String> {
    migrate_as(&REFERENCE, text)
}

fn migrate_as(reference: &Reference, text: &str) -> Result<Migration, String> {
    let mut migration = Migration { text: text.to_owned(), ..Migration::default() };
    for Former { path, current } in former_keys(reference, &parsed(text)?) {
        let (shown, today) = (path.join("."), current.as_ref().map(|current| current.join(".")));
        let changed = match &current {
            Some(current) => renamed(reference, &migration.text, &path, current),
            None => cut(reference, &migration.text, &path).map(|(text, _)| text),
        };
        // Only what reads as TOML counts as done: the table that the key moves to may be written in an unusual form.
        match (changed.filter(|text| parsed(text).is_ok()), today) {
            (Some(text), today) => {
                migration.text = text;
                migration.changes.push(match today {
                    Some(today) => format!("{shown} is called {today}"),
                    None => format!("{shown} has no effect and was removed"),
                });
            }
            (None, Some(today)) => migration.left.push(format!("{shown} is called {today} today: change it by hand")),
            (None, None) => migration.left.push(format!("{shown} has no effect: remove it by hand")),
        }
    }
    Ok(migration)
}

fn parsed(text: &str) -> Result<DeTable<'_>, String> {
    DeTable::parse(text).map(Spanned::into_inner).map_err(|fault| fault.message().to_owned())
}

/// All former names in the text.
fn former_keys(reference: &Reference, root: &DeTable<'_>) -> Vec<Former> {
    let mut found = Vec::new();
    for section in &reference.sections {
        for key in &section.keys {
            let Some(was) = &key.was else { continue };
            let current = format!("{}.{}", section.path, key.name);
            for (path, names) in matches(root, was) {
                found.push(Former { path, current: Some(filled(&current, &names)) });
            }
        }
    }
    for removed in &reference.removed {
        found.extend(matches(root, &removed.path).into_iter().map(|(path, _)| Former { path, current: None }));
    }
    found
}

/// The paths in the text that match a pattern with `*`, each with the names in the places of the `*`.
fn matches(root: &DeTable<'_>, pattern: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let mut found = vec![(Vec::new(), Vec::new())];
    for part in pattern.split('.') {
        let mut next = Vec::new();
        for (path, names) in found {
            let Some(table) = table_at(root, &path) else { continue };
            for key in table.keys().map(|key| key.get_ref().to_string()).filter(|key| part == "*" || key == part) {
                let names = names.iter().cloned().chain((part == "*").then(|| key.clone())).collect();
                next.push(([path.as_slice(), &[key]].concat(), names));
            }
        }
        found = next;
    }
    found
}

/// The pattern with these names in the places of the `*`.
fn filled(pattern: &str, names: &[String]) -> Vec<String> {
    let mut names = names.iter();
    let name = |part: &str| if part == "*" { names.next().cloned().unwrap_or_default() } else { part.to_owned() };
    pattern.split('.').map(name).collect()
}

fn table_at<'t, 'a>(root: &'t DeTable<'a>, path: &[String]) -> Option<&'t DeTable<'a>> {
    path.iter().try_fold(root, |table, key| match table.get(key.as_str())?.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    })
}

/// Where the key and the value of an entry stand, and its value.
fn entry_at<'t, 'a>(root: &'t DeTable<'a>, path: &[String]) -> Option<(Range<usize>, Range<usize>, &'t DeValue<'a>)> {
    let (key, above) = path.split_last()?;
    let (key, value) = table_at(root, above)?.get_key_value(key.as_str())?;
    Some((key.span(), value.span(), value.get_ref()))
}

/// The text with an entry under its current name.
fn renamed(reference: &Reference, text: &str, path: &[String], current: &[String]) -> Option<String> {
    let root = parsed(text).ok()?;
    let (key, value, old) = entry_at(&root, path)?;
    if entry_at(&root, current).is_some() {
        return None;
    }
    let ((name, target), (former, above)) = (current.split_last()?, path.split_last()?);
    let value = with_unit(former, old).unwrap_or_else(|| text.get(value).unwrap_or_default().to_owned());
    if target == above {
        let (_, end, _) = entry_at(&root, path)?;
        let between = text.get(key.end..end.start)?;
        return Some([text.get(..key.start)?, name, between, &value, text.get(end.end..)?].concat());
    }
    let (mut rest, lines) = cut(reference, text, path)?;
    let entry = [&*lines.above, name, " = ", &value, &lines.behind, "\n"].concat();
    match header(&rest, &target.join(".")) {
        Some(header) => rest.insert_str(header.end, &entry),
        None => {
            let gap = if rest.is_empty() || rest.ends_with('\n') { "" } else { "\n" };
            rest.push_str(&format!("{gap}\n[{}]\n{entry}", target.join(".")));
        }
    }
    Some(rest)
}

/// The value as a text with the unit that was in the former name; `None` if there was none, or if it is no number.
fn with_unit(former: &str, value: &DeValue<'_>) -> Option<String> {
    let number: f64 = match value {
        DeValue::Integer(number) => number.as_str().replace('_', "").parse().ok()?,
        DeValue::Float(number) => number.as_str().replace('_', "").parse().ok()?,
        _ => return None,
    };
    Unit::of_former(former)?.show(number).map(|text| format!("\"{text}\""))
}

/// What stood around an entry that was cut.
struct Cut {
    /// The comments above it, with their ends of lines and the indentation.
    above: String,
    /// A comment behind it.
    behind: String,
}

/// The text without an entry, its comments, and its table if that is empty then and has no other meaning. `None` if the
/// entry does not stand on lines of its own.
fn cut(reference: &Reference, text: &str, path: &[String]) -> Option<(String, Cut)> {
    let root = parsed(text).ok()?;
    let (key, value, _) = entry_at(&root, path)?;
    let line = text.get(..key.start)?.rfind('\n').map_or(0, |end| end + 1);
    let end = text.get(value.end..)?.find('\n').map_or(text.len(), |end| value.end + end);
    let behind = text.get(value.end..end)?.trim_end();
    let is_alone =
        text.get(line..key.start)?.trim().is_empty() && (behind.is_empty() || behind.trim_start().starts_with('#'));
    if !is_alone {
        return None;
    }
    let mut start = line;
    while let Some(before) = text.get(..start).and_then(|text| text.strip_suffix('\n')) {
        let above = before.rfind('\n').map_or(0, |end| end + 1);
        if !before.get(above..)?.trim_start().starts_with('#') {
            break;
        }
        start = above;
    }
    let lines = Cut { above: text.get(start..key.start)?.to_owned(), behind: behind.to_owned() };
    let mut rest = [text.get(..start)?, text.get(end..)?.strip_prefix('\n').unwrap_or_default()].concat();
    let (_, above) = path.split_last()?;
    let is_empty =
        |rest: &str| parsed(rest).is_ok_and(|root| table_at(&root, above).is_some_and(|table| table.is_empty()));
    if reference.section(&above.join(".")).is_none()
        && is_empty(&rest)
        && let Some(header) = header(&rest, &above.join("."))
    {
        rest.replace_range(header, "");
    }
    Some((rest, lines))
}

/// The line with the header of a table, its end included.
fn header(text: &str, table: &str) -> Option<Range<usize>> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let words: String = line.split('#').next()?.chars().filter(|c| !c.is_whitespace()).collect();
        if words == format!("[{table}]") {
            return Some(start..start + line.len());
        }
        start += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Config, environment::Environment, quantity::read_bytes, reference::Removed, tree::Value};

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let migration = migrate(text).unwrap();
        assert_eq!(migration.text, expected);
        assert_eq!(migration.left, Vec::<String>::new());
        let again = migrate(&migration.text).unwrap();
        assert_eq!((again.text, again.changes), (migration.text, Vec::new()), "a second time changes nothing");
    }

    #[test]
    fn a_key_that_stays_in_its_table_is_renamed_where_it_stands() {
        check(
            "# Mine.\n[timeouts]  # clocks\n  connect_secs = 1.5 # long\ntotal = \"1m\"\n[limits]\nmax_body_bytes=1_048_576",
            "# Mine.\n[timeouts]  # clocks\n  connect = \"1s500ms\" # long\ntotal = \"1m\"\n[limits]\nmax_body=\"1MiB\"",
        );
        check("timeouts.connect_secs = 2\n", "timeouts.connect = \"2s\"\n");
        check("timeouts = { connect_secs = 2 }\n", "timeouts = { connect = \"2s\" }\n");
        check("[providers.a]\npermit_wait_ms = 7\n", "[providers.a]\npermit_wait = \"7ms\"\n");
    }

    #[test]
    fn a_key_that_moves_takes_its_comments_along_and_leaves_no_empty_table_behind() {
        check(
            "[routing]\n# Half a point.\n# Really.\nstaleness = 0.5 # of one\n\n[routing.latency_targets]\ngain = 0.3\n\n[log]\nformat = \"json\"\n",
            "[routing]\n\n\n[log]\nformat = \"json\"\n\n[routing.expert]\ntarget_gain = 0.3\n# Half a point.\n# Really.\nstaleness = 0.5 # of one\n",
        );
        check(
            "[routing]\nhalf_life_s = 60\n[routing.expert] # mine\nfailure_time = \"1s\"\n",
            "[routing]\n[routing.expert] # mine\nhalf_life = \"1m\"\nfailure_time = \"1s\"\n",
        );
    }

    #[test]
    fn what_cannot_be_done_without_harm_is_left_and_named() {
        for text in ["routing = { staleness = 0.5 }\n", "[timeouts]\nconnect = \"1s\"\nconnect_secs = 2\n"] {
            let migration = migrate(text).unwrap();
            assert_eq!((&*migration.text, migration.changes.len(), migration.left.len()), (text, 0, 1), "{text}");
            assert!(migration.left[0].contains("by hand"), "{:?}", migration.left);
        }
        assert!(migrate("[timeouts\n").is_err());
    }

    #[test]
    fn a_key_without_effect_goes() {
        let removed = |path: &str| Removed { path: path.to_owned(), why: "it bought nothing".to_owned() };
        let reference = Reference { sections: Vec::new(), removed: vec![removed("a.b"), removed("c.*.d")] };
        let migration = migrate_as(&reference, "[a]\nb = 1\n[c.x]\n# why\nd = 2\ne = 3\n").unwrap();
        assert_eq!(migration.text, "[c.x]\ne = 3\n");
        assert_eq!(migration.changes, ["a.b has no effect and was removed", "c.x.d has no effect and was removed"]);
    }

    /// O78, for every former name there is.
    #[test]
    fn every_former_key_warns_once_and_means_the_same_under_its_current_name() {
        let mut count = 0;
        for section in &REFERENCE.sections {
            for key in &section.keys {
                let Some(was) = &key.was else { continue };
                let was = was.replace('*', "mine");
                let (table, name) = was.rsplit_once('.').unwrap();
                let value = match (Unit::of_former(name), &key.default) {
                    (_, Some(Value::Number(number))) => format!("{number:?}"),
                    (_, Some(Value::Integer(number))) => number.to_string(),
                    (Some(Unit::Bytes), Some(Value::Text(text))) => read_bytes(text).unwrap().to_string(),
                    (Some(unit), Some(Value::Text(text))) => {
                        unit.count(humantime::parse_duration(text).unwrap()).to_string()
                    }
                    _ => "2".to_owned(),
                };
                let more = match table {
                    "providers.mine" => "base_url = \"http://127.0.0.1:1/v1\"\n",
                    _ => "",
                };
                let text = format!("# Mine.\n[{table}]\n{more}{name} = {value} # as it was\n");
                let read = |text: &str| Config::parse(text, "f", Path::new("."), &Environment::default());
                let before = read(&text).unwrap_or_else(|faults| panic!("{text}{faults:?}"));
                assert_eq!(before.warnings().len(), 1, "{text}");
                let migration = migrate(&text).unwrap();
                assert!(migration.text.starts_with("# Mine.\n") && migration.text.contains("# as it was\n"), "{text}");
                let after = read(&migration.text).unwrap_or_else(|faults| panic!("{}{faults:?}", migration.text));
                assert_eq!(after.warnings().len(), 0, "{}", migration.text);
                let shown = |text: &str| {
                    let shown = crate::effective(text, "f", &Environment::default());
                    shown.lines().map(|line| line.split("  # ").next().unwrap().trim().to_owned()).collect::<Vec<_>>()
                };
                assert_eq!(shown(&text), shown(&migration.text), "{text}");
                count += 1;
            }
        }
        assert!(count > 40, "{count}");
    }
}
