//! What is made from the definition of the command line: completions, the man page, `docs/CLI.md`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::arguments::Arguments;

/// The completions for a shell.
pub(super) fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "pointsman", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The man page.
pub(super) fn man() -> String {
    let mut page = Vec::new();
    // Writing to a vector cannot fail.
    let _ = clap_mangen::Man::new(Arguments::command()).render(&mut page);
    String::from_utf8_lossy(&page).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use clap::Command;

    use super::*;

    /// The help of the command and of those below it.
    fn describe(text: &mut String, command: &mut Command) {
        let name = command.get_bin_name().unwrap_or("pointsman").to_owned();
        let help = command.render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        writeln!(text, "\n## `{name}`\n\n```text\n{}\n```", help.join("\n").trim()).unwrap();
        let shown = |below: &&mut Command| !below.is_hide_set() && below.get_name() != "help";
        command.get_subcommands_mut().filter(shown).for_each(|below| describe(text, below));
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

    /// The commands that print results without `--json`: a server, scripts and pages, and records that are JSON or CSV anyway.
    const WITHOUT_JSON: [&str; 4] = ["serve", "completions", "man", "export"];

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

    #[test]
    fn completions_and_man_page_name_every_command() {
        let page = man().replace('\\', "");
        for command in Arguments::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                assert!(completions(shell).contains(name), "{shell} {name}");
            }
            assert!(page.contains(&format!("pointsman-{name}")), "{name}: {page}");
        }
    }
}
