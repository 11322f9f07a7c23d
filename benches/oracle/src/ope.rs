//! Whether estimates from recorded choices are right: logs are drawn from matrices in which every choice has a known outcome, so the
//! value of every policy is known, too.
//!
//! A [`Matrix`] is read from a file, or made up ([`Matrix::invented`]): three classes of requests and three endpoints, of which the
//! cheap one fails more often. A log keeps one outcome of each drawn row, chosen with known probabilities.

use std::collections::BTreeMap;

use pointsman_domain::EndpointId;
use pointsman_routing::explain::estimate::{
    Bound, Diagnostics, Estimated, LEAST_PROBABILITY, LoggedRequest, Measured, Observation, Observations, Sample,
    estimators::{Point, direct_method, doubly_robust, ips, snips},
};

use crate::{dice::Dice, sheet::Sheet};

/// Requests of a log.
pub const REQUESTS: usize = 20_000;
/// Requests of logs in which failures are counted.
const LOG_LENGTHS: [usize; 4] = [2_000, 5_000, 10_000, REQUESTS];
/// Requests of a log that is written for other programs.
const WRITTEN: usize = 4_000;
/// Rows of the invented matrix.
const ROWS: usize = 40_000;
/// Weight of the logging policy's own choices; the rest is evenly spread, at least so that the target gets this many requests.
const WANTED: f64 = 1_500.0;
/// By how much a wrong model is off at one endpoint.
const WRONG: f64 = 1.3;
/// Error that a lower price is worth: what the best single model costs counts as this much quality.
const PRICE: f64 = 0.05;

/// Outcomes of every choice for every request: dollars, and quality or failure.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    /// Where it comes from.
    pub name: String,
    /// What the second outcome is.
    pub second: &'static str,
    /// Class of each request, and the outcomes of its choices.
    pub rows: Vec<(usize, Vec<[f64; 2]>)>,
    /// What a model expects of each class and choice.
    pub expected: Vec<Vec<[f64; 2]>>,
    /// Probabilities with which choices are logged, by class.
    pub logging: Vec<Vec<f64>>,
    /// The choice of the other policy, by class.
    pub target: Vec<usize>,
}

impl Matrix {
    /// Always the cheap endpoint? It gets 3, 8 and 60 % of three classes of lengths; the model expects it to be 15 % too dear.
    #[must_use]
    pub fn invented() -> Matrix {
        const PRICES: [f64; 3] = [8e-6, 2.5e-6, 1e-6];
        const FAILURES: [f64; 3] = [0.001, 0.007, 0.02];
        const LENGTHS: [f64; 3] = [3_000.0, 1_000.0, 300.0];
        const CHEAP: [f64; 3] = [0.03, 0.08, 0.6];
        let mut dice = Dice::new(38, 1);
        let row = |_| {
            let class = dice.below(3);
            let tokens = LENGTHS[class] * libm::exp(0.8 * dice.normal() - 0.32);
            let outcomes = (0..3).map(|arm| {
                let length = libm::exp(0.3 * dice.normal() - 0.045);
                [PRICES[arm] * tokens * length, f64::from(u8::from(dice.uniform() < FAILURES[arm]))]
            });
            (class, outcomes.collect())
        };
        let wrong = |arm: usize| if arm == 2 { 1.15 } else { 1.0 };
        let expected =
            |class: usize| (0..3).map(|arm| [PRICES[arm] * LENGTHS[class] * wrong(arm), FAILURES[arm]]).collect();
        Matrix {
            name: "invented".to_owned(),
            second: "failures",
            rows: (0..ROWS).map(row).collect(),
            expected: (0..3).map(expected).collect(),
            logging: CHEAP.iter().map(|cheap| vec![0.8 * (1.0 - cheap), 0.2 * (1.0 - cheap), *cheap]).collect(),
            target: vec![2; 3],
        }
    }

