//! Ids of tool calls in the alphabet of the upstream, the same for a call and its result, and each used once.

use std::collections::{BTreeMap, VecDeque};

use super::{
    text::EscapedText,
    tool_names::{NameRules, fitting_call_id},
};

/// The ids of one history, in order of appearance: what follows later changes none of them.
#[derive(Debug)]
pub(crate) struct ToolCallIds<'a> {
    rules: NameRules,
    /// How often an id was sent.
    uses: BTreeMap<Vec<u8>, u64>,
    /// Original and sent ids of calls that wait for their result.
    open: VecDeque<(EscapedText<'a>, EscapedText<'a>)>,
}

impl<'a> ToolCallIds<'a> {
    /// The ids of a history for an upstream with these rules.
    pub(crate) fn new(rules: NameRules) -> ToolCallIds<'a> {
        ToolCallIds { rules, uses: BTreeMap::new(), open: VecDeque::new() }
    }

    /// The id to send for a call.
    pub(crate) fn of_call(&mut self, id: &EscapedText<'a>) -> EscapedText<'a> {
        let mut sent = fitting_call_id(id, self.rules);
        let uses = self.uses.entry(sent.bytes().to_vec()).or_default();
        *uses += 1;
        if *uses > 1 {
            // The name of a function stands for the id in the deprecated form, so that a second call repeats it.
            let again = format!("{}#{uses}", sent.unescaped());
            sent = fitting_call_id(&EscapedText::escaping(&again), self.rules);
        }
        self.open.push_back((id.clone(), sent.clone()));
        sent
    }

    /// The id to send for the result of a call: that of the first call of this id without a result.
    pub(crate) fn of_result(&mut self, id: &EscapedText<'a>) -> EscapedText<'a> {
        match self.open.iter().position(|(original, _)| original == id) {
            Some(place) => self.open.remove(place).map_or_else(|| fitting_call_id(id, self.rules), |(_, sent)| sent),
            None => fitting_call_id(id, self.rules),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: NameRules = NameRules { extra: "_-", begins_with_letter: false, max: 128 };

    #[test]
    fn repeated_ids_are_told_apart_and_results_find_their_calls() {
        let mut ids = ToolCallIds::new(NAMES);
        for id in ["toolu_1", "é", "f"] {
            let call = ids.of_call(&EscapedText::plain(id));
            let result = ids.of_result(&EscapedText::plain(id));
            assert_eq!(call, result, "{id}");
            assert!(NAMES.fits(&call.unescaped()), "{call:?}");
        }
        let (one, other) = (ids.of_call(&EscapedText::plain("f")), ids.of_call(&EscapedText::plain("é")));
        assert_ne!(one, EscapedText::plain("f"));
        assert_ne!(one, other);
        assert_eq!(ids.of_result(&EscapedText::plain("é")), other);
        assert_eq!(ids.of_result(&EscapedText::plain("f")), one);
    }
}
