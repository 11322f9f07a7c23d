//! What is made from the definition of the command line: completions, the man page, `docs/CLI.md`.

use std::ffi::OsString;

use clap::{Command, CommandFactory};
use clap_complete::{CompleteEnv, Shell, env::Shells};
use clap_mangen::Man;

use super::arguments::Arguments;

/// The variable by which a shell asks the program for completions.
const ASKED: &str = "POINTSMAN_COMPLETE";
const NAME: &str = "pointsman";

/// The completions for a shell: lines that ask the program, so that they follow its version and its configuration.
pub(super) fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    if let Some(shell) = Shells::builtins().completer(&shell.to_string()) {
        // Writing to a vector cannot fail.
        let _ = shell.write_registration(ASKED, NAME, NAME, NAME, &mut script);
    }
    String::from_utf8_lossy(&script).into_owned()
}

/// Answers a shell that asks for completions, and says whether one did.
pub fn complete(arguments: impl IntoIterator<Item = OsString>) -> bool {
    let directory = std::env::current_dir().ok();
    let shell = CompleteEnv::with_factory(Arguments::command).var(ASKED).bin(NAME);
    // A shell that is unknown gets nothing.
    shell.try_complete(arguments, directory.as_deref()).unwrap_or(true)
}

/// The man page, with a section for each command.
pub(super) fn man() -> String {
    let mut command = Arguments::command();
    command.build();
    let mut page = Vec::new();
    // Writing to a vector cannot fail.
    let _ = Man::new(command.clone()).render(&mut page);
    let mut page = String::from_utf8_lossy(&page).into_owned();
    shown(&command).for_each(|below| section(&mut page, below));
    page
}

/// The commands below this one that help lists.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
}

/// What a command does and takes, and the commands below it.
fn section(page: &mut String, command: &Command) {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    // Writing to a vector cannot fail.
    let _ = man.render_description_section(&mut text);
    let _ = man.render_synopsis_section(&mut text);
    let _ = man.render_options_section(&mut text);
    let text = String::from_utf8_lossy(&text).replace("\n.SH ", "\n.SS ").replace(".SH DESCRIPTION\n", "");
    page.push_str(&format!(".SH {}\n{text}", command.get_bin_name().unwrap_or_default().to_uppercase()));
    shown(command).for_each(|below| section(page, below));
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fmt::Write as _};

    use super::*;

    /// The help of the command and of those below it.
    fn describe(text: &mut String, command: &mut Command) {
        let name = command.get_bin_name().unwrap_or("pointsman").to_owned();
        let help = command.render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        writeln!(text, "\n## `{name}`\n\n```text\n{}\n```", help.join("\n").trim()).unwrap();
        let is_shown = |below: &&mut Command| !below.is_hide_set() && below.get_name() != "help";
        command.get_subcommands_mut().filter(is_shown).for_each(|below| describe(text, below));
    }

    #[test]
    fn the_written_reference_says_what_the_command_line_takes() {
        let mut command = Arguments::command();
        command.build();
        let mut text = String::from(
            "# Command line\n\nMade from the definition of the command line, and compared with it by a test;\n\
             `UPDATE_EXPECT=1 cargo test --lib reference` writes it anew.\n",
        );
        describe(&mut text, &mut command);
        expect_test::expect_file!["../../../docs/CLI.md"].assert_eq(&text);
    }

    /// The commands that print results without `--json`: a server, scripts, pages and texts, lines to write, and records that are JSON or CSV anyway.
    const WITHOUT_JSON: [&str; 7] = ["serve", "completions", "man", "licenses", "schema", "export", "import"];

    /// `inherits`: the option of a command above holds for this one too.
    fn assert_json(command: &Command, inherits: bool) {
        let has = inherits || command.get_arguments().any(|argument| argument.get_id() == "json");
        let below: Vec<&Command> =
            command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help").collect();
        if below.is_empty() && !WITHOUT_JSON.contains(&command.get_name()) {
            assert!(has, "{}", command.get_name());
        }
        below.into_iter().for_each(|below| assert_json(below, has));
    }

    #[test]
    fn every_command_that_prints_a_result_prints_it_as_json_too() {
        assert_json(&Arguments::command(), false);
    }

    /// What a shell is offered behind these words.
    fn offered(words: &[&str]) -> BTreeSet<String> {
        let line = std::iter::once(&NAME).chain(words).map(OsString::from).collect();
        let found = clap_complete::engine::complete(&mut Arguments::command(), line, words.len(), None).unwrap();
        found.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    fn compare(command: &Command, path: &[&str], page: &str) {
        let name = command.get_bin_name().unwrap_or(NAME);
        let options = command.get_arguments().filter(|argument| !argument.is_hide_set());
        let options: BTreeSet<String> =
            options.filter_map(|argument| Some(format!("--{}", argument.get_long()?))).collect();
        let below: BTreeSet<String> = shown(command).map(|below| below.get_name().to_owned()).collect();
        let is_below = |word: &String| !word.starts_with('-') && word != "help";
        assert_eq!(offered(&[path, &["--"]].concat()), options, "{name}");
        if !below.is_empty() {
            let offered: BTreeSet<String> = offered(&[path, &[""]].concat()).into_iter().filter(is_below).collect();
            assert_eq!(offered, below, "{name}");
        }
        let heading = format!("\n.SH {}\n", name.to_uppercase());
        let section = if path.is_empty() { Some(page) } else { page.split(&heading).nth(1) };
        let section = section.and_then(|section| section.split("\n.SH POINTSMAN").next());
        let section = section.unwrap_or_else(|| panic!("no section of {name}: {page}"));
        for option in &options {
            assert!(section.contains(option), "{option} of {name}: {section}");
        }
        shown(command).for_each(|inner| compare(inner, &[path, &[inner.get_name()]].concat(), page));
    }

    /// What help lists is in docs/CLI.md, see above.
    #[test]
    fn help_completions_and_man_page_have_the_same_commands_and_options() {
        let mut command = Arguments::command();
        command.build();
        compare(&command, &[], &man().replace('\\', ""));
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            assert!(completions(shell).contains(ASKED), "{shell}");
        }
    }
}