    /// From a table with `half`, `class`, and `NAME:q` and `NAME:usd` of each of the `most` best models: classes are learned on
    /// half 0, logs are drawn from half 1.
    ///
    /// # Errors
    /// The table has no such columns.
    pub fn parse(name: &str, table: &str, most: usize) -> Result<Matrix, String> {
        let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().ok_or("the table is empty")?;
        let column = |wanted: &str| header.iter().position(|name| *name == wanted);
        let (half, class) = (column("half").ok_or("no column half")?, column("class").ok_or("no column class")?);
        let models = header.iter().enumerate().filter_map(|(at, name)| Some((name.strip_suffix(":q")?, at)));
        let models: Vec<[usize; 2]> =
            models.filter_map(|(name, q)| Some([column(&format!("{name}:usd"))?, q])).collect();
        let (mut classes, mut halves) = (BTreeMap::new(), [Vec::new(), Vec::new()]);
        for line in lines {
            let number = |at: &usize| line.get(*at).and_then(|cell| cell.parse::<f64>().ok()).unwrap_or_default();
            let next = classes.len();
            let class = *classes.entry(line.get(class).copied().unwrap_or_default().to_owned()).or_insert(next);
            let outcomes: Vec<[f64; 2]> = models.iter().map(|columns| [0, 1].map(|at| number(&columns[at]))).collect();
            halves[usize::from(line.get(half) == Some(&"1"))].push((class, outcomes));
        }
        let [learned, rows] = halves;
        if models.is_empty() || learned.is_empty() || rows.is_empty() {
            return Err("the table has no models or no halves".to_owned());
        }
        Ok(Matrix::learned(name, learned, rows, classes.len()).with_best(most))
    }

    fn learned(name: &str, learned: Vec<Row>, rows: Vec<Row>, classes: usize) -> Matrix {
        let arms = rows[0].1.len();
        let overall = mean_by(&learned, 0, arms, |_| true, &vec![[0.0; 2]; arms]);
        let of_class = |class| mean_by(&learned, 20, arms, |one| one == class, &overall);
        Matrix {
            name: name.to_owned(),
            second: "quality",
            rows,
            expected: (0..classes).map(of_class).collect(),
            ..Matrix::default()
        }
    }

    /// With the best models alone, a table of classes as the target, and logs that are random enough for it.
    fn with_best(mut self, most: usize) -> Matrix {
        let quality = |arm: &usize| -> f64 { self.expected.iter().map(|means| means[*arm][1]).sum() };
        let mut arms: Vec<usize> = (0..self.rows[0].1.len()).collect();
        arms.sort_by(|one, other| quality(other).total_cmp(&quality(one)));
        arms.truncate(most);
        let keep = |all: &Vec<[f64; 2]>| arms.iter().map(|arm| all[*arm]).collect::<Vec<_>>();
        self.rows.iter_mut().for_each(|(_, outcomes)| *outcomes = keep(outcomes));
        self.expected.iter_mut().for_each(|means| *means = keep(means));
        let dollar = PRICE / self.expected.iter().map(|means| means[0][0]).fold(1e-9, f64::max);
        let best = |means: &Vec<[f64; 2]>, dollar: f64| {
            let worth = |[cost, quality]: [f64; 2]| quality - dollar * cost;
            (0..means.len())
                .max_by(|one, other| worth(means[*one]).total_cmp(&worth(means[*other])))
                .unwrap_or_default()
        };
        self.target = self.expected.iter().map(|means| best(means, dollar)).collect();
        let random = (WANTED / REQUESTS as f64 * arms.len() as f64).min(0.95);
        let logged = |means: &Vec<[f64; 2]>| {
            let own = best(means, 0.0);
            let even = random / arms.len() as f64;
            (0..arms.len()).map(|arm| even + if arm == own { 1.0 - random } else { 0.0 }).collect()
        };
        self.logging = self.expected.iter().map(logged).collect();
        self
    }

