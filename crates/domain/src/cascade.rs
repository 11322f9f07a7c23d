//! A second model for answers of an alias that are verifiably broken.

use serde::{Deserialize, Serialize};

use super::money::Usd;

/// Which answers of an alias are asked for again, and of whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cascade {
    /// The model or alias that answers in the place of a broken answer.
    pub to: String,
    /// What makes an answer a broken one. Not empty.
    pub on: Vec<CascadeSignal>,
    /// Most that second answers may cost in an hour; `None`: no limit of its own.
    pub budget: Option<Usd>,
}

crate::named! {
    /// What is wrong with an answer. Read from its structure alone: nobody judges what it says.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum CascadeSignal {
        /// No content and no call of a tool.
        Empty = "empty",
        /// It was cut off below the limit of the request.
        Length = "length",
        /// JSON was asked for, and the text is none.
        InvalidJson = "invalid_json",
        /// It breaks the JSON schema of the request.
        Schema = "schema",
        /// It calls a tool that was not declared, or with arguments that are no JSON or break the schema of the tool.
        ToolArguments = "tool_arguments",
        /// The provider marked it as refused or filtered. Never without the operator's word.
        Refusal = "refusal",
    }
}

impl CascadeSignal {
    /// The signals that need no consent.
    pub const SAFE: [CascadeSignal; 5] = [
        CascadeSignal::Empty,
        CascadeSignal::Length,
        CascadeSignal::InvalidJson,
        CascadeSignal::Schema,
        CascadeSignal::ToolArguments,
    ];
}

/// A broken answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenAnswer {
    /// What is wrong.
    pub signal: CascadeSignal,
    /// Where it breaks the schema of the request or of a tool, and what is expected there, such as `/items/3/price (number expected)`.
    /// Holds names of the schema and positions, nothing of the answer.
    pub place: Option<String>,
}

impl BrokenAnswer {
    /// The cause in the record of the attempt: the signal, and the place behind a space.
    pub fn cause(&self) -> String {
        match &self.place {
            Some(place) => format!("{} {place}", self.signal.as_str()),
            None => self.signal.as_str().to_owned(),
        }
    }

    /// The broken answer that a recorded cause names.
    pub fn of_cause(cause: &str) -> Option<BrokenAnswer> {
        let (name, place) = cause.split_once(' ').map_or((cause, None), |(name, place)| (name, Some(place)));
        let signal = CascadeSignal::ALL.into_iter().find(|signal| signal.as_str() == name)?;
        Some(BrokenAnswer { signal, place: place.map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_names_its_broken_answer() {
        for signal in CascadeSignal::ALL {
            for place in [None, Some("/items/3/price (number expected)".to_owned())] {
                let broken = BrokenAnswer { signal, place };
                assert_eq!(BrokenAnswer::of_cause(&broken.cause()), Some(broken));
            }
        }
        assert_eq!(BrokenAnswer::of_cause("refused"), None, "the cause of a failed connection");
    }
}
