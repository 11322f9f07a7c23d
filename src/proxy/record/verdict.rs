//! What a replay says: on the page, and in the terminal.

use std::fmt;

use pointsman_actors::{
    domain::EndpointId,
    explain::{Difference, MissingInput, Replay},
};
use serde::Serialize;

use super::{Recorded, exact::Exact};

/// What a replay found.
#[derive(Debug, Serialize)]
pub struct ReplayResult {
    /// Whether everything came out as recorded, bit for bit.
    pub identical: bool,
    /// What did not.
    pub differences: Vec<Differing>,
    /// Why it could not.
    pub lost: Vec<String>,
    /// What came out.
    pub recomputed: ReplayedOutcome,
}

/// One thing that came out otherwise than recorded.
#[derive(Debug, Serialize)]
pub struct Differing {
    what: String,
    /// The candidate it is about.
    candidate: Option<String>,
    recorded: Value,
    recomputed: Value,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Value {
    Number(Exact),
    Name(String),
    Flag(bool),
}

/// What came out.
#[derive(Debug, Serialize)]
pub struct ReplayedOutcome {
    choice: Option<String>,
    /// In the order in which they would be tried.
    order: Vec<String>,
    /// Who scored the same as the choice.
    tied: Vec<String>,
    explored: bool,
    candidates: Vec<Scored>,
}

#[derive(Debug, Serialize)]
struct Scored {
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
    /// What `replay` found about the decision of `recorded`.
    #[must_use]
    pub fn new(replay: &Replay, recorded: &Recorded) -> ReplayResult {
        let name = |endpoint: &EndpointId| recorded.name(endpoint.0);
        let scored = replay.candidates.iter().map(|remade| Scored {
            candidate: name(&remade.endpoint),
            score: Exact(remade.terms.sum()),
            score_terms: remade.terms.iter().map(|term| Term { name: term.name, value: Exact(term.value) }).collect(),
            failure_probability: Exact(remade.failure),
            ttft_p50_s: Exact(remade.first_token),
        });
        ReplayResult {
            identical: replay.is_identical(),
            differences: replay.differences.iter().map(|difference| Differing::new(difference, name)).collect(),
            lost: replay.lost.iter().map(lost).collect(),
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

impl Differing {
    fn new(difference: &Difference, name: impl Fn(&EndpointId) -> String) -> Differing {
        match difference {
            Difference::Figure { endpoint, what, recorded, recomputed } => Differing {
                what: (*what).to_owned(),
                candidate: Some(name(endpoint)),
                recorded: Value::Number(Exact(*recorded)),
                recomputed: Value::Number(Exact(*recomputed)),
            },
            Difference::Place { place, recorded, recomputed } => Differing {
                what: if *place == 0 { "choice".to_owned() } else { format!("place {}", place + 1) },
                candidate: None,
                recorded: Value::Name(name(recorded)),
                recomputed: Value::Name(name(recomputed)),
            },
            Difference::Explored { recorded, recomputed } => Differing {
                what: "explored".to_owned(),
                candidate: None,
                recorded: Value::Flag(*recorded),
                recomputed: Value::Flag(*recomputed),
            },
        }
    }
}

fn lost(lost: &MissingInput) -> String {
    match lost {
        MissingInput::Candidates => "the record holds no candidates".to_owned(),
        MissingInput::Policy { recorded, given } => {
            format!("the decision used policy {recorded}, but only policy {given} is available")
        }
    }
}

impl fmt::Display for Differing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(candidate) = &self.candidate {
            write!(f, " of {candidate}")?;
        }
        write!(f, ": recorded {}, recomputed {}", self.recorded, self.recomputed)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{:?}", number.0),
            Value::Name(name) => f.write_str(name),
            Value::Flag(flag) => f.write_str(if *flag { "yes" } else { "no" }),
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
