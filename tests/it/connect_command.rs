//! `pointsman connect` in a home of its own.

use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::Value;

use crate::{folder::Folder, process::run};

struct Home(Folder);

impl Home {
    fn new() -> Home {
        Home(Folder::new())
    }

    /// Exit code and what was said, on either stream.
    fn connect(&self, line: &str, more: &[(&str, &str)]) -> (Option<i32>, String) {
        let home = self.0.at("");
        let mut environment = vec![("HOME", home.to_str().unwrap())];
        environment.extend_from_slice(more);
        let arguments: Vec<&str> = std::iter::once("connect").chain(line.split_whitespace()).collect();
        let output = run(&arguments, &environment);
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    fn put(&self, name: &str, text: &str) {
        let file = self.0.at(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.at(name)).ok()
    }
}

/// The agents, their files, and a file of someone who uses them already.
const AGENTS: [(&str, &str, &str); 4] = [
    (
        "claude",
        ".claude/settings.json",
        "{\"theme\": \"dark\",\n \"env\": {\"ANTHROPIC_MODEL\": \"mine\", \"ANTHROPIC_API_KEY\": \"sk-mine\"}}",
    ),
    (
        "codex",
        ".codex/config.toml",
        "model = \"mine\" # best\napproval_policy = \"never\"\n\n[model_providers.own]\nname = \"Own\"\n",
    ),
    (
        "opencode",
        ".config/opencode/opencode.json",
        "{\"provider\": {\"own\": {\"npm\": \"x\"}}, \"autoupdate\": false}",
    ),
    ("aider", ".aider.conf.yml", "# mine\n---\nmodel: gpt\nopenai-api-key: sk-mine\ndark-mode: true\n"),
];

#[test]
fn every_agent_is_connected_and_gets_its_file_back() {
    for (agent, file, mine) in AGENTS {
        let home = Home::new();
        home.put(file, mine);
        let key = [("POINTSMAN_API_KEY", "sk-canary"), ("POINTSMAN_URL", "http://gateway.test:9/api/v1")];
        let (code, said) = home.connect(agent, &key);
        assert_eq!((code, home.read(file).as_deref()), (Some(0), Some(mine)), "nothing is written unasked: {said}");
        let (code, said) = home.connect(&format!("{agent} --yes --model service/x"), &key);
        assert_eq!(code, Some(0), "{said}");
        assert!(
            said.contains("+ ") && said.contains("service/x") && said.contains("http://gateway.test:9/api"),
            "{said}"
        );
        assert!(!said.contains("sk-canary") && !said.contains("sk-mine"), "no key is shown: {said}");
        let written = home.read(file).unwrap();
        assert!(written.contains("http://gateway.test:9/api") && written.contains("service/x"), "{written}");
        let (_, again) = home.connect(&format!("{agent} --yes --model service/x"), &key);
        assert!(again.contains("It has these settings already."), "{again}");
        let (_, page) = home.connect(&format!("{agent} --off --json"), &[]);
        assert!(!page.contains("sk-canary") && !page.contains("sk-mine"), "no key is shown: {page}");
        let page: Value = serde_json::from_str(&page).unwrap();
        assert!(page["written"] == false && page["file"].as_str().unwrap().ends_with(file), "{page}");
        let (code, said) = home.connect(&format!("{agent} --off --yes"), &[]);
        assert_eq!((code, home.read(file).as_deref()), (Some(0), Some(mine)), "{said}");
        assert_eq!(home.read(&format!("{file}.before-pointsman")), None, "no copy is left");
        let (_, again) = home.connect(&format!("{agent} --off --yes"), &[]);
        assert!(again.contains("It has no settings of Pointsman."), "{again}");
    }
}

#[test]
fn a_new_file_is_for_its_owner_alone_and_goes_with_off() {
    for (agent, file, _) in AGENTS {
        let home = Home::new();
        let (code, said) = home.connect(&format!("{agent} --yes"), &[]);
        assert_eq!(code, Some(0), "on this machine the development key is the default: {said}");
        assert_eq!(fs::metadata(home.0.at(file)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(home.connect(&format!("{agent} --off --yes"), &[]).0, Some(0));
        assert_eq!(home.read(file), None);
    }
}

#[test]
fn a_blank_file_stays_and_windows_line_ends_too() {
    for (agent, file, mine) in AGENTS {
        let home = Home::new();
        for text in ["", "\n", &mine.replace('\n', "\r\n")] {
            home.put(file, text);
            home.connect(&format!("{agent} --yes"), &[]);
            let written = home.read(file).unwrap();
            assert_ne!(written, text);
            assert!(!text.contains('\r') || !written.replace("\r\n", "").contains('\n'), "{written:?}");
            home.connect(&format!("{agent} --off --yes"), &[]);
            let back = home.read(file).unwrap();
            assert!(back == text || text.is_empty() && back == "\n", "{back:?}");
        }
    }
}

#[test]
fn what_codex_wrote_between_the_lines_stays() {
    let (home, file) = (Home::new(), ".codex/config.toml");
    home.connect("codex --yes", &[]);
    let added = ["model_reasoning_effort = \"high\"\n", "\n[projects.\"/a\"]\ntrust_level = \"trusted\"\n"];
    let text = home.read(file).unwrap();
    let [top, tables, _] = text.split("# Pointsman ends").collect::<Vec<_>>()[..] else { panic!("{text}") };
    home.put(file, &format!("{top}{}# Pointsman ends{tables}{}# Pointsman ends\n", added[0], added[1]));
    home.connect("codex --yes --model service/x", &[]);
    let written = home.read(file).unwrap();
    assert!(written.contains("service/x") && added.iter().all(|added| written.contains(added)), "{written}");
    home.connect("codex --off --yes", &[]);
    assert_eq!(home.read(file), Some(added.concat()));
}

#[test]
fn a_file_with_a_key_is_for_its_owner_alone_and_a_link_stays_a_link() {
    for (key, mode) in [("sk-pointsman-development", 0o644), ("sk-canary", 0o600)] {
        let (home, file) = (Home::new(), ".claude/settings.json");
        home.put("mine.json", "{}");
        home.put(".claude/other", "");
        let target = home.0.at("mine.json");
        fs::set_permissions(&target, fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink("../mine.json", home.0.at(file)).unwrap();
        let (_, said) = home.connect("claude --yes", &[("POINTSMAN_API_KEY", key)]);
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, mode, "{said}");
        assert_eq!(said.contains("Only you can read the file now"), mode == 0o600, "{said}");
        assert!(home.0.at(file).is_symlink() && home.read("mine.json").unwrap().contains(key));
        assert_eq!(fs::read_dir(home.0.at("")).unwrap().count(), 2, "no temporary file is left");
    }
}

#[test]
fn a_copy_that_is_out_of_date_gives_nothing_back() {
    for (agent, file, mine) in [AGENTS[0], AGENTS[2]] {
        let home = Home::new();
        home.put(file, mine);
        home.connect(&format!("{agent} --yes"), &[]);
        let later = "{\"env\": {\"ANTHROPIC_MODEL\": \"later\"}, \"model\": \"later\"}";
        home.put(file, later);
        for line in ["--off --yes", "--yes", "--off --yes"] {
            let (code, said) = home.connect(&format!("{agent} {line}"), &[]);
            assert_eq!(code, Some(0), "{said}");
        }
        assert_eq!(home.read(file).as_deref(), Some(later));
    }
}

#[test]
fn the_settings_are_those_that_the_agents_read() {
    let home = Home::new();
    for (agent, ..) in AGENTS {
        home.connect(&format!("{agent} --yes"), &[]);
    }
    let json = |file| serde_json::from_str::<Value>(&home.read(file).unwrap()).unwrap();
    let claude = &json(".claude/settings.json")["env"];
    assert_eq!(claude["ANTHROPIC_BASE_URL"], "http://127.0.0.1:8080/api");
    assert_eq!(claude["ANTHROPIC_AUTH_TOKEN"], "sk-pointsman-development");
    let opencode = json(".config/opencode/opencode.json");
    assert_eq!(opencode["model"], "pointsman/service/auto");
    assert_eq!(opencode["provider"]["pointsman"]["options"]["baseURL"], "http://127.0.0.1:8080/api/v1");
    let codex: toml::Table = toml::from_str(&home.read(".codex/config.toml").unwrap()).unwrap();
    assert_eq!(codex["model_provider"].as_str(), Some("pointsman"));
    assert_eq!(codex["model_providers"]["pointsman"]["env_key"].as_str(), Some("POINTSMAN_API_KEY"));
    let aider = home.read(".aider.conf.yml").unwrap();
    assert!(
        aider.contains("model: \"openai/service/auto\"") && aider.contains("show-model-warnings: false"),
        "{aider}"
    );
}

#[test]
fn what_cannot_be_extended_stays_and_the_error_says_why() {
    let home = Home::new();
    for (agent, file, text, why) in [
        ("claude", ".claude/settings.json", "{ // mine\n}", "is not JSON"),
        ("claude", ".claude/settings.json", "{\"env\": []}", "'env' is no object"),
        ("codex", ".codex/config.toml", "[model_providers.pointsman]\nname = \"P\"\n", "cannot be changed"),
        ("aider", ".aider.conf.yml", "files: [\n", "cannot be changed"),
        ("aider", ".aider.conf.yml", "---\na: 1\n---\nb: 1\n", "more than one document"),
        (
            "codex",
            ".codex/config.toml",
            "# Pointsman begins: 'pointsman connect' wrote this, its --off takes it out\nmine = 1\n",
            "is missing",
        ),
    ] {
        home.put(file, text);
        let (code, said) = home.connect(&format!("{agent} --yes"), &[]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(why) && said.contains(file), "{said}");
        assert_eq!(home.read(file).as_deref(), Some(text));
    }
    let (code, said) = home.connect("claude --yes --url https://gateway.test", &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("POINTSMAN_API_KEY is not set"), "{said}");
}
