//! Settings as marked lines in a file of lines: TOML or YAML. What they replace becomes a comment, so that taking them out gives
//! the file back as it was.

use serde_json::Value;

use super::Place;

const BEGIN: &str = "# Pointsman begins: 'pointsman connect' wrote this, its --off takes it out";
const END: &str = "# Pointsman ends";
/// Before a line that is replaced.
const REPLACED: &str = "# Pointsman replaces: ";

/// The text with the settings, in place of those that it has from before: names first, then tables. `sign` stands between a name
/// and its value.
pub(super) fn with(text: &str, sign: &str, settings: &[(Place, Value)]) -> String {
    let (mut top, mut end, mut kept) = (String::new(), String::new(), String::new());
    for (place, value) in settings {
        match place {
            [table, name] => {
                let head = format!("[{table}]\n");
                let head = if end.contains(&head) { "" } else { &head };
                end.push_str(&format!("{head}{name}{sign} {value}\n"));
            }
            _ => top.push_str(&format!("{}{sign} {value}\n", place.concat())),
        }
    }
    let mut is_top = true;
    for line in without(text).lines() {
        is_top &= !line.starts_with('[');
        let name = line.split(['=', ':']).next().unwrap_or_default().trim_end();
        let is_replaced = is_top && settings.iter().any(|(place, _)| **place == [name]);
        kept.push_str(&format!("{}{line}\n", if is_replaced { REPLACED } else { "" }));
    }
    let block = |lines: &str| if lines.is_empty() { String::new() } else { format!("{BEGIN}\n{lines}{END}\n") };
    format!("{}{kept}{}", block(&top), block(&end))
}

/// The text without the lines.
pub(super) fn without(text: &str) -> String {
    let (mut is_ours, mut kept) = (false, String::new());
    for line in text.split_inclusive('\n') {
        is_ours |= line.trim_end() == BEGIN;
        if !is_ours {
            kept.push_str(line.strip_prefix(REPLACED).unwrap_or(line));
        }
        is_ours &= line.trim_end() != END;
    }
    kept
}

/// The lines that go, then those that come. Values beside names of keys and tokens are left out, but for those that come new.
pub(super) fn difference(before: &str, after: &str) -> String {
    let only = |one: &str, other: &str| {
        let mut others: Vec<&str> = other.lines().collect();
        let is_alone =
            |line: &&str| others.iter().position(|other| other == line).map(|n| others.swap_remove(n)).is_none();
        one.lines().filter(is_alone).map(str::to_owned).collect::<Vec<_>>()
    };
    let gone = only(before, after).into_iter().map(|line| format!("- {}\n", masked(&line)));
    let come = only(after, before).into_iter().map(|line| match line.starts_with(REPLACED) {
        true => format!("+ {REPLACED}{}\n", masked(line.trim_start_matches(REPLACED))),
        false => format!("+ {line}\n"),
    });
    gone.chain(come).collect()
}

fn masked(line: &str) -> String {
    let is_secret = ["key", "token", "secret"].iter().any(|word| line.to_lowercase().contains(word));
    line.split_once([':', '=']).filter(|_| is_secret).map_or(line.to_owned(), |(name, _)| format!("{name}: …"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn taking_the_lines_out_gives_the_file_back_as_it_was() {
        let settings: [(Place, Value); 3] =
            [(&["model"], json!("a")), (&["x", "y"], json!(1)), (&["x", "z"], json!(2))];
        for text in ["", "model = \"mine\" # best\nother = 1\n\n[model]\nmodel = 2\n", "# model = 3\n", "models = 1\n"]
        {
            let changed = with(text, " =", &settings);
            assert_eq!(without(&changed), text, "{changed}");
            assert_eq!(with(&changed, " =", &settings), changed, "once");
            assert_eq!(changed.matches("\nmodel = \"a\"").count(), 1, "{changed}");
            assert!(changed.contains("[x]\ny = 1\nz = 2\n"), "{changed}");
        }
        assert!(with("model = \"mine\"\n", " =", &settings).contains("# Pointsman replaces: model = \"mine\"\n"));
        assert_eq!(without("a = 1"), "a = 1");
    }

    #[test]
    fn a_difference_shows_changed_lines_and_no_foreign_key() {
        let shown = difference("a\napi-key: sk-mine\nc\nc\n", "a\nb\nc\nd\n");
        assert_eq!(shown, "- api-key: …\n- c\n+ b\n+ d\n");
        let replaced = difference("openai-api-key: sk-mine\n", "# Pointsman replaces: openai-api-key: sk-mine\n");
        assert!(!replaced.contains("sk-mine"), "{replaced}");
    }
}
