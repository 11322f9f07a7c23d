//! What a shell completes.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use crate::{folder::Folder, harness::UNOPTIMISED, patience::takes_less_than};

/// What bash offers for the last of these words, in a directory, by the lines that `pointsman completions bash` prints.
fn offered(directory: &Path, words: &[&str]) -> Vec<String> {
    let binary = Path::new(env!("CARGO_BIN_EXE_pointsman"));
    let (last, before) = (words.last().unwrap(), words[words.len() - 2]);
    let script = format!(
        "source <(pointsman completions bash); COMP_WORDS=({}); COMP_CWORD={}; \
         _clap_complete_pointsman pointsman '{last}' '{before}' 2>/dev/null; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.join(" "),
        words.len() - 1
    );
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash").args(["-c", &script]).env("PATH", path).current_dir(directory).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The figure is that of a released binary, which needs a tenth of this one's time.
#[actix_web::test]
async fn bash_completes_commands_options_and_the_models_and_providers_of_the_configuration() {
    let folder = Folder::new();
    folder.put(
        "config.toml",
        "[simulation]\nmode = \"off\"\n[providers.acme]\nbase_url = \"http://127.0.0.1:1/v1\"\n[[models]]\nid = \"acme/one\"\n\
         context_length = 8000\npricing = \"unknown\"\nendpoints = [{ provider = \"acme\", upstream_model = \"one\" }]\n",
    );
    let here = folder.at("");
    for (words, expected) in [
        (&["pointsman", "ch"][..], &["check"][..]),
        (&["pointsman", "check", "--s"], &["--strict"]),
        (&["pointsman", "preview", "--model", "ac"], &["acme/one"]),
        (&["pointsman", "preview", "-m", "service/f"], &["service/free"]),
        (&["pointsman", "models", "acme"], &["acme", "acme/one"]),
        (&["pointsman", "doctor", "--provider", ""], &["acme"]),
        (&["pointsman", "completions", "ba"], &["bash"]),
        (&["pointsman", "preview", "--model", "nobody"], &[]),
    ] {
        let mut found = offered(&here, words);
        found.sort_unstable();
        assert_eq!(found, expected, "{words:?}");
    }
    let timed = async || {
        let begun = Instant::now();
        assert_eq!(offered(&here, &["pointsman", "preview", "--model", "ac"]), ["acme/one"]);
        begun.elapsed()
    };
    takes_less_than(Duration::from_millis(500) * UNOPTIMISED, "bash with two starts of the program", timed).await;
}

#[test]
fn a_fault_of_the_configuration_and_an_unknown_shell_complete_nothing_and_say_nothing() {
    let folder = Folder::new();
    folder.put("config.toml", "no toml");
    assert!(offered(&folder.at(""), &["pointsman", "preview", "--model", "a"]).is_empty());
    let asked = Command::new(env!("CARGO_BIN_EXE_pointsman"))
        .args(["--", "pointsman", ""])
        .env("POINTSMAN_COMPLETE", "no-such-shell")
        .output()
        .unwrap();
    assert!(asked.status.success() && asked.stdout.is_empty() && asked.stderr.is_empty(), "{asked:?}");
}
