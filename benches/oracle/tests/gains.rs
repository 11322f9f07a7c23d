//! What two models gain by class and length, on answers that are made up here, and on copies of the two repositories.

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
        process::Command,
    };

    use pointsman_oracle::quality::{
        gains::{Gain, gains, priced, readable, sheets},
        sources::Source,
    };

    /// A directory that is removed with its owner.
    struct Copy(PathBuf);

    impl Copy {
        fn new(name: &str) -> Copy {
            let directory = std::env::temp_dir().join(format!("gains-{name}-{}", std::process::id()));
            _ = fs::remove_dir_all(&directory);
            Copy(directory)
        }

        fn with(self, file: &str, text: &str) -> Copy {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }
    }

    impl Drop for Copy {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    const HEADER: &str = "prompt,mistralai/Mixtral-8x7B-Instruct-v0.1,gpt-4-1106-preview\n";
    const TEXT: &str = "How many of these are right, said the teacher to the class?";
    const CODE: &str = "\"What does this do?\nf(x) { return g(x); } h({}); {};\"";

    /// Questions of which the strong model alone is right, in code, and as many that both have right.
    fn routellm(name: &str) -> Copy {
        let rows = |row: &str| format!("{HEADER}{}", row.repeat(1_000));
        Copy::new(name)
            .with("routellm/evals/mmlu/responses/mmlu_computer_security.csv", &rows(&format!("{CODE},False,True\n")))
            .with("routellm/evals/mmlu/responses/mmlu_high_school_mathematics.csv", &rows("2 + 2 = ?,True,False\n"))
            .with("routellm/evals/gsm8k/gsm8k_responses.csv", &rows(&format!("\"{TEXT}\",True,True\n")))
    }

    fn routerarena(name: &str, gemini: [f64; 2], haiku: [f64; 2]) -> Copy {
        let lines = |[score, dollars]: [f64; 2]| -> String {
            let line = |n: usize| {
                let score = if n.is_multiple_of(4) { 0.0 } else { score };
                format!(
                    "{{\"global_index\": \"Class_{}_{n}\", \"evaluation_result\": \
                     {{\"score\": {score}, \"inference_cost\": {dollars}}}}}\n",
                    n % 3
                )
            };
            (0..200).map(line).collect()
        };
        Copy::new(name)
            .with("cached_results/gemini-2.0-flash-001.jsonl", &lines(gemini))
            .with("cached_results/claude-3-haiku-20240307.jsonl", &lines(haiku))
    }

    fn of<'g>(gains: &'g [Gain], name: &str) -> &'g Gain {
        gains.iter().find(|gain| gain.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    #[test]
    fn a_class_that_tells_everything_recovers_the_gap_with_half_of_the_strong_calls_and_chance_with_all() {
        let copy = routellm("told");
        let source = readable(Source::routellm(&copy.0).unwrap());
        assert_eq!(source.questions.len(), 2_000, "a prompt of two lines is one question");
        let gains = gains(&source);
        for told in ["detected classes", "five coarse classes, given", "all given classes", "oracle"] {
            let Gain { apgr: [apgr, _], strong_calls, .. } = of(&gains, told);
            assert!((apgr - 0.75).abs() < 0.01, "{told}: {apgr}");
            for (calls, expected) in strong_calls.iter().zip([0.25, 0.4, 0.475, 0.5]) {
                assert!((calls - expected).abs() < 0.02, "{told}: {strong_calls:?}");
            }
        }
        for told_nothing in ["random mix", "three prompt lengths"] {
            let Gain { apgr: [apgr, deviation], strong_calls, .. } = of(&gains, told_nothing);
            assert!((apgr - 0.5).abs() < 0.01 && (0.002..0.03).contains(deviation), "{told_nothing}: {apgr}");
            assert!((strong_calls[1] - 0.8).abs() < 0.02, "{told_nothing}: {strong_calls:?}");
        }
    }

    #[test]
    fn a_file_that_lacks_a_column_or_an_answer_is_refused_by_name_and_line() {
        let refused = |name: &str, table: &str| {
            let copy = routellm(name).with("routellm/evals/gsm8k/gsm8k_responses.csv", table);
            Source::routellm(&copy.0).unwrap_err().to_string()
        };
        let error = refused("column", "prompt,gpt-4-1106-preview\na,True\n");
        assert!(error.ends_with("gsm8k_responses.csv: no column mistralai/Mixtral-8x7B-Instruct-v0.1"), "{error}");
        let error = refused("answer", &format!("{HEADER}a,True,perhaps\n"));
        assert!(error.ends_with("line 2: gpt-4-1106-preview is neither True nor False"), "{error}");
        let copy =
            routerarena("half", [1.0, 1e-5], [1.0, 1e-4]).with("cached_results/claude-3-haiku-20240307.jsonl", "");
        assert_eq!(Source::routerarena(&copy.0).unwrap_err().to_string(), "RouterArena: Class_0_0 has 1 answers");
        let copy = copy.with("cached_results/claude-3-haiku-20240307.jsonl", "{}\n");
        let error = Source::routerarena(&copy.0).unwrap_err().to_string();
        assert!(error.ends_with("line 1 needs global_index, score and inference_cost"), "{error}");
        assert!(Source::routellm(Path::new("/nowhere")).unwrap_err().to_string().starts_with("/nowhere/routellm"));
    }

    #[test]
    fn where_one_model_is_the_best_and_the_cheapest_the_table_shows_no_saving_and_says_that_it_dominates() {
        let shown = |copy: &Copy| {
            let (answers, source) = (routellm("shown"), Source::routerarena(&copy.0).unwrap());
            let mut text = String::new();
            sheets(Source::routellm(&answers.0).unwrap(), &source)[1].text(&mut text).unwrap();
            text
        };
        let text = shown(&routerarena("dominated", [1.0, 1e-5], [0.5, 1e-4]));
        assert!(text.contains("One model dominates: gemini-2.0-flash-001 is the best and the cheapest"), "{text}");
        let saved = text.lines().skip(2).filter_map(|line| line.strip_suffix(" %")?.split_whitespace().last());
        assert!(saved.map(|saved| saved.parse::<f64>().unwrap()).all(|saved| saved <= 0.0), "{text}");
        let text = shown(&routerarena("balanced", [1.0, 1e-4], [0.5, 1e-5]));
        assert!(!text.contains("dominates"), "{text}");
    }

    #[test]
    fn with_one_copy_alone_the_command_says_what_it_needs() {
        let output = Command::new(env!("CARGO_BIN_EXE_oracle")).args(["gains", "--routellm", "/x"]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && error.contains("--routerarena") && error.contains("lm-sys/RouteLLM"),
            "{error}"
        );
    }

    /// APGR as published in the handbook of the project, made of the same answers by another program.
    const PUBLISHED: [(&str, f64); 8] = [
        ("random mix", 0.497),
        ("detected classes", 0.519),
        ("three prompt lengths", 0.550),
        ("detected classes × three lengths", 0.560),
        ("five coarse classes, given", 0.566),
        ("five given classes × three lengths", 0.603),
        ("all given classes", 0.640),
        ("oracle", 1.218),
    ];

    #[test]
    fn the_published_gains_come_out_again_and_detected_classes_by_length_keep_theirs() {
        let source = readable(Source::packed().unwrap()[0].clone());
        assert_eq!((source.questions.len(), source.classes.len()), (15_091, 58));
        let gains = gains(&source);
        for (name, published) in PUBLISHED {
            let [apgr, _] = of(&gains, name).apgr;
            assert!((apgr - published).abs() <= 0.01, "{name}: {apgr} instead of {published}");
        }
        assert!(of(&gains, "detected classes × three lengths").apgr[0] >= 0.54);
    }

    #[test]
    fn in_routerarena_one_model_dominates_and_nothing_is_saved() {
        let judged = priced(&Source::packed().unwrap()[1]);
        assert!(judged.dominance.is_some_and(|sentence| sentence.contains("gemini-2.0-flash-001")));
        let (_, best) = &judged.rows[0];
        assert!(judged.rows.iter().all(|(_, means)| means.dollars >= best.dollars), "{:?}", judged.rows);
        assert!((best.quality - 0.690).abs() < 5e-4 && (best.dollars * 1e3 - 0.0475).abs() < 5e-5, "{best:?}");
    }

    #[test]
    #[ignore = "needs the repositories: ROUTELLM=DIR ROUTERARENA=DIR cargo test -p pointsman-oracle --test gains -- --ignored"]
    fn the_packed_figures_are_those_of_the_repositories() {
        let copy = |name: &str| PathBuf::from(std::env::var_os(name).expect("it names a copy of that repository"));
        let copies = [Source::routellm(&copy("ROUTELLM")).unwrap(), Source::routerarena(&copy("ROUTERARENA")).unwrap()];
        assert_eq!(Source::packed().unwrap(), copies);
    }
}