    /// The value of the other policy.
    #[must_use]
    pub fn truth(&self, outcome: usize) -> f64 {
        let sum: f64 = self.rows.iter().map(|(class, outcomes)| outcomes[self.target[*class]][outcome]).sum();
        sum / self.rows.len() as f64
    }

    /// The value of the logging policy.
    fn truth_of_log(&self, outcome: usize) -> f64 {
        let expected = |(class, outcomes): &Row| -> f64 {
            self.logging[*class].iter().zip(outcomes).map(|(probability, of)| probability * of[outcome]).sum()
        };
        self.rows.iter().map(expected).sum::<f64>() / self.rows.len() as f64
    }

    /// The same with a model that is wrong at the endpoint that the other policy chooses most.
    #[must_use]
    pub fn misled(&self) -> Matrix {
        let chosen = |arm: &usize| self.rows.iter().filter(|(class, _)| self.target[*class] == *arm).count();
        let most = (0..self.rows[0].1.len()).max_by_key(chosen).unwrap_or_default();
        let mut other = self.clone();
        other.expected.iter_mut().for_each(|means| means[most] = means[most].map(|mean| mean * WRONG));
        other
    }

    /// The same with logs that never hold the other policy's choice in its most frequent class.
    #[must_use]
    pub fn unsupported(&self) -> Matrix {
        let count = |class: &usize| self.rows.iter().filter(|(of, _)| of == class).count();
        let class = (0..self.target.len()).max_by_key(count).unwrap_or_default();
        let mut other = self.clone();
        let probabilities = &mut other.logging[class];
        probabilities[self.target[class]] = 0.0;
        let sum: f64 = probabilities.iter().sum();
        probabilities.iter_mut().for_each(|probability| *probability /= sum);
        other
    }

    /// A log of dollars or of the second outcome in the form that [`of_table`] reads.
    #[must_use]
    pub fn table(&self, outcome: usize, seed: u64) -> String {
        let arms = 0..self.rows[0].1.len();
        let names = |of: &str| arms.clone().map(|arm| format!(",{of}{arm}")).collect::<String>();
        let mut table = format!("choice,p,reward{}{}\n", names("q"), names("pi"));
        for Logged { class, choice, outcomes, .. } in self.log(seed).into_iter().take(WRITTEN) {
            table += &format!("{choice},{},{}", self.logging[class][choice], outcomes[outcome]);
            self.expected[class].iter().for_each(|means| table += &format!(",{}", means[outcome]));
            arms.clone().for_each(|arm| table += if arm == self.target[class] { ",1" } else { ",0" });
            table += "\n";
        }
        table
    }

    /// One log: for each request its weight, the unsupported share of the other policy, and both outcomes beside predictions.
    fn log(&self, seed: u64) -> Vec<Logged> {
        let mut dice = Dice::new(seed, 2);
        let one = |_| {
            let (class, outcomes) = &self.rows[dice.below(self.rows.len())];
            let (probabilities, target) = (&self.logging[*class], self.target[*class]);
            let mut draw = dice.uniform();
            let drawn = probabilities.iter().position(|probability| {
                draw -= probability;
                draw < 0.0
            });
            let choice = drawn.unwrap_or(probabilities.len() - 1);
            let is_supported = probabilities[target] >= LEAST_PROBABILITY;
            Logged {
                class: *class,
                choice,
                weight: if choice == target { 1.0 / probabilities[choice] } else { 0.0 },
                unsupported: f64::from(u8::from(!is_supported)),
                outcomes: outcomes[choice],
                predicted: self.expected[*class][choice],
                expected: self.expected[*class][target],
            }
        };
        (0..REQUESTS).map(one).collect()
    }
}

type Row = (usize, Vec<[f64; 2]>);

