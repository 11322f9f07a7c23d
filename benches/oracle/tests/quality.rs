//! Routing by quality, on answers that are made up here.

#[cfg(test)]
mod tests {
    use std::process::Command;

    use pointsman_oracle::{
        dice::Dice,
        quality::{
            Judged, judge, learning,
            pacing::{self, Trouble},
            questions::{Means, Mixes, Questions},
            table::{Begin, ClassTable, Classes, Ratings},
        },
    };

    /// Name, dollars, and quality in three classes.
    type Model = (&'static str, f64, [f64; 3]);

    const CHEAP: Model = ("cheap", 0.0001, [0.9, 0.5, 0.3]);
    const MIDDLE: Model = ("middle", 0.0004, [0.9, 0.85, 0.5]);
    const BEST: Model = ("best", 0.004, [0.8, 0.87, 0.9]);

    fn questions(models: &[Model], count: usize) -> Questions {
        let mut dice = Dice::new(7, 1);
        let header = models.iter().map(|(name, ..)| format!(",{name}:q,{name}:usd")).collect::<String>();
        let mut table = format!("row,half,class,chars{header}\n");
        for n in 0..count {
            let class = n % 3;
            table += &format!("{n},{},{},{}", n / 3 % 2, ["chat", "mbpp", "gsm8k"][class], 100 + n % 50);
            for (_, dollars, quality) in models {
                let good = u8::from(dice.uniform() < quality[class]);
                table += &format!(",{good},{}", dollars * dice.between(0.5, 1.5));
            }
            table += "\n";
        }
        Questions::parse("made up", &table, &[]).unwrap()
    }

    fn of<'j>(judged: &'j [Judged], what: &str) -> &'j Judged {
        judged.iter().find(|policy| policy.name.contains(what)).unwrap_or_else(|| panic!("no {what}"))
    }

    #[test]
    fn a_paced_class_table_is_better_than_a_mix_of_singles_and_keeps_its_budget() {
        let questions = questions(&[CHEAP, MIDDLE, BEST], 3_000);
        let verdict = judge(&questions);
        let budget = 0.2 * questions.singles(0)[2].dollars;
        for policy in ["20 %", "60 %"].map(|share| format!("{share} (")) {
            let paced = verdict.judged.iter().filter(|judged| judged.name.starts_with(&policy));
            for paced in paced.filter(|judged| judged.name.contains("paced table") && !judged.name.contains("rated")) {
                assert!(paced.means.quality > paced.mix + 0.005, "{paced:?}");
            }
        }
        let name = format!("20 % ({:.3}): paced table, given classes", budget * 1e3);
        let paced = of(&verdict.judged, &name);
        assert!((paced.means.dollars / budget - 1.0).abs() < 0.01, "{paced:?}, {budget}");
        let best = of(&verdict.judged, "best single: best");
        assert!(paced.at_best.is_some_and(|dollars| dollars < 0.6 * best.means.dollars), "{paced:?}");
        assert!(of(&verdict.judged, "oracle").means.quality >= best.means.quality);
        assert!(verdict.judged.iter().all(|policy| !policy.name.contains("cascade")), "no faults are known");
        assert!(!verdict.remarks.iter().any(|remark| remark.contains("lose money")));
    }

    #[test]
    fn an_imagined_verifier_is_worth_more_the_fewer_wrong_answers_it_accepts_and_a_single_model_moves_all_or_nothing() {
        let verdict = judge(&questions(&[CHEAP, MIDDLE, BEST], 3_000));
        let accepting = |right: u32, wrong: u32| {
            let what = format!("imagined verifier, accepts {right} % of right and {wrong} % of wrong");
            verdict.judged.iter().rfind(|policy| policy.name.contains(&what)).unwrap().means.quality
        };
        assert!(accepting(90, 10) > accepting(90, 30) && accepting(90, 30) > accepting(70, 30), "{verdict:?}");
        let moved = |what: &str| of(&verdict.judged, what).moved;
        assert_eq!([moved("best single: best"), moved("cheapest single")], [Some(0.0), Some(1.0)]);
        let paced = verdict.judged.iter().rfind(|policy| policy.name.ends_with("paced table, given classes")).unwrap();
        assert!(paced.moved.is_some_and(|moved| (0.2..0.9).contains(&moved)), "{paced:?}");
        let [table, mix] =
            ["paced table, given classes", "random mix"].map(|what| of(&verdict.judged, what).apgr.unwrap());
        assert!(table > mix + 0.05 && mix > 0.0, "{table} {mix}");
    }

    #[test]
    fn where_one_model_dominates_the_report_says_that_routing_can_only_lose_money() {
        let dear = ("dear", 0.004, [0.8, 0.7, 0.2]);
        let verdict = judge(&questions(&[("good", 0.0001, [0.9, 0.85, 0.5]), dear], 1_200));
        let remark = verdict.remarks.iter().find(|remark| remark.contains("good is the best and the cheapest"));
        assert!(remark.is_some_and(|remark| remark.contains("routing can only lose money")), "{:?}", verdict.remarks);
    }

    #[test]
    fn the_pace_keeps_seven_ceilings_also_when_prices_double_and_costs_are_unknown_or_late() {
        let questions = questions(&[CHEAP, MIDDLE, BEST], 3_000);
        let table = ClassTable::full(&questions, Classes::GIVEN, Begin::Model(20.0));
        let mut kept = 0;
        for ceiling in pacing::ceilings(&questions) {
            for trouble in [Trouble::None, Trouble::Doubled, Trouble::Unknown, Trouble::Late] {
                let run = pacing::kept(&questions, &table, ceiling, trouble);
                if run.is_idle || run.is_out_of_reach {
                    continue;
                }
                assert!(run.off.abs() < 0.01, "{ceiling}, {trouble:?}: {run:?}");
                assert!(run.early[1] < 1.1, "{ceiling}, {trouble:?}: {run:?}");
                assert!(trouble == Trouble::Doubled || run.lost > -0.01, "{ceiling}, {trouble:?}: {run:?}");
                kept += 1;
            }
        }
        assert!(kept >= 15, "{kept}");
    }

    #[test]
    fn a_hundred_ratings_of_two_thousand_answers_find_most_of_what_all_of_them_do() {
        let questions = questions(&[CHEAP, MIDDLE, BEST], 3_000);
        let ceiling = 0.2 * questions.singles(0)[2].dollars;
        let full = ClassTable::full(&questions, Classes::GIVEN, Begin::Product).paced(&questions, ceiling).quality;
        let before = questions.singles(1)[0].quality;
        let learnt: f64 = (0..12)
            .map(|seed| {
                learning::learnt(&questions, Ratings::new(Classes::GIVEN, 3), ceiling, seed, &[2_000])[0].quality / 12.0
            })
            .sum();
        assert!(learnt > before + 0.8 * (full - before), "{before}, {learnt}, {full}");
    }

    #[test]
    fn a_mix_is_the_upper_hull_of_its_policies() {
        let means = |dollars: f64, quality: f64| Means { quality, dollars };
        let mixes = Mixes::new(vec![means(1.0, 0.5), means(2.0, 0.55), means(3.0, 0.9), means(4.0, 0.8)]);
        assert_eq!((mixes.quality_at(0.5), mixes.quality_at(2.0), mixes.quality_at(9.0)), (0.5, 0.7, 0.9));
        assert!(mixes.dollars_at(0.7).is_some_and(|dollars| (dollars - 2.0).abs() < 1e-12));
        assert_eq!((mixes.dollars_at(0.5), mixes.dollars_at(0.95)), (Some(1.0), None));
    }

    #[test]
    fn a_table_that_lacks_a_column_a_half_or_a_figure_is_refused_by_name() {
        let refused = |table: &str, only: &[&str]| Questions::parse("small", table, only).unwrap_err();
        assert_eq!(refused("row,half\n", &[]), "small has no column class");
        assert_eq!(refused("half,class,one:q\n", &[]), "small has no column one:usd");
        assert_eq!(
            refused("half,class,one:q,one:usd\n0,a,1,1\n1,a,x,1\n", &[]),
            "small, line 3: column one:q is no number"
        );
        assert_eq!(refused("half,class,one:q,one:usd\n0,a,1,1\n", &["two"]), "small has no column two:q");
        assert_eq!(refused("half,class,one:q,one:usd\n0,a,1,1\n", &[]), "small has no models, or not both halves");
    }

    #[test]
    fn without_data_the_command_says_which_files_it_needs() {
        for arguments in [&["quality"][..], &["quality", "--data", "/nowhere"]] {
            let output = Command::new(env!("CARGO_BIN_EXE_oracle")).args(arguments).output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success() && error.contains("paretobandit.csv.gz"), "{error}");
            assert!(error.contains("docs/BENCHMARKS.md"), "{error}");
        }
    }
}
