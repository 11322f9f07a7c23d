//! Result of a replay, as JSON and as text for the terminal.

use std::fmt;

use pointsman_domain::EndpointId;
use pointsman_routing::explain::{Difference, MissingInput, Replay};
use serde::Serialize;

use super::{Recorded, exact::Exact};

/// Result of a replay.
#[derive(Debug, Serialize)]
pub struct ReplayResult {
    /// Whether the replay equals the record, bit for bit.
    pub identical: bool,
    /// Differences from the record.
    pub differences: Vec<ReplayDifference>,
    /// Inputs that the record lacks.
    pub lost: Vec<String>,
    /// Outcome of the replay.
    pub recomputed: ReplayedOutcome,
}

/// One value that differs from the record.
#[derive(Debug, Serialize)]
pub struct ReplayDifference {
    what: String,
    /// Name of the candidate it belongs to.
    candidate: Option<String>,
    recorded: DifferingValue,
    recomputed: DifferingValue,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum DifferingValue {
    Number(Exact),
    Name(String),
    Flag(bool),
}

/// Outcome of a replay.
#[derive(Debug, Serialize)]
pub struct ReplayedOutcome {
    choice: Option<String>,
    /// Candidates in the order of the plan.
    order: Vec<String>,
    /// Candidates with the score of the choice.
    tied: Vec<String>,
    explored: bool,
    candidates: Vec<ReplayedCandidate>,
}

#[derive(Debug, Serialize)]
struct ReplayedCandidate {
    candidate: String,
    score: Exact,
    score_terms: Vec<Term>,
    failure_probability: Exact,
    ttft_p50_s: Exact,
}

#[derive(Debug, Serialize)]
struct Term {
    name: &'static str,
    value: Exact,
}

impl ReplayResult {
    /// The result of `replay` for the decision of `recorded`.
    #[must_use]
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