/// Means of the rows of a class, drawn to those of all by so many rows.
fn mean_by(rows: &[Row], prior: usize, arms: usize, is_in: impl Fn(usize) -> bool, all: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let of: Vec<&Row> = rows.iter().filter(|(class, _)| is_in(*class)).collect();
    let mean = |arm: usize| {
        [0, 1].map(|outcome| {
            let sum: f64 = of.iter().map(|(_, outcomes)| outcomes[arm][outcome]).sum();
            (sum + prior as f64 * all[arm][outcome]) / (of.len() + prior) as f64
        })
    };
    (0..arms).map(mean).collect()
}

struct Logged {
    class: usize,
    choice: usize,
    weight: f64,
    unsupported: f64,
    outcomes: [f64; 2],
    predicted: [f64; 2],
    expected: [f64; 2],
}

fn observations(log: &[Logged], outcome: usize) -> Observations {
    let one = |(cluster, logged): (u64, &Logged)| Observation {
        cluster,
        weight: logged.weight,
        outcome: logged.outcomes[outcome],
        predicted: logged.predicted[outcome],
        own: logged.predicted[outcome],
        expected: logged.expected[outcome] * (1.0 - logged.unsupported),
        expected_unsupported: logged.expected[outcome] * logged.unsupported,
        unsupported: logged.unsupported,
    };
    Observations::new((0..).zip(log).map(one).collect())
}

/// Dollars or the second outcome, as they are told. The second one is read as a failure.
fn told(log: &[Logged], outcome: usize) -> Option<Estimated> {
    let mut sample = Sample::default();
    for (n, logged) in (0..).zip(log) {
        let known = Measured::Known {
            outcome: logged.outcomes[outcome],
            predicted: logged.predicted[outcome],
            own: logged.predicted[outcome],
            expected: logged.expected[outcome] * (1.0 - logged.unsupported),
            expected_unsupported: logged.expected[outcome] * logged.unsupported,
        };
        let mut outcomes = [Measured::NotApplicable; 4];
        outcomes[outcome] = known;
        let request = LoggedRequest {
            draw: n,
            cluster: n,
            choice: Some(EndpointId(logged.choice as u64)),
            weight: logged.weight,
            unsupported: logged.unsupported,
            has_chance: true,
            outcomes,
        };
        sample.add(request, Vec::new());
    }
    sample.sort();
    sample.estimates(|_| String::new()).into_iter().next()
}

/// An estimator over many logs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Judged {
    /// Mean error by the standard deviation of the estimates.
    pub bias: f64,
    /// Share of the 95 % intervals that hold the truth.
    pub covered: f64,
}

fn judged(points: &[Point], truth: f64) -> Judged {
    let count = points.len() as f64;
    let mean = points.iter().map(|point| point.value).sum::<f64>() / count;
    let variance = points.iter().map(|point| (point.value - mean) * (point.value - mean)).sum::<f64>() / count;
    let holds = |point: &&Point| {
        let [least, most] = point.interval();
        least <= truth && truth <= most
    };
    let covered = points.iter().filter(holds).count() as f64 / count;
    Judged { bias: if variance > 0.0 { (mean - truth) / variance.sqrt() } else { 0.0 }, covered }
}

/// What many logs of one matrix say about one outcome.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// Dollars or the second outcome.
    pub outcome: &'static str,
    /// The value of the other policy.
    pub truth: f64,
    /// Mean effective number of requests.
    pub effective: f64,
    /// Each estimator.
    pub ips: Judged,
    /// Self-normalised.
    pub snips: Judged,
    /// Doubly robust.
    pub doubly_robust: Judged,
    /// The same with a model that is 30 % wrong.
    pub misled: Judged,
    /// The error of that model alone, by the standard deviation of the doubly robust estimate.
    pub misled_model: f64,
}

