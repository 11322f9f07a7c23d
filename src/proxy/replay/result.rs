//! Result of a replay, as JSON and as text for the terminal.

use std::fmt;

use pointsman_domain::{EndpointId, SplitPart};
use pointsman_routing::explain::{Difference, MissingInput, Replay};
use serde::Serialize;

use super::{Recorded, exact::Exact};

/// Result of a replay.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct ReplayResult {
    /// Whether every recomputed value equals the recorded one, bit for bit, and no input is missing.
    pub identical: bool,
    /// Each value that differs.
    pub differences: Vec<ReplayDifference>,
    /// Each input that the record lacks, as a phrase.
    pub lost: Vec<String>,
    /// What the repeated decision gives.
    pub recomputed: ReplayedOutcome,
}

/// One value that differs from the record.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct ReplayDifference {
    /// Name of the value: a figure of a candidate, `choice`, `place` with a number, `explored`, or `part`.
    what: String,
    /// The candidate that the figure belongs to; `null` for other values.
    candidate: Option<String>,
    /// The recorded value.
    recorded: DifferingValue,
    /// The recomputed value.
    recomputed: DifferingValue,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
#[serde(untagged)]
enum DifferingValue {
    Number(Exact),
    Name(String),
    Flag(bool),
}

/// Outcome of a replay.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub struct ReplayedOutcome {
    /// The choice, such as `meadow/small at sim-swift`; `null` without a recorded candidate.
    choice: Option<String>,
    /// The candidates in the order in which they would be called.
    order: Vec<String>,
    /// Candidates with the same score as the choice.
    tied: Vec<String>,
    /// Whether chance made the choice: exploration noise or a draw (`routing.explore`).
    explored: bool,
    candidates: Vec<ReplayedCandidate>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct ReplayedCandidate {
    /// Its name.
    candidate: String,
    /// Its score.
    score: Exact,
    /// The terms that add up to it.
    score_terms: Vec<Term>,
    /// Predicted probability of failure.
    failure_probability: Exact,
    /// Predicted median of the seconds to the first token.
    ttft_p50_s: Exact,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
struct Term {
    /// Name of the term.
    name: &'static str,
    /// Its value.
    value: Exact,
}

impl ReplayResult {
    /// The result of `replay` for the decision of `recorded`.
    pub fn new(replay: &Replay, recorded: &Recorded) -> ReplayResult {
        let name = |endpoint: &EndpointId| recorded.name(endpoint.0);
        let scored = replay.candidates.iter().map(|remade| ReplayedCandidate {
            candidate: name(&remade.endpoint),
            score: Exact(remade.terms.sum()),
            score_terms: remade.terms.iter().map(|term| Term { name: term.name, value: Exact(term.value) }).collect(),
            failure_probability: Exact(remade.failure),
            ttft_p50_s: Exact(remade.first_token),
        });
        ReplayResult {
            identical: replay.is_identical(),
            differences: replay.differences.iter().map(|difference| ReplayDifference::new(difference, name)).collect(),
            lost: replay.lost.iter().map(missing_input).collect(),
            recomputed: ReplayedOutcome {
                choice: replay.choice().map(|choice| name(&choice)),
                order: replay.order.iter().map(name).collect(),
                tied: replay.tied.iter().map(name).collect(),
                explored: replay.explored,
                candidates: scored.collect(),
            },
        }
    }
}

impl ReplayDifference {
    fn new(difference: &Difference, name: impl Fn(&EndpointId) -> String) -> ReplayDifference {
        match difference {
            Difference::Figure { endpoint, what, recorded, recomputed } => ReplayDifference {
                what: (*what).to_owned(),
                candidate: Some(name(endpoint)),
                recorded: DifferingValue::Number(Exact(*recorded)),
                recomputed: DifferingValue::Number(Exact(*recomputed)),
            },
            Difference::Place { place, recorded, recomputed } => ReplayDifference {
                what: if *place == 0 { "choice".to_owned() } else { format!("place {}", place + 1) },
                candidate: None,
                recorded: DifferingValue::Name(name(recorded)),
                recomputed: DifferingValue::Name(name(recomputed)),
            },
            Difference::Explored { recorded, recomputed } => ReplayDifference {
                what: "explored".to_owned(),
                candidate: None,
                recorded: DifferingValue::Flag(*recorded),
                recomputed: DifferingValue::Flag(*recomputed),
            },
            Difference::Part { recorded, recomputed } => {
                let named = |(part, probability): &(SplitPart, f64)| {
                    DifferingValue::Name(format!("{} ({probability:?})", part.name()))
                };
                let (what, candidate) = ("part".to_owned(), None);
                ReplayDifference { what, candidate, recorded: named(recorded), recomputed: named(recomputed) }
            }
        }
    }
}

fn missing_input(missing: &MissingInput) -> String {
    match missing {
        MissingInput::Candidates => "the record holds no candidates".to_owned(),
        MissingInput::Policy { recorded, given } => {
            format!("the decision used policy {recorded}, but only policy {given} is available")
        }
    }
}

impl fmt::Display for ReplayDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(candidate) = &self.candidate {
            write!(f, " of {candidate}")?;
        }
        write!(f, ": recorded {}, recomputed {}", self.recorded, self.recomputed)
    }
}

impl fmt::Display for DifferingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DifferingValue::Number(number) => write!(f, "{:?}", number.0),
            DifferingValue::Name(name) => f.write_str(name),
            DifferingValue::Flag(flag) => f.write_str(if *flag { "yes" } else { "no" }),
        }
    }
}

/// `identical`, or every difference on a line of its own.
impl fmt::Display for ReplayResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.identical {
            return f.write_str("identical\n");
        }
        f.write_str("different\n")?;
        self.lost.iter().try_for_each(|lost| writeln!(f, "  missing: {lost}"))?;
        self.differences.iter().try_for_each(|differing| writeln!(f, "  {differing}"))
    }
}
