//! Latency targets on measured calls, which are made up here.

#[cfg(test)]
mod tests {
    use std::process::Command;

    use pointsman_domain::{Objective, Percentile};
    use pointsman_oracle::{
        dice::Dice,
        latency::{Question, Verdict, judge},
        measured::{Ladder, MeasuredSet},
        rules::policy,
    };

    const HEADER: &str = "provider,model,out_tok,ttft_s,e2e_s,err,failed\n";

    /// Calls of a provider: median of the first token, and how many of 40 are refused with a 429.
    fn calls(provider: &str, median: f64, refused: usize) -> String {
        let mut dice = Dice::new(3, provider.len() as u64);
        let call = |number: usize| {
            let first = median * dice.between(0.8, 1.2);
            match number < refused {
                true => format!("{provider},m,0,,,429,1\n"),
                false => format!("{provider},m,150,{first},{},0,0\n", first + 1.5),
            }
        };
        (0..40).map(call).collect()
    }

    fn set(providers: &[(&str, f64, usize)]) -> MeasuredSet {
        let calls: String = providers.iter().map(|(name, median, refused)| calls(name, *median, *refused)).collect();
        MeasuredSet::of_llmperf(&format!("{HEADER}{calls}")).unwrap().remove(0)
    }

    fn under(set: &MeasuredSet, bound: f64, objective: Objective) -> Option<Verdict> {
        let question = Question { target: (Percentile::P95, bound), objective, ladder: Ladder::SlowerIsCheaper };
        judge(set, &question, 1, &policy())
    }

    #[test]
    fn a_target_is_held_at_the_cost_of_the_cheapest_that_holds_it_beside_one_that_refuses_most() {
        let set = set(&[("quick", 0.2, 0), ("middling", 0.5, 0), ("slow", 2.0, 0), ("refusing", 0.5, 34)]);
        assert_eq!((set.name.as_str(), set.endpoints.len(), set.calls.len()), ("LLMPerf m", 4, 1));
        let verdict = under(&set, 0.8, Objective::Cheapest).unwrap();
        assert_eq!((verdict.windows, verdict.clairvoyant_held), (12, 12));
        assert!(verdict.is_reached(), "{verdict:?}");
        assert!(verdict.relative_cost() > 0.9, "nobody is much cheaper: {verdict:?}");
    }

    #[test]
    fn a_target_that_nobody_holds_is_not_judged() {
        let set = set(&[("quick", 0.2, 4), ("slow", 2.0, 0)]);
        assert_eq!(under(&set, 0.3, Objective::Cheapest), None);
        assert!(under(&set, 2.5, Objective::Balanced).is_some());
    }

    #[test]
    fn runs_are_parts_of_the_time_and_a_route_that_one_lacks_draws_from_the_others() {
        let table = "run,route,ttft_ms,out_tok,tok_per_s\nmon,a,500,100,100\ntue,a,900,50,100\ntue,b,700,75,100\n";
        let set = MeasuredSet::of_computesdk(table).unwrap().remove(0);
        let first = |part: usize, endpoint: usize| pointsman_oracle::measured::times(&set.calls[part][endpoint][0]);
        assert_eq!((first(0, 0), first(1, 0)), ((0.5, 2.0), (0.9, 2.4)));
        assert_eq!(first(0, 1), first(1, 1));
        let world = set.world(Ladder::Drawn, Objective::Cheapest, 1);
        assert_eq!((world.part(0.0), world.part(1799.0), world.part(1801.0), world.part(1e9)), (0, 0, 1, 1));
    }

    #[test]
    fn a_table_that_lacks_a_column_or_a_figure_is_refused_by_name() {
        let refused = |table: &str| MeasuredSet::of_llmperf(table).unwrap_err();
        assert_eq!(refused(""), "llmperf is empty");
        assert_eq!(refused("provider,model\na,m\n"), "llmperf has no column failed");
        let broken = format!("{HEADER}a,m,150,0.2,-1,0,0\n");
        assert_eq!(refused(&broken), "llmperf, line 2: column e2e_s is no number");
    }

    #[test]
    fn without_data_the_commands_say_which_file_they_need() {
        for (command, file) in [("latency", "llmperf.csv.gz"), ("sticky", "mooncake.csv.gz")] {
            let output = Command::new(env!("CARGO_BIN_EXE_oracle")).arg(command).output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success() && error.contains(file), "{error}");
            assert!(error.contains("docs/BENCHMARKS.md"), "{error}");
        }
    }
}