/// Judges the estimators on `runs` logs.
#[must_use]
pub fn judge(matrix: &Matrix, runs: u64) -> Vec<Verdict> {
    let misled = matrix.misled();
    let verdict = |outcome: usize| {
        let truth = matrix.truth(outcome);
        let mut points: [Vec<Point>; 4] = Default::default();
        let (mut effective, mut model) = (0.0, 0.0);
        for seed in 0..runs {
            let all = observations(&matrix.log(seed), outcome);
            let wrong = observations(&misled.log(seed), outcome);
            let each = [ips(&all), snips(&all), doubly_robust(&all), doubly_robust(&wrong)];
            points.iter_mut().zip(each).for_each(|(points, point)| points.push(point));
            effective += Diagnostics::new(&all).effective / runs as f64;
            model += (direct_method(&wrong) - truth) / runs as f64;
        }
        let [ips, snips, doubly_robust, misled] = [0, 1, 2, 3].map(|which| judged(&points[which], truth));
        let deviation = points[3].iter().map(|point| point.error).sum::<f64>() / runs as f64;
        let outcome = ["dollars", matrix.second][outcome];
        Verdict { outcome, truth, effective, ips, snips, doubly_robust, misled, misled_model: model / deviation }
    };
    [0, 1].map(verdict).into()
}

/// Share of logs that are refused where support is short.
#[must_use]
pub fn refused(matrix: &Matrix, runs: u64) -> f64 {
    let short = matrix.unsupported();
    let is_refused = |seed: &u64| told(&short.log(*seed), 0).is_none_or(|spend| !spend.refusals.is_empty());
    (0..runs).filter(is_refused).count() as f64 / runs as f64
}

/// Share of these logs whose bounds hold the truth.
#[must_use]
pub fn bounded(matrix: &Matrix, runs: u64) -> f64 {
    let (short, truth) = (matrix.unsupported(), matrix.truth(0));
    let holds = |seed: &u64| match told(&short.log(*seed), 0).and_then(|spend| spend.bound) {
        Some(Bound::Unsupported([least, most])) => (least..=most).contains(&truth),
        _ => false,
    };
    (0..runs).filter(holds).count() as f64 / runs as f64
}

/// What logs say of failures, which are rare: with enough of them an interval of the difference, with fewer a bound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rare {
    /// Mean effective number of failures among the choices that agree.
    pub effective: f64,
    /// Logs with an interval, and those of them that hold the true difference.
    pub intervals: [u64; 2],
    /// Logs with a bound, and those of them that hold the true share.
    pub bounds: [u64; 2],
}

/// Judges intervals and bounds of failures on `runs` logs with so many requests.
#[must_use]
pub fn rare(matrix: &Matrix, requests: usize, runs: u64) -> Rare {
    let (truth, before) = (matrix.truth(1), matrix.truth_of_log(1));
    let mut rare = Rare::default();
    for seed in 0..runs {
        let mut log = matrix.log(seed);
        log.truncate(requests);
        let all = observations(&log, 1);
        let [sum, squares] =
            [1, 2].map(|power| all.iter().map(|one| (one.weight * one.outcome).powi(power)).sum::<f64>());
        rare.effective += if squares > 0.0 { sum * sum / squares / runs as f64 } else { 0.0 };
        let Some(told) = told(&log, 1) else { continue };
        let (counted, [least, most], truth) = match (told.interval, told.bound) {
            (Some(interval), _) => (&mut rare.intervals, interval, truth - before),
            (None, Some(Bound::FewFailures(range))) => (&mut rare.bounds, range, truth),
            (None, Some(Bound::AtMost(most))) => (&mut rare.bounds, [0.0, most], truth),
            (None, _) => continue,
        };
        counted[0] += 1;
        counted[1] += u64::from((least..=most).contains(&truth));
    }
    rare
}

