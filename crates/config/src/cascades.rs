//! `cascade` of an alias: the model that answers in the place of a broken answer.

use pointsman_domain::{Cascade, CascadeSignal};

use super::{
    accounts::dollars,
    section::{Item, Section},
};

const SAFETY: &str = "safety";

/// The definition, and the name in it with its location. `None` without the table, and if it names nothing.
pub(super) fn read<'t>(alias: &Section<'t>) -> Option<(Cascade, Item<'t>)> {
    alias.optional("cascade", read_cascade).flatten()
}

fn read_cascade<'t>(section: &Section<'t>) -> Option<(Cascade, Item<'t>)> {
    keys! { section:
        //! Another model for answers of the alias that are verifiably broken, such as `cascade = { to = "acme/large" }`. Plain
        //! answers only, and once. Both answers are billed. [POLICY.md](POLICY.md#cascades) says more.
        /// The model or alias that answers instead.
        name "to" = required("a model or an alias, such as \"acme/large\""),
        /// What makes an answer a broken one. `empty`: no content and no call. `length`: cut off below the limit of the request.
        /// `invalid_json`: JSON was asked for, and it is none. `schema`: it breaks the schema of the request. `tool_arguments`: it
        /// calls a tool that was not declared, or with arguments that are no JSON or break the schema of the tool. `refusal`: the
        /// provider marked it as refused or filtered; needs `acknowledge`.
        on = with(signals)
            [
                kind = "list of words",
                allowed = "`empty`, `length`, `invalid_json`, `schema`, `tool_arguments`, `refusal`",
                absent = "all but `refusal`",
            ],
        /// Most that second answers of the alias may cost in one hour of the clock, at this gateway.
        budget = with(dollars) [absent = "no limit", kind = "decimal string", allowed = "US dollars such as `\"5.00\"`"],
        /// `"safety"`: it is known that with `refusal` another model is asked for what the first one refused.
        acknowledge = choice(&[(SAFETY, ())]) [absent = "not acknowledged"],
    }
    if on.contains(&CascadeSignal::Refusal) && acknowledge.is_none() && !section.has("acknowledge") {
        let wrong = "holds \"refusal\": another model would be asked for what the first one refused, which routes around its safety";
        section.fault("on", wrong, "leave it out, or say that this is meant with acknowledge = \"safety\"");
    }
    if acknowledge.is_some() && !on.contains(&CascadeSignal::Refusal) {
        section.warning("acknowledge", "has no effect without \"refusal\" in 'on'");
    }
    Some((Cascade { to: name?.to_owned(), on, budget }, section.item("to")?))
}

/// The signals of a list of their names, each once.
fn signals(section: &Section<'_>, key: &'static str) -> Vec<CascadeSignal> {
    let Some(items) = section.texts(key, CascadeSignal::ALL.len()) else { return CascadeSignal::SAFE.to_vec() };
    let mut signals = Vec::new();
    for item in &items {
        match item.named("no signal", CascadeSignal::ALL, CascadeSignal::as_str) {
            Some(signal) if signals.contains(&signal) => item.fault("is there twice", "each word once"),
            signal => signals.extend(signal),
        }
    }
    if items.is_empty() {
        section.fault(key, "is empty", "at least one word, or leave it out");
    }
    signals
}
