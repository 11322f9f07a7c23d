//! Rules of the house that neither cargo nor clippy checks: no clock, file or log below the purity line, rooms without circles
//! within a crate, the one home of status codes, the size of files, the map of the code.

#[cfg(test)]
#[expect(clippy::string_slice, reason = "positions come from searches in the same text")]
mod tidy {
    use std::{
        collections::{BTreeMap, BTreeSet},
        fs,
        path::{Path, PathBuf},
        process::Command,
    };

    /// Longest file, in lines.
    const LONGEST: usize = 620;
    /// What may not be named below the purity line. Crates with I/O or chance are not among the dependencies there.
    const IMPURE: [&str; 9] = [
        "Instant::now",
        "SystemTime",
        "Utc::now",
        "std::net",
        "std::fs",
        "std::io",
        "std::env",
        "std::thread",
        "std::process",
    ];
    /// The crates below the line.
    const PURE: [&str; 3] = ["crates/domain/src", "crates/dialect/src", "crates/routing/src"];
    /// The sources of all crates of the product.
    const CRATES: [&str; 10] = [
        "src",
        "actors/src",
        "crates/base/src",
        "crates/config/src",
        "crates/dialect/src",
        "crates/domain/src",
        "crates/ledger/src",
        "crates/routing/src",
        "crates/simulation/src",
        "crates/transport/src",
    ];
    /// The rooms of a crate, and the rooms that each may use. Which crates a crate may use stands in its manifest.
    type Rooms = &'static [(&'static str, &'static [&'static str])];
    /// A room within a room is named with both.
    const ROUTING_ROOMS: Rooms = &[
        ("stats/seeded_hash", &[]),
        ("quality", &["stats/seeded_hash"]),
        ("spend_pace", &[]),
        ("stats/model", &["stats/seeded_hash"]),
        ("stats/live", &["stats/seeded_hash", "stats/model"]),
        ("stats/observe", &["stats/seeded_hash", "stats/model", "stats/live"]),
        ("stats/persist", &["stats/model", "stats/observe", "spend_pace"]),
        ("stats/publish", &["stats/model", "stats/live", "stats/observe", "stats/persist", "quality"]),
        ("stats/sessions", &["stats/seeded_hash"]),
        ("stats/targets", &["stats/seeded_hash", "stats/observe"]),
        ("decide", &["stats", "quality"]),
        ("split", &["stats"]),
        ("explain", &["stats", "decide", "split", "quality"]),
    ];
    const SERVER_ROOMS: Rooms = &[
        ("base", &[]),
        ("access", &["base"]),
        ("state", &["base", "access"]),
        ("proxy", &["base", "access", "state"]),
        ("api", &["base", "access", "state", "proxy"]),
        ("console", &["base", "access", "state", "proxy", "api"]),
        ("http", &["base", "access", "state", "proxy", "api", "console"]),
        ("app", &["base", "access", "state", "proxy", "api", "console", "http"]),
    ];
    /// The crates with rooms.
    const CRATES_WITH_ROOMS: [(&str, Rooms); 2] = [("crates/routing/src", ROUTING_ROOMS), ("src", SERVER_ROOMS)];
    /// The rooms and files of `dialect`, from below. Each uses those above it in this list; what is not in it uses all.
    const DIALECT_LAYERS: [&[&str]; 9] = [
        &["json", "percent", "image_shape", "answer", "sanitize"],
        &["frame", "image_list", "stream_error", "gateway_fields"],
        &["neutral"],
        &["claude", "refusal", "body_edits"],
        &["anthropic", "responses", "gemini", "converse"],
        &["stream_reader", "reasoning_format"],
        &["outgoing"],
        &["client_request"],
        &["openai"],
    ];
    /// Most entries of `src`: rooms, `lib.rs` and `main.rs`.
    const MOST_ENTRIES: usize = 10;
    /// Where status codes are known: the home of errors, the page that answers 503 by its nature, the one that
    /// answers 201, the one that answers 202, and the one that makes pages of the console.
    const STATUS_CODES: [&str; 5] = [
        "src/base/error.rs",
        "src/base/error/",
        "src/api/health/gateway_health.rs",
        "src/api/keys/issued_keys.rs",
        "src/console/answer.rs",
    ];

    /// A source file: its path below the root, and its lines.
    struct Source {
        path: String,
        text: String,
    }

    impl Source {
        /// Its lines in use: comments left out, and everything from the tests at its end on.
        fn code(&self) -> impl Iterator<Item = (usize, &str)> {
            let lines = self.text.lines().enumerate();
            let lines =
                lines.take_while(|(_, line)| !line.starts_with("mod tests {")).map(|(at, line)| (at, line.trim()));
            lines.filter(|(_, line)| !line.starts_with("//")).map(|(number, line)| (number + 1, line))
        }

        /// The same without whitespace, so that a list over several lines reads as one.
        fn dense(&self) -> String {
            self.code().flat_map(|(_, line)| line.chars()).filter(|c| !c.is_whitespace()).collect()
        }
    }

    fn sources(below: &str) -> Vec<Source> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut paths = Vec::new();
        collect(&root.join(below), &mut paths);
        assert!(!paths.is_empty(), "nothing below {below}");
        let source = |path: PathBuf| Source {
            text: fs::read_to_string(&path).unwrap(),
            path: path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(),
        };
        paths.into_iter().map(source).collect()
    }

    fn collect(directory: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push(path);
            }
        }
    }

    #[track_caller]
    fn none(what: &str, found: &[String]) {
        assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
    }

    #[test]
    fn below_the_purity_line_there_is_no_clock_and_no_io() {
        let mut found = Vec::new();
        for source in PURE.into_iter().flat_map(sources) {
            for (number, line) in source.code() {
                let impure = IMPURE.iter().filter(|word| names(line, word));
                found.extend(impure.map(|word| format!("{}:{number}: {word}: {line}", source.path)));
            }
        }
        none("impure", &found);
    }

    /// Whether a line holds `word`, not as the end of a longer one.
    fn names(line: &str, word: &str) -> bool {
        let inside = |c: char| c.is_alphanumeric() || c == '_';
        let mut before = line.split(word).collect::<Vec<_>>();
        before.pop();
        before.iter().any(|text| !text.ends_with(inside))
    }

    #[test]
    fn a_room_uses_only_the_rooms_that_the_table_allows() {
        let mut found = Vec::new();
        for (root, rooms) in CRATES_WITH_ROOMS {
            for (module, uses) in graph(root) {
                let Some((room, allowed)) = room_of(rooms, &module) else { continue };
                for used in uses {
                    let Some((other, _)) = room_of(rooms, &used) else { continue };
                    let within = |outer: &str| other == outer || other.starts_with(&format!("{outer}/"));
                    if other != room && !allowed.iter().any(|outer| within(outer)) {
                        found.push(format!("{root}: {module} ({room}) uses {used} ({other})"));
                    }
                }
            }
        }
        none("rooms out of order", &found);
    }

    #[test]
    fn within_dialect_imports_lead_downwards() {
        let room = |module: &str| module.split('/').next().unwrap_or_default().to_owned();
        let level = |module: &str| DIALECT_LAYERS.iter().position(|rooms| rooms.contains(&&*room(module)));
        let mut found = Vec::new();
        for (module, uses) in graph("crates/dialect/src") {
            let Some(own) = level(&module).filter(|_| !module.split('/').any(|part| part == "tests")) else { continue };
            let upwards =
                uses.iter().filter(|used| room(used) != room(&module) && level(used).is_none_or(|it| it >= own));
            found.extend(upwards.map(|used| format!("{module} uses {used}")));
        }
        none("imports that run backwards", &found);
    }

    #[test]
    fn every_file_belongs_to_a_room_and_the_rooms_of_the_server_are_few() {
        let mut found = Vec::new();
        for (root, rooms) in CRATES_WITH_ROOMS {
            let homeless = graph(root).into_keys().filter(|module| room_of(rooms, module).is_none());
            // The roots of the crates, and of a room made of rooms.
            found.extend(homeless.filter(|module| !["", "main", "stats"].contains(&module.as_str())));
        }
        none("in no room", &found);
        let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap().count();
        assert!(entries <= MOST_ENTRIES, "src has {entries} entries");
    }

    #[test]
    fn no_file_imports_itself_through_others() {
        let mut found = Vec::new();
        for root in CRATES {
            let mut uses = graph(root);
            // A module and the parts it is made of may know each other.
            let is_part = |part: &str, whole: &str| part.starts_with(&format!("{whole}/"));
            for (file, used) in &mut uses {
                used.retain(|other| !is_part(file, other) && !is_part(other, file));
            }
            for (file, used) in &uses {
                let back = used.iter().filter(|other| reaches(&uses, other, file));
                found.extend(back.map(|other| format!("{root}: {file} uses {other}, which leads back to it")));
            }
        }
        none("import circles", &found);
    }

    /// Whether imports lead from one file to another.
    fn reaches(uses: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![from.to_owned()];
        while let Some(file) = open.pop() {
            if file == to {
                return true;
            }
            if seen.insert(file.clone()) {
                open.extend(uses.get(&file).into_iter().flatten().cloned());
            }
        }
        false
    }

    /// The room that a module belongs to: the longest name that its path begins with.
    fn room_of<'t>(rooms: &[(&'t str, &'t [&'t str])], module: &str) -> Option<(&'t str, &'t [&'t str])> {
        let inside = |room: &str| module == room || module.starts_with(&format!("{room}/"));
        rooms.iter().filter(|(room, _)| inside(room)).max_by_key(|(room, _)| room.len()).copied()
    }

    /// Every module of a crate, as `room/module`, with the modules that its paths lead to. A path leads to the module that
    /// it names, also where that passes on an item of another: inside a room, import from the file that defines it.
    fn graph(root: &str) -> BTreeMap<String, BTreeSet<String>> {
        let sources = sources(root);
        let name = |source: &Source| {
            let path = source.path.trim_start_matches(root).trim_start_matches('/').trim_end_matches(".rs");
            path.trim_end_matches("mod").trim_end_matches("lib").trim_end_matches('/').to_owned()
        };
        let modules: BTreeSet<String> = sources.iter().map(name).collect();
        let lead = |module: &str, path: &[String]| {
            let full = absolute(module, path, &modules)?;
            (0..=full.len()).rev().map(|length| full[..length].join("/")).find(|prefix| modules.contains(prefix))
        };
        let mut graph = BTreeMap::new();
        for source in &sources {
            let module = name(source);
            let mut used: BTreeSet<String> =
                paths(&source.dense()).iter().filter_map(|path| lead(&module, path)).collect();
            used.remove(&module);
            used.remove("");
            graph.insert(module, used);
        }
        graph
    }

    /// A path from the root of the crate; `None` for what is not of this crate.
    fn absolute(module: &str, path: &[String], modules: &BTreeSet<String>) -> Option<Vec<String>> {
        let mut base: Vec<String> = module.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let supers = path.iter().take_while(|part| *part == "super").count();
        match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "super" => base.truncate(base.len().saturating_sub(supers)),
            "self" => return Some([base, path[1..].to_vec()].concat()),
            child => {
                let mut child_module = base.clone();
                child_module.push(child.to_owned());
                modules.contains(&child_module.join("/")).then_some(())?;
            }
        }
        Some([base, path[supers..].to_vec()].concat())
    }

    /// Every path in code without whitespace, lists of several written out.
    fn paths(dense: &str) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        let mut rest = dense;
        while let Some(at) = rest.find("::") {
            let head: String = rest[..at].chars().rev().take_while(|c| is_word(*c)).collect();
            let head: String = head.chars().rev().collect();
            // Without whitespace `use` and `pub use` stick to what follows.
            let head = ["crate", "super", "self"]
                .into_iter()
                .find(|word| head.ends_with(word))
                .map_or_else(|| head.rsplit("use").next().unwrap_or_default().to_owned(), str::to_owned);
            let read = expand(&rest[at + 2..], std::slice::from_ref(&head), &mut found);
            rest = &rest[at + 2 + read..];
        }
        found
    }

    /// Reads what follows `prefix::` and gives its length.
    fn expand(text: &str, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
        if let Some(list) = text.strip_prefix('{') {
            let mut at = 0;
            while at < list.len() && !list[at..].starts_with('}') {
                at += expand(&list[at..], prefix, found).max(1);
                at += usize::from(list[at..].starts_with(','));
            }
            return at + 2.min(text.len());
        }
        let word: String = text.chars().take_while(|c| is_word(*c)).collect();
        let path = [prefix, std::slice::from_ref(&word)].concat();
        let after = &text[word.len()..];
        match after.strip_prefix("::") {
            Some(deeper) if !word.is_empty() => word.len() + 2 + expand(deeper, &path, found),
            _ => {
                found.push(path);
                word.len()
            }
        }
    }

    fn is_word(c: char) -> bool {
        c.is_alphanumeric() || c == '_'
    }

    #[test]
    fn paths_are_found_in_every_form() {
        let code = "usecrate::{a::{b,c::{d}},e::f,g,};letx=crate::h::i(crate::j);pubusesuper::k;l::m();";
        let found: Vec<String> = paths(code).iter().map(|path| path.join("::")).collect();
        for path in
            ["crate::a::b", "crate::a::c::d", "crate::e::f", "crate::g", "crate::h::i", "crate::j", "super::k", "l::m"]
        {
            assert!(found.iter().any(|other| other == path), "{path}: {found:?}");
        }
        assert_eq!(found.len(), 8, "{found:?}");
    }

    #[test]
    fn errors_get_their_status_in_one_place() {
        let mut found = Vec::new();
        for source in sources("src") {
            if STATUS_CODES.iter().any(|home| source.path.starts_with(home)) {
                continue;
            }
            for (number, line) in source.code() {
                if line.contains("StatusCode") || answers_otherwise(line) {
                    found.push(format!("{}:{number}: {line}", source.path));
                }
            }
        }
        none("status codes elsewhere", &found);
    }

    /// Whether a line begins an answer that is neither a success, nor "you have it", nor "see there".
    fn answers_otherwise(line: &str) -> bool {
        line.split("HttpResponse::").skip(1).any(|rest| {
            !["Ok()", "Accepted()", "NotModified()", "SeeOther()"].iter().any(|good| rest.starts_with(good))
        })
    }

    #[test]
    fn no_file_is_longer_than_a_reader_can_hold() {
        let all = CRATES.into_iter().flat_map(sources);
        let long = all.map(|source| (source.text.lines().count(), source.path)).filter(|(lines, _)| *lines > LONGEST);
        none(
            "too long: split by subject",
            &long.map(|(lines, path)| format!("{path}: {lines} lines")).collect::<Vec<_>>(),
        );
    }

    /// `cargo package --list` names every file that is compiled in, those of the console among them.
    #[test]
    fn everything_that_is_compiled_in_is_in_the_package() {
        let arguments = ["package", "--list", "--allow-dirty", "--offline", "--package", "pointsman"];
        let listed =
            Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        let listed = String::from_utf8(listed.stdout).unwrap();
        let packed: BTreeSet<&str> = listed.lines().collect();
        let mut compiled_in = 0;
        for source in sources("src").iter().chain(&sources("tests")) {
            for macro_name in ["include_str!(\"", "include_bytes!(\""] {
                for rest in source.text.split(macro_name).skip(1) {
                    // Calls with `concat!` and the names of these macros in texts have other arguments.
                    let Some((name, _)) = rest.split_once("\")") else { continue };
                    let mut path: Vec<&str> = source.path.split('/').collect();
                    path.pop();
                    for part in name.split('/') {
                        match part {
                            ".." => drop(path.pop()),
                            part => path.push(part),
                        }
                    }
                    let path = path.join("/");
                    assert!(packed.contains(&*path), "{}: {path} is not in the package", source.path);
                    compiled_in += 1;
                }
            }
        }
        assert!(compiled_in > 20 && packed.contains("src/console/console.js"), "{compiled_in}");
    }

    /// Tables of the map: the crates of its last column are those in the manifest.
    #[test]
    fn a_crate_uses_the_crates_that_the_map_names() {
        let map = include_str!("../docs/ARCHITECTURE.md");
        let mut found = Vec::new();
        let mut crates = 0;
        for row in map.lines().filter(|row| row.starts_with("| `crates/") || row.starts_with("| `actors`")) {
            let [directory, .., uses] = row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>()[..] else {
                continue;
            };
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory.trim_matches('`'));
            let Ok(manifest) = fs::read_to_string(root.join("Cargo.toml")) else { continue };
            let used: BTreeSet<&str> = manifest
                .split("[dev-dependencies]")
                .next()
                .unwrap()
                .lines()
                .filter_map(|line| line.strip_prefix("pointsman-")?.split(['.', ' ']).next())
                .collect();
            let named: BTreeSet<&str> = uses.split(", ").filter(|name| *name != "–").collect();
            if used != named {
                found.push(format!("{directory} uses {used:?}, the map names {named:?}"));
            }
            crates += 1;
        }
        none("docs/ARCHITECTURE.md and the manifests", &found);
        assert_eq!(crates, CRATES.len() - 1, "all crates but the server");
    }

    /// Names in the map are whole paths, or their ends: `proxy/dispatch/cost`, `breaker.rs`.
    #[test]
    fn the_map_names_no_file_that_is_gone() {
        let known: Vec<String> = CRATES
            .into_iter()
            .chain(["tests", "examples"])
            .flat_map(sources)
            .map(|source| format!("/{}", source.path))
            .collect();
        let is_known = |name: &str| {
            let (file, directory) = (format!("/{}.rs", name.trim_end_matches(".rs")), format!("/{name}/"));
            Path::new(env!("CARGO_MANIFEST_DIR")).join(name).is_dir()
                || known.iter().any(|path| path.ends_with(&file) || path.contains(&directory.replace("//", "/")))
        };
        let map = include_str!("../docs/ARCHITECTURE.md");
        let names = map.split('`').skip(1).step_by(2).filter(|name| {
            let is_path = name.chars().all(|c| c.is_ascii_lowercase() || "/._".contains(c));
            is_path && !name.starts_with('/') && (name.ends_with(".rs") || (name.contains('/') && !name.contains('.')))
        });
        let gone: Vec<String> = names.filter(|name| !is_known(name)).map(str::to_owned).collect();
        none("docs/ARCHITECTURE.md names what is gone", &gone);
    }
}
