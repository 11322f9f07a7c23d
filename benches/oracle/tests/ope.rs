//! Estimates from logged choices, against worlds in which the truth is known.

#[cfg(test)]
mod tests {
    use pointsman_oracle::ope::{Matrix, Rare, bounded, judge, of_table, rare, refused};

    #[test]
    fn intervals_hold_the_truth_and_a_wrong_model_does_not_mislead_the_headline() {
        for verdict in judge(&Matrix::invented(), 60) {
            let covered = verdict.doubly_robust.covered;
            assert!((0.85..=1.0).contains(&covered), "{}: {covered}", verdict.outcome);
            assert!(verdict.doubly_robust.bias.abs() < 0.5 && verdict.misled.bias.abs() < 1.0, "{verdict:?}");
            if verdict.outcome == "dollars" {
                assert!(verdict.misled_model.abs() > 5.0, "{verdict:?}");
                assert!((1_000.0..1_500.0).contains(&verdict.effective), "{verdict:?}");
            }
        }
    }

    #[test]
    fn every_log_without_support_is_refused_and_its_bounds_hold_the_truth() {
        assert_eq!([refused, bounded].map(|share| share(&Matrix::invented(), 20)), [1.0, 1.0]);
    }

    #[test]
    fn intervals_of_ten_failures_and_bounds_of_fewer_hold_the_truth() {
        for (requests, some) in [(2_000, false), (20_000, true)] {
            let Rare { effective, intervals, bounds } = rare(&Matrix::invented(), requests, 100);
            let ([all, held], [few, _]) = if some { (intervals, bounds) } else { (bounds, intervals) };
            assert!(some == (effective >= 10.0) && all >= 90 && few <= 10, "{requests}: {intervals:?} {bounds:?}");
            assert!(held * 100 >= all * 92, "{requests}: {held} of {all}");
        }
    }

    /// Two models; the second is as good in one class alone, and cheaper.
    fn table() -> String {
        let row = |n: usize| {
            let (class, good) = if n.is_multiple_of(2) { ("math", n.is_multiple_of(3)) } else { ("chat", true) };
            format!("r{n},{},{class},1,0.01,{},0.001\n", n / 2 % 2, u8::from(good))
        };
        (0..4_000).map(row).fold("row,half,class,one:q,one:usd,two:q,two:usd\n".to_owned(), |all, row| all + &row)
    }

    #[test]
    fn a_table_of_outcomes_is_read_and_judged() {
        let matrix = Matrix::parse("small", &table(), 8).unwrap();
        assert_eq!(matrix.target, [0, 1], "the cheap one where it is as good");
        assert!((matrix.truth(1) - 1.0).abs() < 1e-12);
        let verdicts = judge(&matrix, 20);
        assert!(verdicts.iter().all(|verdict| verdict.effective > 1_000.0), "{verdicts:?}");
        assert!(Matrix::parse("none", "row,half,class\n", 8).is_err());
    }

    #[test]
    fn the_example_by_hand_comes_out_of_a_log() {
        let log = "choice,p,reward,q0,q1,pi0,pi1\n1,.5,2,3.5,1.5,0,1\n0,.5,4,3.5,1.5,0,1\n1,.25,1,3.5,1.5,0,1\n0,.75,3,3.5,1.5,0,1\n";
        let figures = of_table(log).unwrap();
        let value = |name: &str| -> f64 {
            let line = figures.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap().parse().unwrap()
        };
        assert_eq!((value("ips"), value("dr"), value("dm")), (2.0, 1.25, 1.5));
        assert!((value("snips") - 4.0 / 3.0).abs() < 1e-15 && (value("effective") - 1.8).abs() < 1e-12);
        assert!(of_table("choice,p\n").is_err() && of_table("choice,p,reward,q0,pi0\n0,x,1,1,1\n").is_err());
    }
}
