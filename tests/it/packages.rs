//! What `deploy` ships: image, compose file, unit, Debian package, chart, release script.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

use crate::{folder::Folder, process};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn file(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Yaml {
    YamlLoader::load_from_str(&file(path)).unwrap_or_else(|error| panic!("{path}: {error}")).remove(0)
}

/// Whether a program can be started here.
fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn every_shipped_configuration_passes_the_check() {
    let chart = yaml("deploy/helm/pointsman/values.yaml");
    let folder = Folder::new();
    folder.put("chart.toml", chart["config"].as_str().unwrap());
    let paths =
        [root().join("deploy/docker/config.toml"), root().join("deploy/debian/config.toml"), folder.at("chart.toml")];
    for path in paths {
        let output = process::run(
            &["check", "--config", path.to_str().unwrap()],
            &[("POINTSMAN_KEY", "sk-test-of-the-image-0123"), ("POINTSMAN__SIMULATION__MODE", "on")],
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}: {said}", path.display());
    }
}

#[test]
fn a_credential_of_systemd_is_accepted_as_the_key_of_a_provider() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    folder.put("openai", "sk-credential-0123456789");
    fs::set_permissions(folder.at("openai"), fs::Permissions::from_mode(0o400)).unwrap();
    let text = file("deploy/debian/config.toml");
    let lines =
        text.lines().filter(|line| line.starts_with("# [providers.openai]") || line.starts_with("# api_key_file"));
    let provider: String = lines.map(|line| line.trim_start_matches("# ").to_owned() + "\n").collect();
    let provider = provider.replace("/run/credentials/pointsman.service/openai", folder.at("openai").to_str().unwrap());
    folder.put("config.toml", &(text + &provider));
    let output = process::run(&["check", "--config", folder.at("config.toml").to_str().unwrap()], &[]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(provider.contains("[providers.openai]") && said.contains("openai"), "{said}");
}

#[test]
fn version_prints_the_facts_of_the_build() {
    let output = process::run(&["--version"], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("pointsman {}", env!("CARGO_PKG_VERSION")));
    for name in ["commit", "date", "rustc", "target", "features"] {
        let value = lines.iter().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        assert!(value.is_some_and(|value| !value.is_empty()), "{name}: {text}");
    }
    assert!(text.contains("rustc: 1."), "{text}");
}

#[test]
fn the_image_is_static_without_a_shell_and_does_not_run_as_root() {
    let text = file("Dockerfile");
    let instructions: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let last = instructions.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    assert!(instructions[last].contains("distroless/static"), "{}", instructions[last]);
    let shipped = &instructions[last..];
    assert!(shipped.contains(&"USER 65532:65532"));
    assert!(shipped.iter().all(|line| !line.starts_with("RUN ") && !line.starts_with("ADD ")), "no shell to run it");
    for line in shipped.iter().filter(|line| line.starts_with("COPY ") && !line.contains("--from=build")) {
        let source = line.split(' ').nth(1).unwrap();
        assert!(root().join(source).exists(), "{line}");
    }
    let ignored = file(".dockerignore");
    for line in ignored.lines().filter_map(|line| line.strip_prefix('!')) {
        assert!(root().join(line).exists(), "{line} of .dockerignore");
    }
    // Everything that the build of the workspace reads reaches it.
    for part in
        ["Cargo.toml", "Cargo.lock", "build.rs", "src", "actors", "benches", "examples", "config.toml", "deploy/docker"]
    {
        assert!(ignored.contains(&format!("!{part}\n")), "{part} does not reach the image");
    }
}

/// What the build of the image names exists, and everything that the build reads is among what it is given.
#[test]
fn the_build_of_the_image_finds_what_it_names() {
    let (text, manifest) = (file("Dockerfile").replace("\\\n", " "), file("Cargo.toml"));
    let manifest: toml::Table = manifest.parse().unwrap();
    let package = &manifest["package"];
    let compiler = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    assert!(text.contains(&format!("FROM rust:{compiler}-alpine AS build\n")), "the compiler that the workspace wants");
    let build = text.lines().find(|line| line.contains("cargo build")).unwrap();
    let name = package["name"].as_str().unwrap();
    assert!(build.contains(&format!("cargo build --release --locked --package {name} --bin {name} ")), "{build}");
    assert!(root().join("src/main.rs").exists() && manifest.get("bin").is_none(), "the binary has the package's name");
    for line in text.lines().filter(|line| line.starts_with("COPY --from=build")) {
        let made = line.split(' ').find(|word| word.starts_with('/')).unwrap();
        assert!(build.ends_with(made) || build.contains(&format!(" {made} ")), "{made} is made by the build");
    }
    let given: Vec<String> =
        file(".dockerignore").lines().filter_map(|line| line.strip_prefix('!')).map(str::to_owned).collect();
    let reaches = |path: &str| given.iter().any(|given| path == given || path.starts_with(&format!("{given}/")));
    for member in manifest["workspace"]["members"].as_array().unwrap() {
        let directory = member.as_str().unwrap().trim_end_matches("/*");
        assert!(reaches(directory), "{member} does not reach the image");
    }
    for (kind, directory) in [("bench", "benches"), ("example", "examples")] {
        for target in manifest[kind].as_array().unwrap() {
            let path = target.get("path").and_then(toml::Value::as_str).unwrap_or(directory);
            assert!(reaches(path), "{path} does not reach the image");
        }
    }
    let of_program = |path: &PathBuf| !path.iter().any(|part| part == "tests");
    for path in
        included(["src", "actors/src", "crates"].map(|directory| root().join(directory))).into_iter().filter(of_program)
    {
        assert!(reaches(path.to_str().unwrap()), "{} does not reach the image", path.display());
    }
}

/// The files that sources below these directories include when they are compiled.
fn included(directories: impl IntoIterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let includes = regex::Regex::new(r#"include_(?:str|bytes)!\(\s*"([^"]+)""#).unwrap();
    let (mut open, mut found) = (Vec::from_iter(directories), BTreeSet::new());
    while let Some(path) = open.pop() {
        if path.is_dir() && !path.ends_with("tests") {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|it| it == "rs") {
            for named in includes.captures_iter(&fs::read_to_string(&path).unwrap()) {
                let named = path.parent().unwrap().join(&named[1]).canonicalize().unwrap();
                found.insert(named.strip_prefix(root().canonicalize().unwrap()).unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn the_compose_file_mounts_files_that_exist_and_publishes_on_loopback_alone() {
    let compose = yaml("deploy/compose.yml");
    let services = compose["services"].as_hash().unwrap();
    for name in ["pointsman", "prometheus", "grafana"] {
        assert!(services.contains_key(&Yaml::from_str(name)), "{name}");
    }
    for (name, service) in services {
        for port in service["ports"].as_vec().into_iter().flatten() {
            assert!(port.as_str().unwrap().starts_with("127.0.0.1:"), "{name:?} publishes {port:?}");
        }
        for volume in service["volumes"].as_vec().into_iter().flatten() {
            let source = volume.as_str().unwrap().split(':').next().unwrap();
            let exists = match source.strip_prefix("./") {
                Some(path) => root().join("deploy").join(path).exists(),
                None => compose["volumes"].as_hash().unwrap().contains_key(&Yaml::from_str(source)),
            };
            assert!(exists, "{name:?} mounts {source}");
        }
    }
    let scrape = yaml("deploy/compose/prometheus.yml");
    assert_eq!(scrape["scrape_configs"][0]["static_configs"][0]["targets"][0].as_str(), Some("pointsman:8080"));
    assert_eq!(yaml("deploy/compose/grafana/datasource.yml")["datasources"][0]["type"].as_str(), Some("prometheus"));
    assert!(yaml("deploy/compose/grafana/dashboards.yml")["providers"][0]["options"]["path"].as_str().is_some());
}

#[test]
fn the_unit_is_accepted_by_systemd_and_closes_what_the_gateway_does_not_need() {
    let unit = file("deploy/systemd/pointsman.service");
    for line in [
        "DynamicUser=yes",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=",
        "RestartPreventExitStatus=2",
        "Type=notify",
        "WatchdogSec=30",
        "ExecReload=/bin/kill -HUP $MAINPID",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    if !is_installed("systemd-analyze") {
        return;
    }
    // The program is not where the package puts it.
    let folder = Folder::new();
    folder.put("pointsman.service", &unit.replace("/usr/bin/pointsman", env!("CARGO_BIN_EXE_pointsman")));
    let path = folder.at("pointsman.service");
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&verify.stderr);
    assert!(!said.lines().any(|line| line.contains("pointsman.service")), "{said}");
    let security = Command::new("systemd-analyze")
        .args(["security", "--offline=yes", "--threshold=20"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(
        security.status.success(),
        "{}{}",
        String::from_utf8_lossy(&security.stdout),
        String::from_utf8_lossy(&security.stderr)
    );
}

#[test]
fn every_file_of_the_debian_package_exists() {
    let manifest: toml::Table = file("Cargo.toml").parse().unwrap();
    let deb = &manifest["package"]["metadata"]["deb"];
    let (mut targets, folder) = (BTreeSet::new(), Folder::new());
    let pages = Command::new(root().join("deploy/release"))
        .args(["pages", env!("CARGO_BIN_EXE_pointsman")])
        .arg(folder.at("pages"))
        .output()
        .unwrap();
    assert!(pages.status.success(), "{}", String::from_utf8_lossy(&pages.stderr));
    for asset in deb["assets"].as_array().unwrap() {
        let (source, target) = (asset[0].as_str().unwrap(), asset[1].as_str().unwrap());
        let exists = match source.strip_prefix("target/pages/") {
            Some(page) => fs::metadata(folder.at("pages").join(page)).is_ok_and(|page| page.len() > 100),
            None => source == "target/release/pointsman" || root().join(source).exists(),
        };
        assert!(exists, "{source}");
        targets.insert(target.to_owned());
    }
    for configuration in deb["conf-files"].as_array().unwrap() {
        assert!(targets.contains(configuration.as_str().unwrap().trim_start_matches('/')), "{configuration}");
    }
    let units = &deb["systemd-units"];
    assert_eq!((units["start"].as_bool(), units["enable"].as_bool()), (Some(false), Some(false)));
    let unit = format!("{}.service", units["unit-name"].as_str().unwrap());
    assert!(root().join(units["unit-scripts"].as_str().unwrap()).join(unit).exists());
    assert!(file("deploy/debian/postrm").contains("#DEBHELPER#"));
}

/// What the program includes when it is compiled is part of the crate; that it compiles without network is
/// what `.ci/run` does.
#[test]
fn the_packaged_crate_holds_every_file_that_its_sources_include() {
    let output = Command::new(env!("CARGO"))
        .args(["package", "--list", "--allow-dirty", "--offline", "--package", "pointsman"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let packaged: BTreeSet<PathBuf> = String::from_utf8(output.stdout).unwrap().lines().map(PathBuf::from).collect();
    let found = included([root().join("src")]);
    let named: Vec<&str> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    for asset in ["console.css", "console.js", "icon.svg", "inference.json", "admin.json"] {
        assert!(named.contains(&asset), "{asset} is not among {named:?}");
    }
    let found: BTreeSet<PathBuf> = found.into_iter().filter(|path| !path.starts_with("tests")).collect();
    assert!(found.is_subset(&packaged), "{:?}", found.difference(&packaged));
}

#[test]
fn the_notice_names_the_licence_of_each_source_of_the_prices_that_are_shipped() {
    const OURS: [&str; 2] = ["invented for the simulation", "runs on your machine"];
    let notice = file("NOTICE");
    let mut sources = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates/config/src/catalog")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        sources.extend(text.split("source = \"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()));
    }
    assert!(sources.len() > 2, "{sources:?}");
    for source in sources.iter().filter(|source| !OURS.contains(&source.as_str())) {
        let name = source.split(" price table").next().unwrap();
        let entry = notice.split("\n* ").find(|entry| entry.contains(&format!("{name} price table")));
        assert!(entry.is_some_and(|entry| entry.contains("MIT, Copyright")), "{source}");
    }
    assert!(notice.contains("Permission is hereby granted") && notice.contains("Azure/AzurePublicDataset"));
}

/// The names `.Values.a.b` in a template.
fn values_of(template: &str) -> impl Iterator<Item = Vec<&str>> {
    let uses = template.split(".Values.").skip(1);
    uses.map(|rest| {
        rest.split(|c: char| !c.is_alphanumeric() && c != '.').next().unwrap_or_default().split('.').collect()
    })
}

#[test]
fn the_templates_of_the_chart_use_only_values_that_exist_and_that_the_schema_describes() {
    let values = yaml("deploy/helm/pointsman/values.yaml");
    let schema: Value = serde_json::from_str(&file("deploy/helm/pointsman/values.schema.json")).unwrap();
    let chart = yaml("deploy/helm/pointsman/Chart.yaml");
    let version = Some(env!("CARGO_PKG_VERSION"));
    assert_eq!((chart["version"].as_str(), chart["appVersion"].as_str()), (version, version));
    let folder = root().join("deploy/helm/pointsman/templates");
    let mut used = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let template = fs::read_to_string(&path).unwrap();
        assert_eq!(template.matches("{{").count(), template.matches("}}").count(), "{}", path.display());
        let opened = ["{{- if ", "{{- with ", "{{- range ", "{{- define "].map(|word| template.matches(word).count());
        assert_eq!(opened.iter().sum::<usize>(), template.matches("{{- end }}").count(), "{}", path.display());
        for name in values_of(&template) {
            used += 1;
            let (mut value, mut described) = (&values, &schema);
            for part in &name {
                value = &value[*part];
                described = &described["properties"][*part];
            }
            assert!(!value.is_badvalue(), "{}: .Values.{}", path.display(), name.join("."));
            assert!(described.is_object(), "{}: the schema lacks {}", path.display(), name.join("."));
        }
    }
    assert!(used > 25, "{used}");
    for (name, _) in values.as_hash().unwrap() {
        assert!(schema["properties"][name.as_str().unwrap()].is_object(), "the schema lacks {name:?}");
    }
    for shipped in ["alerts.yml", "pointsman.json"] {
        assert!(!file(&format!("deploy/helm/pointsman/files/{shipped}")).is_empty(), "{shipped}");
    }
    if is_installed("helm") {
        let mut helm = Command::new("helm");
        helm.args(["template", "test"]).arg(root().join("deploy/helm/pointsman"));
        for name in ["persistence", "autoscaling", "networkPolicy", "metrics.rules", "metrics.dashboard"] {
            helm.args(["--set", &format!("{name}.enabled=true")]);
        }
        let output = helm.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        YamlLoader::load_from_str(&String::from_utf8(output.stdout).unwrap()).unwrap();
    }
}

#[test]
fn the_sbom_lists_the_crates_of_the_binary_and_none_of_the_tests() {
    let missing: Vec<&str> = ["bash", "jq", "cargo"].into_iter().filter(|program| !is_installed(program)).collect();
    if !missing.is_empty() {
        return;
    }
    let folder = Folder::new();
    let path = folder.at("sbom.json");
    let status = Command::new(root().join("deploy/release")).arg("sbom").arg(&path).status().unwrap();
    assert!(status.success());
    let sbom: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!((&sbom["bomFormat"], &sbom["specVersion"]), (&"CycloneDX".into(), &"1.6".into()));
    assert_eq!(sbom["metadata"]["component"]["version"], env!("CARGO_PKG_VERSION"));
    let names: BTreeSet<&str> =
        sbom["components"].as_array().unwrap().iter().map(|crate_| crate_["name"].as_str().unwrap()).collect();
    for name in ["actix-web", "rustls", "rusqlite", "prometheus", "pointsman-actors"] {
        assert!(names.contains(name), "{name}");
    }
    for name in ["criterion", "proptest", "rcgen", "expect-test"] {
        assert!(!names.contains(name), "{name} is for tests");
    }
    let lock: toml::Table = file("Cargo.lock").parse().unwrap();
    let locked: BTreeSet<&str> =
        lock["package"].as_array().unwrap().iter().map(|package| package["name"].as_str().unwrap()).collect();
    assert!(names.is_subset(&locked), "{:?}", names.difference(&locked));
    let components = sbom["components"].as_array().unwrap();
    assert!(components.iter().all(|it| it["licenses"][0]["expression"].as_str().is_some_and(|text| !text.is_empty())));
}

/// The crates of the file that the program shows, with their versions.
fn licensed_crates() -> BTreeSet<(String, String)> {
    let text = file("src/base/licenses.txt");
    let list = text.split("Crates in the program").nth(1).unwrap().split("Copyright lines").next().unwrap();
    let crates = list.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  "));
    let crates = crates.filter_map(|(named, license)| (!license.is_empty()).then(|| named.split_once(' ')).flatten());
    crates.map(|(name, version)| (name.to_owned(), version.to_owned())).collect()
}

#[test]
fn the_licences_that_the_program_shows_are_those_of_its_locked_crates() {
    const REMEDY: &str = "run 'deploy/release licenses'";
    let lock: toml::Table = file("Cargo.lock").parse().unwrap();
    let member = |package: &toml::Value, name: &str| package[name].as_str().unwrap().to_owned();
    let packages = lock["package"].as_array().unwrap().iter();
    let locked: BTreeSet<(String, String)> =
        packages.map(|package| (member(package, "name"), member(package, "version"))).collect();
    let crates = licensed_crates();
    assert!(crates.len() > 200, "{}", crates.len());
    assert!(crates.is_subset(&locked), "{REMEDY}: {:?}", crates.difference(&locked));
    let text = file("src/base/licenses.txt");
    let notice = file("NOTICE");
    assert!(text.starts_with(notice.split("The MIT License").next().unwrap()), "{REMEDY}");
    for license in
        ["Apache License", "Permission is hereby granted, free of charge", "UNICODE LICENSE V3", "BSD 3-Clause"]
    {
        assert!(text.contains(license), "{license}");
    }
}

#[test]
fn every_crate_of_the_sbom_is_among_the_licences() {
    if ["bash", "jq", "cargo"].into_iter().any(|program| !is_installed(program)) {
        return;
    }
    let folder = Folder::new();
    let path = folder.at("sbom.json");
    let target = "x86_64-unknown-linux-musl";
    let status = Command::new(root().join("deploy/release")).arg("sbom").arg(&path).arg(target).status().unwrap();
    assert!(status.success());
    let sbom: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let text = |it: &Value, name: &str| it[name].as_str().unwrap().to_owned();
    let crates = sbom["components"].as_array().unwrap().iter().filter(|it| !text(it, "name").starts_with("pointsman"));
    let crates: BTreeSet<(String, String)> = crates.map(|it| (text(it, "name"), text(it, "version"))).collect();
    assert_eq!(crates, licensed_crates(), "run 'deploy/release licenses'");
}

#[test]
fn a_flipped_byte_in_a_release_file_is_found() {
    if !is_installed("bash") || !is_installed("sha256sum") {
        return;
    }
    let folder = Folder::new();
    folder.put("pointsman.tar.gz", "archive");
    let verify = || {
        let path = folder.at("");
        Command::new(root().join("deploy/release")).arg("verify").arg(path).output().unwrap().status.success()
    };
    let sums = Command::new("sha256sum").current_dir(folder.at("")).arg("pointsman.tar.gz").output().unwrap();
    folder.put("SHA256SUMS", &String::from_utf8(sums.stdout).unwrap());
    assert!(verify());
    folder.put("pointsman.tar.gz", "brchive");
    assert!(!verify());
}
