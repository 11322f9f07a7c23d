//! Facts of the build: commit and its date, compiler, target and features. Without git they are `unknown`, unless the
//! variables `POINTSMAN_REVISION` and `POINTSMAN_REVISION_DATE` give them.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    let directory = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let git = |arguments: &[&str]| output(Command::new("git").current_dir(&directory).args(arguments));
    watch(&directory, git(&["rev-parse", "--absolute-git-dir"]).map(PathBuf::from).as_deref());
    let given = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let revision = given("POINTSMAN_REVISION").or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    let date = given("POINTSMAN_REVISION_DATE").or_else(|| git(&["show", "-s", "--format=%cs", "HEAD"]));
    let compiler = given("RUSTC").and_then(|rustc| output(Command::new(rustc).arg("--version")));
    // `rustc 1.95.0 (59807616e 2026-04-14)`
    let compiler = compiler.as_deref().and_then(|line| line.split(' ').nth(1)).map(str::to_owned);
    let features = env::vars().filter_map(|(name, _)| name.strip_prefix("CARGO_FEATURE_").map(str::to_lowercase));
    let mut features: Vec<String> = features.filter(|name| name != "default").collect();
    features.sort();
    for (name, value) in [
        ("REVISION", revision),
        ("REVISION_DATE", date),
        ("RUSTC", compiler),
        ("TARGET", given("TARGET")),
        ("FEATURES", Some(features.join(",")).filter(|list| !list.is_empty())),
    ] {
        let value = value.filter(|value| is_plain(value)).unwrap_or_else(|| "unknown".to_owned());
        println!("cargo::rustc-env=POINTSMAN_BUILD_{name}={value}");
    }
}

/// Names the files after whose changes the facts are read again. A debug build does not follow every commit, because it
/// would compile the crate again each time.
fn watch(directory: &str, git_directory: Option<&Path>) {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=POINTSMAN_REVISION");
    println!("cargo::rerun-if-env-changed=POINTSMAN_REVISION_DATE");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let log = git_directory.map(|git| git.join("logs").join("HEAD")).filter(|log| is_release && log.exists());
    // A file that is always there, where nothing of git is: without one, cargo would watch the whole package.
    let file = log.unwrap_or_else(|| Path::new(directory).join("Cargo.toml"));
    println!("cargo::rerun-if-changed={}", file.display());
}

/// What a program prints, if it succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Whether the value fits into a line, a label of a metric and a header.
fn is_plain(value: &str) -> bool {
    value.len() <= 100 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.,+".contains(&byte))
}
