//! Questions that every model of a set answered once, so that quality and cost of every policy are known.

use std::collections::BTreeMap;

use pointsman_domain::Task;

/// What one model made of one question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// 0 to 1.
    pub quality: f64,
    /// Its cost.
    pub dollars: f64,
    /// What a gateway could see by itself: 0 nothing; 1 no call; 2 to 4 a broken one, or none because the provider failed.
    pub fault: u8,
}

/// A question and the answers of all models.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Position of the class that the set gives.
    pub class: usize,
    /// The class that the gateway detects.
    pub task: Task,
    /// Length of the prompt, in a unit of the set.
    pub length: f64,
    /// Both of the same prompt with typos, where the set has prompts.
    pub mistyped: Option<(Task, f64)>,
    /// Whether the client demands a call of a tool.
    pub demands_call: bool,
    /// By model.
    pub answers: Vec<Answer>,
}

/// A set of questions. What is learnt comes from the first half, what is judged from the second.
#[derive(Debug, Clone, PartialEq)]
pub struct Questions {
    /// Where it comes from.
    pub name: String,
    /// Names of the models.
    pub models: Vec<String>,
    /// The halves.
    pub halves: [Vec<Question>; 2],
}

/// Means of answers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Means {
    /// Quality.
    pub quality: f64,
    /// Dollars.
    pub dollars: f64,
}

impl Questions {
    /// From a table with `half`, `class`, and `NAME:q` and `NAME:usd` of each model; only models of these names, unless there
    /// are none. `chars`, or else the first column of prompt tokens, is the length, `NAME:fault` what a gateway sees.
    ///
    /// # Errors
    /// The table has no such columns, a model or a half is missing, or a figure is none.
    pub fn parse(name: &str, table: &str, only: &[&str]) -> Result<Questions, String> {
        let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().ok_or("the table is empty")?;
        let column = |wanted: &str| header.iter().position(|name| *name == wanted);
        let named = |wanted: &str| column(wanted).ok_or_else(|| format!("{name} has no column {wanted}"));
        let (half, class) = (named("half")?, named("class")?);
        let length = column("chars").or_else(|| header.iter().position(|name| name.ends_with(":in")));
        let all = header.iter().filter_map(|name| name.strip_suffix(":q"));
        let models: Vec<&str> = if only.is_empty() { all.collect() } else { only.to_vec() };
        let columns = models.iter().map(|model| {
            let [quality, dollars] = ["q", "usd"].map(|what| named(&format!("{model}:{what}")));
            Ok((quality?, dollars?, column(&format!("{model}:fault"))))
        });
        let columns: Vec<(usize, usize, Option<usize>)> = columns.collect::<Result<_, String>>()?;
        let calls_tools = columns.iter().any(|(.., fault)| fault.is_some());
        let (mut classes, mut halves) = (BTreeMap::new(), [Vec::new(), Vec::new()]);
        for (number, line) in (2..).zip(lines) {
            let figure = |at: usize| {
                let figure = line.get(at).and_then(|cell| cell.parse::<f64>().ok()).filter(|figure| figure.is_finite());
                figure.ok_or_else(|| format!("{name}, line {number}: column {} is no number", header[at]))
            };
            let answer = |&(quality, dollars, fault): &(usize, usize, Option<usize>)| {
                let fault = fault.map_or(Ok(0.0), figure)? as u8;
                Ok(Answer { quality: figure(quality)?, dollars: figure(dollars)?, fault })
            };
            let answers = columns.iter().map(answer).collect::<Result<_, String>>()?;
            let of = line.get(class).copied().unwrap_or_default();
            let next = classes.len();
            let question = Question {
                mistyped: None,
                class: *classes.entry(of.to_owned()).or_insert(next),
                task: if calls_tools { Task::Tools } else { detected(of) },
                length: length.map_or(Ok(0.0), figure)?,
                demands_call: of != "relevance",
                answers,
            };
            halves[usize::from(line.get(half) == Some(&"1"))].push(question);
        }
        if models.is_empty() || halves.iter().any(Vec::is_empty) {
            return Err(format!("{name} has no models, or not both halves"));
        }
        Ok(Questions { name: name.to_owned(), models: models.into_iter().map(str::to_owned).collect(), halves })
    }

    /// The same with the models alone that a random mix would choose from: as few as an operator might name.
    #[must_use]
    pub fn on_the_hull(&self) -> Questions {
        let singles = self.singles(0);
        let hull = Mixes::new(singles.clone());
        let kept: Vec<usize> = self.arms().filter(|arm| hull.0.contains(&singles[*arm])).collect();
        let reduced = |question: &Question| Question {
            answers: kept.iter().map(|arm| question.answers[*arm]).collect(),
            ..question.clone()
        };
        Questions {
            name: format!("{}, the models of the best mixes", self.name),
            models: kept.iter().map(|arm| self.models[*arm].clone()).collect(),
            halves: [0, 1].map(|half: usize| self.halves[half].iter().map(reduced).collect()),
        }
    }

