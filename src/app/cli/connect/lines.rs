//! Settings as marked lines in a file of lines: TOML or YAML. What they replace becomes a comment, so that taking them out gives
//! the file back as it was.

use pointsman_config::DEVELOPMENT_KEY;
use serde_json::Value;

use super::Place;

const BEGIN: &str = "# Pointsman begins: 'pointsman connect' wrote this, its --off takes it out";
const END: &str = "# Pointsman ends";
/// Before a line that is replaced.
const REPLACED: &str = "# Pointsman replaces: ";

/// Ends of names whose values are not shown.
const SECRETS: [&str; 5] = ["key", "token", "secret", "password", "authorization"];

/// The text with the settings, in place of those that it has from before: names first, then tables. `sign` stands between a name
/// and its value.
///
/// # Errors
/// Why those from before cannot be taken out.
pub(super) fn with(text: &str, sign: &str, settings: &[(Place, Value)]) -> Result<String, String> {
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
    let before = without(text, settings)?;
    let (start, rest) = before.split_at(start_of_document(&before));
    let mut is_top = true;
    for line in rest.split_inclusive('\n') {
        is_top &= !line.starts_with('[');
        let is_replaced = is_top && settings.iter().any(|(place, _)| **place == [name_in(line)]);
        kept.push_str(&format!("{}{line}", if is_replaced { REPLACED } else { "" }));
    }
    let new_line = if text.contains("\r\n") { "\r\n" } else { "\n" };
    if !kept.is_empty() && !kept.ends_with('\n') {
        kept.push_str(new_line);
    }
    let block = |lines: &str| match lines.is_empty() {
        true => String::new(),
        false => format!("{BEGIN}\n{lines}{END}\n").replace('\n', new_line),
    };
    Ok(format!("{start}{}{kept}{}", block(&top), block(&end)))
}

/// The length of what leads to the first document of a YAML file, with its `---`; 0 without one.
fn start_of_document(text: &str) -> usize {
    let is_before = |line: &str| line.trim().is_empty() || line.starts_with(['#', '%']);
    let mut length = 0;
    for line in text.split_inclusive('\n') {
        length += line.len();
        if !is_before(line) {
            return if line.starts_with("---") { length } else { 0 };
        }
    }
    0
}

fn name_in(line: &str) -> &str {
    line.split(['=', ':']).next().unwrap_or_default().trim_end()
}

/// The text without the lines. What others wrote between them stays: agents that write their own file put it there.
///
/// # Errors
/// If it is not clear which lines these are.
pub(super) fn without(text: &str, settings: &[(Place, Value)]) -> Result<String, String> {
    let (mut is_between, mut table, mut has_lost_head, mut kept) = (false, "", false, String::new());
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        if bare == BEGIN || bare == END {
            if is_between == (bare == BEGIN) {
                return Err(format!(
                    "its lines '{BEGIN}' and '{END}' are not in pairs; put the missing one back, or take the settings out by hand"
                ));
            }
            is_between = bare == BEGIN;
            continue;
        }
        let head = line.strip_prefix('[').and_then(|head| Some(head.split_once(']')?.0));
        let is_ours = is_between
            && settings.iter().any(|(place, _)| match **place {
                [of, name] => head.map_or(table == of && name_in(line) == name, |head| head == of),
                _ => table.is_empty() && **place == [name_in(line)],
            });
        if let Some(head) = head {
            (table, has_lost_head) = (head, is_ours);
        }
        if has_lost_head && !is_ours && !bare.is_empty() && !bare.starts_with('#') {
            return Err(format!("'{}' in [{table}] was added by hand; take it out first", name_in(line)));
        }
        if !is_ours {
            kept.push_str(line.strip_prefix(REPLACED).unwrap_or(line));
        }
    }
    match is_between {
        true => Err(format!(
            "the line '{END}' is missing; put it behind the settings of Pointsman, or take them out by hand"
        )),
        false => Ok(kept),
    }
}

/// The lines that go, then those that come, without keys.
pub(super) fn difference(before: &str, after: &str) -> String {
    let only = |one: &str, other: &str, mark: char| {
        let (shown, mut others) = (masked(one), other.lines().collect::<Vec<_>>());
        let is_alone =
            |line: &str| others.iter().position(|other| *other == line).map(|n| others.swap_remove(n)).is_none();
        let alone = one.lines().map(is_alone).collect::<Vec<_>>();
        let shown = shown.lines().zip(alone).filter(|(_, is_alone)| *is_alone);
        shown.map(|(line, _)| format!("{mark} {line}\n")).collect::<String>()
    };
    only(before, after, '-') + &only(after, before, '+')
}

/// Whether it has a key that is not the development key.
pub(super) fn has_key(text: &str) -> bool {
    masked(text) != text
}

/// The text, as many lines, with `…` in place of secret values.
fn masked(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(sign) = rest.find([':', '=']) {
        let (before, after) = rest.split_at(sign + 1);
        shown.push_str(before);
        let name = before.trim_end_matches([':', '=', ' ', '"', '\'']).to_lowercase();
        let word = name.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        // The value of `env_key` is the name of a variable.
        let is_secret = word != "env_key" && SECRETS.iter().any(|end| word.ends_with(end));
        let (value, behind) = after.split_at(if is_secret { length_of_value(after) } else { 0 });
        let bare = value.trim().trim_matches(['"', '\'']);
        if bare.is_empty() || bare == DEVELOPMENT_KEY {
            shown.push_str(value);
        } else {
            shown.push_str(" …");
            shown.extend(value.matches('\n'));
        }
        rest = behind;
    }
    shown + rest
}

