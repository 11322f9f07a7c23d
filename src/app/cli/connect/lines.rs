//! Settings as marked lines in a file of lines: TOML or YAML. What they replace becomes a comment, so that taking them out gives
//! the file back as it was.

const BEGIN: &str = "# Pointsman begins: 'pointsman connect' wrote this, its --off takes it out";
const END: &str = "# Pointsman ends";
/// Before a line that is replaced.
const REPLACED: &str = "# Pointsman replaces: ";

/// Lines to add.
pub(super) struct Added<'a> {
    /// What stands between a name and its value.
    pub(super) sign: &'static str,
    /// Names and values, before all tables.
    pub(super) settings: &'a [(&'static str, String)],
    /// A table, at the end.
    pub(super) end: Option<&'a str>,
}

/// The text with the lines, in place of those that it has from before.
pub(super) fn with(text: &str, added: &Added<'_>) -> String {
    let mut kept = String::new();
    let mut is_top = true;
    for line in without(text).lines() {
        is_top &= !line.starts_with('[');
        let name = line.split(['=', ':']).next().unwrap_or_default().trim_end();
        let is_replaced = is_top && line != name && added.settings.iter().any(|(replaced, _)| *replaced == name);
        kept.push_str(&format!("{}{line}\n", if is_replaced { REPLACED } else { "" }));
    }
    let settings: Vec<String> =
        added.settings.iter().map(|(name, value)| format!("{name}{} {value}", added.sign)).collect();
    let block = |lines: &str| format!("{BEGIN}\n{lines}\n{END}\n");
    let end = added.end.map_or_else(String::new, block);
    format!("{}{kept}{end}", block(&settings.join("\n")))
}

/// The text without the lines.
pub(super) fn without(text: &str) -> String {
    let mut is_ours = false;
    let mut kept = String::new();
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        is_ours |= bare == BEGIN;
        if !is_ours {
            kept.push_str(line.strip_prefix(REPLACED).unwrap_or(line));
        }
        is_ours &= bare != END;
    }
    kept
}

/// The lines that differ, with their signs. Values beside names of keys and tokens are left out of lines that go.
pub(super) fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let width = new.len() + 1;
    // Length of the longest common subsequence of what follows both places.
    let mut common = vec![0_usize; (old.len() + 1) * width];
    let at = |common: &[usize], row: usize, column: usize| common.get(row * width + column).copied().unwrap_or(0);
    for (row, line) in old.iter().enumerate().rev() {
        for (column, other) in new.iter().enumerate().rev() {
            let longest = match line == other {
                true => at(&common, row + 1, column + 1) + 1,
                false => at(&common, row + 1, column).max(at(&common, row, column + 1)),
            };
            common.get_mut(row * width + column).into_iter().for_each(|length| *length = longest);
        }
    }
    let (mut row, mut column, mut shown) = (0, 0, String::new());
    loop {
        match (old.get(row), new.get(column)) {
            (Some(line), Some(other)) if line == other => (row, column) = (row + 1, column + 1),
            (line, Some(other)) if line.is_none() || at(&common, row, column + 1) >= at(&common, row + 1, column) => {
                shown.push_str(&format!(
                    "+ {}\n",
                    if other.starts_with(REPLACED) { masked(other) } else { (*other).to_owned() }
                ));
                column += 1;
            }
            (Some(line), _) => {
                shown.push_str(&format!("- {}\n", masked(line)));
                row += 1;
            }
            (None, None) => return shown,
            (None, Some(_)) => {}
        }
    }
}

fn masked(line: &str) -> String {
    let value = line.trim_start_matches(REPLACED);
    let is_secret = ["key", "token", "secret"].iter().any(|word| value.to_lowercase().contains(word));
    match value.split_once([':', '=']).filter(|_| is_secret) {
        Some((name, _)) => format!("{}{name}: …", if value == line { "" } else { REPLACED }),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: [(&str, String); 0] = [];

    #[test]
    fn taking_the_lines_out_gives_the_file_back_as_it_was() {
        let settings = [("model", "\"a\"".to_owned())];
        let added = Added { sign: " =", settings: &settings, end: Some("[x]\ny = 1") };
        for text in ["", "model = \"mine\" # best\nother = 1\n\n[model]\nmodel = 2\n", "# model = 3\n", "models = 1\n"]
        {
            let changed = with(text, &added);
            assert_eq!(without(&changed), text, "{changed}");
            assert_eq!(with(&changed, &added), changed, "once");
            assert_eq!(changed.matches("\nmodel = \"a\"").count(), 1, "{changed}");
        }
        assert!(with("model = \"mine\"\n", &added).contains("# Pointsman replaces: model = \"mine\"\n"));
        assert_eq!(without("a = 1"), "a = 1");
        assert_eq!(with("", &Added { sign: "", settings: &SETTINGS, end: None }).lines().count(), 3);
    }

    #[test]
    fn a_difference_shows_changed_lines_and_no_foreign_key() {
        let shown = difference("a\napi-key: sk-mine\nc\n", "a\nb\nc\nd\n");
        assert_eq!(shown, "+ b\n- api-key: …\n+ d\n");
        let replaced = difference("openai-api-key: sk-mine\n", "# Pointsman replaces: openai-api-key: sk-mine\n");
        assert!(!replaced.contains("sk-mine"), "{replaced}");
    }
}