    /// Positions of the models.
    #[must_use]
    pub fn arms(&self) -> std::ops::Range<usize> {
        0..self.models.len()
    }

    /// Each model by itself, on one half.
    #[must_use]
    pub fn singles(&self, half: usize) -> Vec<Means> {
        self.arms().map(|arm| means(&self.halves[half], |_| arm)).collect()
    }

    /// The cheapest model and the best one, on the first half.
    #[must_use]
    pub fn cheapest_and_best(&self) -> [usize; 2] {
        let singles = self.singles(0);
        [
            arm_with_most(self.arms(), |arm| -singles[arm].dollars),
            arm_with_most(self.arms(), |arm| singles[arm].quality),
        ]
    }
}

/// What the two rules of the gateway for text would find: the sets have no texts, so their classes are translated.
fn detected(class: &str) -> Task {
    match class {
        "mbpp" => Task::Code,
        "gsm8k" | "bbh/multistep_arithmetic_two" | "bbh/object_counting" => Task::Math,
        _ => Task::General,
    }
}

/// Means of the answers that a policy chooses.
pub fn means(questions: &[Question], choice: impl Fn(&Question) -> usize) -> Means {
    mean(questions.iter().map(|question| {
        let Answer { quality, dollars, .. } = question.answers[choice(question)];
        Means { quality, dollars }
    }))
}

/// Mean of figures.
pub fn mean(figures: impl Iterator<Item = Means>) -> Means {
    let (mut sum, mut count) = (Means::default(), 0_u32);
    for figure in figures {
        sum = Means { quality: sum.quality + figure.quality, dollars: sum.dollars + figure.dollars };
        count += 1;
    }
    let count = f64::from(count.max(1));
    Means { quality: sum.quality / count, dollars: sum.dollars / count }
}

/// The first of the arms with the highest value.
pub fn arm_with_most(arms: impl Iterator<Item = usize>, value: impl Fn(usize) -> f64) -> usize {
    let better = |(best, most): (usize, f64), arm: usize| {
        let value = value(arm);
        if value > most { (arm, value) } else { (best, most) }
    };
    arms.fold((0, f64::NEG_INFINITY), better).0
}

/// The best answer to each question; of equal ones the cheapest.
#[must_use]
pub fn oracle(questions: &[Question]) -> Means {
    means(questions, |question| {
        let answers = &question.answers;
        let best = arm_with_most(0..answers.len(), |arm| answers[arm].quality);
        let as_good = (0..answers.len()).filter(|arm| answers[*arm].quality >= answers[best].quality);
        arm_with_most(as_good, |arm| -answers[arm].dollars)
    })
}

/// What random mixes of some policies can do: the upper hull of their means.
#[derive(Debug, Clone)]
pub struct Mixes(Vec<Means>);

impl Mixes {
    /// Of these policies.
    #[must_use]
    pub fn new(mut policies: Vec<Means>) -> Mixes {
        policies
            .sort_by(|one, other| one.dollars.total_cmp(&other.dollars).then(other.quality.total_cmp(&one.quality)));
        let mut hull: Vec<Means> = Vec::new();
        for next in policies {
            if hull.last().is_some_and(|last| next.quality <= last.quality) {
                continue;
            }
            while let [.., one, two] = hull.as_slice()
                && slope(one, two) <= slope(one, &next)
            {
                hull.pop();
            }
            hull.push(next);
        }
        Mixes(hull)
    }

    /// Quality of the best mix at this cost.
    #[must_use]
    pub fn quality_at(&self, dollars: f64) -> f64 {
        let next = self.0.iter().position(|policy| policy.dollars >= dollars);
        match next {
            None => self.0.last().map_or(0.0, |last| last.quality),
            Some(0) => self.0[0].quality,
            Some(next) => {
                let (low, high) = (&self.0[next - 1], &self.0[next]);
                low.quality + slope(low, high) * (dollars - low.dollars)
            }
        }
    }

    /// What the cheapest of them costs.
    #[must_use]
    pub fn least_dollars(&self) -> f64 {
        self.0.first().map_or(0.0, |first| first.dollars)
    }

    /// What this quality costs at least; `None`: no mix reaches it.
    #[must_use]
    pub fn dollars_at(&self, quality: f64) -> Option<f64> {
        let next = self.0.iter().position(|policy| policy.quality >= quality)?;
        let high = self.0[next];
        let low = next.checked_sub(1).map_or(high, |low| self.0[low]);
        Some(if low == high { high.dollars } else { low.dollars + (quality - low.quality) / slope(&low, &high) })
    }
}

fn slope(low: &Means, high: &Means) -> f64 {
    (high.quality - low.quality) / (high.dollars - low.dollars).max(1e-300)
}