/// The table of rare failures.
#[must_use]
pub fn rare_sheet(matrix: &Matrix, runs: u64) -> Sheet {
    let title = format!("Failures, which are rare: {runs} logs of each length");
    let header = [
        "requests",
        "effective failures",
        "logs with an interval",
        "it holds the truth",
        "with a bound",
        "it holds the truth",
        "together",
    ];
    let mut sheet = Sheet::new(title, header);
    for requests in LOG_LENGTHS {
        let Rare { effective, intervals, bounds } = rare(matrix, requests, runs);
        let percent = |[all, held]: [u64; 2]| match all {
            0 => "–".to_owned(),
            _ => format!("{:.1} %", 100.0 * held as f64 / all as f64),
        };
        let [[with, _], [bound, _]] = [intervals, bounds];
        sheet.row([
            requests.to_string(),
            format!("{effective:.1}"),
            with.to_string(),
            percent(intervals),
            bound.to_string(),
            percent(bounds),
            percent([0, 1].map(|at| intervals[at] + bounds[at])),
        ]);
    }
    sheet
}

/// The table of all matrices.
#[must_use]
pub fn sheet(matrices: &[Matrix], runs: u64) -> Sheet {
    let title = format!("Estimates from logged choices against the truth: {runs} logs of {REQUESTS} requests");
    let header = [
        "set, outcome",
        "truth",
        "effective",
        "DR bias, sd",
        "DR covers",
        "SNIPS covers",
        "IPS covers",
        "model 30 % wrong: DR bias, sd",
        "model alone, sd",
        "refused without support",
    ];
    let mut sheet = Sheet::new(title, header);
    for matrix in matrices {
        let refused = refused(matrix, runs);
        for verdict in judge(matrix, runs) {
            let percent = |share: f64| format!("{:.1} %", share * 100.0);
            sheet.row([
                format!("{}, {}", matrix.name, verdict.outcome),
                format!("{:.6}", verdict.truth),
                format!("{:.0}", verdict.effective),
                format!("{:+.2}", verdict.doubly_robust.bias),
                percent(verdict.doubly_robust.covered),
                percent(verdict.snips.covered),
                percent(verdict.ips.covered),
                format!("{:+.2}", verdict.misled.bias),
                format!("{:+.1}", verdict.misled_model),
                percent(refused),
            ]);
        }
    }
    sheet
}

/// The estimators on a log, for comparison with other implementations: `choice,p,reward`, then `q0,q1,…` with the predictions of all
/// choices and `pi0,pi1,…` with their probabilities under the other policy. One line for each figure.
///
/// # Errors
/// A line is not like this.
pub fn of_table(table: &str) -> Result<String, String> {
    let mut lines = table.lines();
    let columns = lines.next().ok_or("the log is empty")?.split(',').count();
    let arms = columns.checked_sub(3).filter(|rest| rest % 2 == 0).ok_or("columns are choice,p,reward,q0,…,pi0,…")? / 2;
    let observation = |(cluster, line): (u64, &str)| {
        let cells: Result<Vec<f64>, _> = line.split(',').map(str::parse::<f64>).collect();
        let cells = cells.map_err(|error| format!("line {}: {error}", cluster + 2))?;
        let [choice, p, outcome, rest @ ..] = cells.as_slice() else {
            return Err(format!("line {} is short", cluster + 2));
        };
        let (q, pi) = rest.split_at_checked(arms).ok_or_else(|| format!("line {} is short", cluster + 2))?;
        let at =
            |all: &[f64]| all.get(*choice as usize).copied().ok_or_else(|| format!("line {}: choice", cluster + 2));
        Ok(Observation {
            cluster,
            weight: at(pi)? / p,
            outcome: *outcome,
            predicted: at(q)?,
            own: at(q)?,
            expected: q.iter().zip(pi).map(|(q, pi)| q * pi).sum(),
            expected_unsupported: 0.0,
            unsupported: 0.0,
        })
    };
    let all = Observations::new((0..).zip(lines).map(observation).collect::<Result<Vec<_>, String>>()?);
    let figures = [
        ("ips", ips(&all).value),
        ("snips", snips(&all).value),
        ("dr", doubly_robust(&all).value),
        ("dm", direct_method(&all)),
        ("effective", Diagnostics::new(&all).effective),
    ];
    Ok(figures.iter().map(|(name, value)| format!("{name} {value:.17e}\n")).collect())
}