/// The length of the value that the text begins with, in TOML, YAML or JSON: up to its closing sign, else the line.
fn length_of_value(text: &str) -> usize {
    let open = text.trim_start();
    let close = match open.chars().next() {
        Some(quote @ ('"' | '\'')) => quote,
        Some('[') => ']',
        Some('{') => '}',
        _ => return text.find(['\r', '\n']).unwrap_or(text.len()),
    };
    let mut is_escaped = false;
    let mut signs = open.char_indices().skip(1);
    let end = signs.find(|(_, sign)| {
        let is_end = *sign == close && !is_escaped;
        is_escaped = *sign == '\\' && !is_escaped && close == '"';
        is_end
    });
    end.map_or(text.len(), |(n, _)| text.len() - open.len() + n + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLACES: [Place; 3] = [&["model"], &["x", "y"], &["x", "z"]];

    fn settings() -> Vec<(Place, Value)> {
        PLACES.into_iter().zip([json!("a"), json!(1), json!(2)]).collect()
    }

    #[test]
    fn taking_the_lines_out_gives_the_file_back_as_it_was() {
        for text in [
            "",
            "model = \"mine\" # best\nother = 1\n\n[model]\nmodel = 2\n",
            "# model = 3\n",
            "models = 1\n",
            "# c\n---\nmodel = 1\n",
        ] {
            for text in [text.to_owned(), text.replace('\n', "\r\n")] {
                let changed = with(&text, " =", &settings()).unwrap();
                assert_eq!(without(&changed, &settings()).unwrap(), text, "{changed}");
                assert_eq!(with(&changed, " =", &settings()).unwrap(), changed, "once");
                assert_eq!(text.contains('\r'), changed.matches('\n').count() == changed.matches("\r\n").count());
                let changed = changed.replace('\r', "");
                assert_eq!(changed.matches("\nmodel = \"a\"").count(), 1, "{changed}");
                assert!(changed.contains("[x]\ny = 1\nz = 2\n"), "{changed}");
            }
        }
        let replaced = with("model = \"mine\"\n", " =", &settings()).unwrap();
        assert!(replaced.contains("# Pointsman replaces: model = \"mine\"\n"));
        assert_eq!(without("a = 1", &settings()).unwrap(), "a = 1");
        assert!(with("---\nb: 1\n", ":", &settings()).unwrap().starts_with(&format!("---\n{BEGIN}\nmodel: ")));
    }

    #[test]
    fn what_others_wrote_between_the_lines_stays() {
        let table = "[x]\ny = 1\nz = 2\n";
        let text = with("", " =", &settings()).unwrap();
        let text = text.replacen(END, &format!("effort = 3\n{END}"), 1);
        let text = text.replace(table, &format!("{table}\n[p.\"/a\"]\nmodel = 4\ny = 5\n"));
        assert_eq!(without(&text, &settings()).unwrap(), "effort = 3\n\n[p.\"/a\"]\nmodel = 4\ny = 5\n");
    }

    #[test]
    fn lines_that_cannot_be_told_apart_are_left_alone() {
        let text = with("mine = 1\n", " =", &settings()).unwrap();
        for (text, why) in [
            (text.replacen(END, "", 1), "not in pairs"),
            (text.replacen(BEGIN, "", 1), "not in pairs"),
            (text.trim_end().trim_end_matches(END).to_owned(), "is missing"),
            (format!("{text}more = 1\n"), "'more' in [x]"),
        ] {
            let refused = without(&text, &settings()).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert!(with(&text, " =", &settings()).is_err());
        }
    }

    #[test]
    fn a_difference_shows_changed_lines_and_no_key() {
        let shown = difference("a\napi-key: sk-mine\nc\nc\n", "a\nb\nc\nd\n");
        assert_eq!(shown, "- api-key: …\n- c\n+ b\n+ d\n");
        assert_eq!(difference("", "api-key: sk-mine\n"), "+ api-key: …\n");
        assert_eq!(difference("key: a\n", "key: b\n"), "- key: …\n+ key: …\n");
        for (text, shown) in [
            ("# Pointsman replaces: openai-api-key: sk # b", "# Pointsman replaces: openai-api-key: …"),
            (r#"{"ANTHROPIC_API_KEY":"s\"k, b","a":1}"#, r#"{"ANTHROPIC_API_KEY": …,"a":1}"#),
            ("\"apiKey\" :\n \"sk\",\n\"b\": 1", "\"apiKey\" : …\n,\n\"b\": 1"),
            ("h = { x_auth_token = 'sk', b = 1 }", "h = { x_auth_token = …, b = 1 }"),
            ("\"Token\": [\n1,\n2],\nb: 1", "\"Token\": …\n\n,\nb: 1"),
        ] {
            assert_eq!(masked(text), shown);
            assert!(has_key(text), "{text}");
        }
        for text in ["env_key = \"NAME\"", "keys: 1", "key:\nb: 1", "api-key: \"sk-pointsman-development\"\r\n"] {
            assert!(!has_key(text), "{}", masked(text));
        }
    }
}
