//! Rules of the house that no compiler checks: the purity line, rooms without circles, the one home of status codes, the
//! size of files.

#[cfg(test)]
mod tidy {
    use std::{
        collections::{BTreeMap, BTreeSet},
        fs,
        path::{Path, PathBuf},
    };

    /// Longest file, in lines.
    const LONGEST: usize = 620;
    /// What may not be named below the purity line.
    const IMPURE: [&str; 14] = [
        "actix",
        "awc",
        "Instant::now",
        "SystemTime",
        "rand::",
        "tokio",
        "log::",
        "std::net",
        "std::fs",
        "std::io",
        "std::env",
        "std::thread",
        "println!",
        "std::process",
    ];
    /// The rooms below the line, and the rooms each may use.
    const ROOMS: [(&str, &[&str]); 4] =
        [("domain", &[]), ("dialect", &["domain"]), ("stats", &["domain"]), ("decide", &["domain", "stats"])];
    /// Every room and actor of the library: what a path in it can begin with.
    const ALL_ROOMS: [&str; 10] =
        ["domain", "dialect", "stats", "decide", "catalog", "provider_health", "router", "ledger", "relay", "keeping"];
    /// Where status codes are known: the home of errors, the page that answers 503 by its nature, and where
    /// answers are read or played rather than given.
    const STATUS_CODES: [&str; 5] =
        ["src/error.rs", "src/error/", "src/api/health.rs", "src/upstream/", "src/simulation/"];

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
    fn below_the_purity_line_there_is_no_actix_clock_chance_io_or_log() {
        let mut found = Vec::new();
        for source in ROOMS.iter().flat_map(|(room, _)| sources(&format!("actors/src/{room}"))) {
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
    fn a_room_uses_only_rooms_below_it() {
        let mut found = Vec::new();
        for (room, allowed) in ROOMS {
            for source in sources(&format!("actors/src/{room}")) {
                let dense = source.dense();
                let named = ALL_ROOMS.iter().filter(|other| **other != room && !allowed.contains(*other));
                let roots = roots(&dense);
                let used = named.filter(|other| roots.iter().any(|root| root == *other));
                found.extend(used.map(|other| format!("{} uses {other}", source.path)));
            }
        }
        none("rooms out of order", &found);
    }

    #[test]
    fn the_rooms_of_the_server_use_each_other_without_circles() {
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for source in sources("src") {
            uses.entry(room(&source.path)).or_default().extend(roots(&source.dense()));
        }
        let rooms: BTreeSet<String> = uses.keys().cloned().collect();
        for (room, used) in &mut uses {
            used.retain(|other| other != room && rooms.contains(other));
        }
        // A room that uses none that is left stands on those below it; what is never taken away stands on itself.
        while let Some(ground) = uses.iter().find(|(_, used)| used.is_empty()).map(|(room, _)| room.clone()) {
            uses.remove(&ground);
            for used in uses.values_mut() {
                used.remove(&ground);
            }
        }
        let circle: Vec<String> = uses.iter().map(|(room, used)| format!("{room} uses {used:?}")).collect();
        none("rooms in circles, or above them", &circle);
    }

    /// The first part of a path below `src`, without its ending.
    fn room(path: &str) -> String {
        path.trim_start_matches("src/").split(['/', '.']).next().unwrap_or_default().to_owned()
    }

    /// What stands first in every path that begins at the library's root, by itself or in a list of several.
    fn roots(dense: &str) -> Vec<String> {
        dense.split("crate::").skip(1).flat_map(firsts).collect()
    }

    /// The first word of the path at the start of `text`, or of each path of the list there.
    fn firsts(text: &str) -> Vec<String> {
        let mut depth = 0_u32;
        let mut outer = String::new();
        for c in text.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth > 1 => depth -= 1,
                '}' | ';' => break,
                _ if depth == u32::from(text.starts_with('{')) => outer.push(c),
                _ => {}
            }
        }
        let word = |path: &str| path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        outer.split(',').map(word).collect()
    }

    #[test]
    fn paths_from_the_root_are_found_in_every_form() {
        let code = "usecrate::{a::{b,c::{d}},e::f,g,};letx=crate::h::i(crate::j);pubusecrate::k;";
        let found = roots(code);
        for name in ["a", "e", "g", "h", "j", "k"] {
            assert!(found.iter().any(|root| root == name), "{name}: {found:?}");
        }
        assert!(["b", "c", "d", "f"].iter().all(|name| !found.iter().any(|root| root == name)), "{found:?}");
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

    /// Whether a line begins an answer that is neither a success nor "you have it".
    fn answers_otherwise(line: &str) -> bool {
        line.split("HttpResponse::")
            .skip(1)
            .any(|rest| !["Ok()", "NotModified()"].iter().any(|good| rest.starts_with(good)))
    }

    #[test]
    fn no_file_is_longer_than_a_reader_can_hold() {
        let all = ["src", "actors/src"].into_iter().flat_map(sources);
        let long = all.map(|source| (source.text.lines().count(), source.path)).filter(|(lines, _)| *lines > LONGEST);
        none(
            "too long: split by subject",
            &long.map(|(lines, path)| format!("{path}: {lines} lines")).collect::<Vec<_>>(),
        );
    }
}
