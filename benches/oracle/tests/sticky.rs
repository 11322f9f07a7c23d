//! Conversations before caches whose blocks are known, in an hour that is made up here.

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use pointsman_domain::{Objective, RoutingPolicy};
    use pointsman_oracle::{
        dice::Dice,
        rules::policy,
        sticky::{Caches, Form, Trace, index, openings, pointsman, random},
    };

    const HEADER: &str = "t_ms,in_tok,out_tok,parent,shared\n";

    /// Conversations of five turns each, a minute from one to the next; every prompt begins with the same block.
    fn trace(conversations: usize) -> Trace {
        let mut table = HEADER.to_owned();
        let mut dice = Dice::new(5, 1);
        for turn in 0..5 {
            for conversation in 0..conversations {
                let (at, tokens) = (turn * 60_000 + conversation * 900, 512 * 8 * (turn + 1));
                let number = turn * conversations + conversation;
                let (parent, shared) = match turn {
                    0 => (0, usize::from(number > 0)),
                    _ => (number - conversations, 8 * turn),
                };
                writeln!(table, "{at},{tokens},{},{parent},{shared}", 50 + dice.below(50)).unwrap();
            }
        }
        Trace::parse(&table.replacen(",0,0\n", ",,0\n", 1)).unwrap()
    }

    fn share(trace: &Trace, caches: &Caches) -> f64 {
        caches.found as f64 / trace.blocks() as f64
    }

    fn own(trace: &Trace, form: Form, policy: &RoutingPolicy) -> Caches {
        pointsman(trace, &openings(trace, form).unwrap(), Objective::Balanced, policy)
    }

    #[test]
    fn conversations_find_nearly_what_an_index_of_all_blocks_finds_and_stay_spread() {
        let trace = trace(40);
        let own = own(&trace, Form::Turns, &policy());
        let [found, indexed] = [&own, &index(&trace)].map(|caches| share(&trace, caches));
        assert!(found > 0.9 * indexed && share(&trace, &random(&trace, 1)) < 0.6 * indexed, "{found} {indexed}");
        assert!(own.requests.iter().all(|requests| *requests < 100), "{:?}", own.requests);
    }

    #[test]
    fn without_stickiness_it_finds_no_more_than_chance_does() {
        let trace = trace(40);
        let mut policy = policy();
        policy.sticky.enabled = false;
        let [found, by_chance] = [&own(&trace, Form::Turns, &policy), &random(&trace, 1)].map(|c| share(&trace, c));
        assert!(found < by_chance + 0.1, "{found} {by_chance}");
    }

    #[test]
    fn a_later_turn_begins_with_the_first_message_of_the_conversation() {
        let trace = trace(2);
        assert_eq!(trace.turns.iter().map(|turn| turn.first).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        let [first, later, other] = [0, 2, 1].map(|number| trace.body(number, Form::Turns));
        assert!(later.starts_with(first.trim_end_matches("]}")) && !later.starts_with(other.trim_end_matches("]}")));
        assert_eq!(trace.body(2, Form::Whole).len(), 4 * 512 * 16 + 63);
    }

    #[test]
    fn a_line_that_shares_what_is_not_there_is_refused_by_number() {
        for line in ["0,600,5,7,1", "0,600,5,0,9", "0,100,5,0,2"] {
            let error = Trace::parse(&format!("{HEADER}0,1024,5,,0\n{line}\n")).unwrap_err();
            assert_eq!(error, "mooncake, line 3: shares more blocks than there are", "{line}");
        }
    }
}
