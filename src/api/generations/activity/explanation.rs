//! `GET /activity/explain`: why the cost of a period differs from that of another, in parts that add up exactly and in a
//! sentence. What the parts are is in [`pointsman_ledger::activity::explanation`].

use actix_web::HttpResponse;
use pointsman_base::clock;
use pointsman_domain::{Usd, shown_dollars};
use pointsman_ledger::activity::{
    ActivityCounters, Sums,
    explanation::{Bill, Cause, Endpoint, Part, explain},
    grouping::Dimension,
};
use serde::Serialize;

use super::{
    query::{ActivityQuery, Asked, GroupBy},
    reading::{Reading, read_sums},
    view::{Cost, RangeBody},
};
use crate::{
    access::keys::Caller,
    api::{
        answer::uncached,
        auth::Reader,
        generations::{generation_list::Coverage, ledger_query::Listed},
        models::measurements::rfc_3339,
        number::{Dollars, Figure},
    },
    base::error::ApiError,
    state::gateway::Worker,
};

/// Most parts that the sentence names.
const MOST_NAMED: usize = 4;
/// A part below this share of the largest, in percent, is not named in the sentence.
const LEAST_NAMED: u128 = 2;

/// Explains the spending of the caller.
///
/// # Errors
/// 400 for a bad parameter, 404 without a durable ledger.
pub(crate) async fn show(by: Reader) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&read(&by.worker, &by.caller, Listed::Own(&by.caller), by.query()).await?))
}

/// The explanation that `caller` asks for, to be shown.
///
/// # Errors
/// As [`show`].
pub(crate) async fn read(
    worker: &Worker,
    caller: &Caller,
    listed: Listed<'_>,
    query: &str,
) -> Result<ChangeBody, ApiError> {
    let query = ActivityQuery::parse(query, listed.owner(), Asked::Explanation, clock::unix_millis())?;
    let Some(before_ms) = query.before_ms else {
        let message = "The period before would begin more than 90 days ago, and sums are kept for so long: ask for a later \
                       or a shorter time.";
        return Err(ApiError::bad_query("since", message));
    };
    let read = move |asked: &ActivityQuery, mut reading: Reading| {
        let by = GroupBy { dimensions: vec![Dimension::Model, Dimension::Provider], length: None };
        let only = reading.only.clone();
        let now = reading.sums(&asked.grouping(asked.since_ms, &by, &only))?;
        let before = reading.sums(&asked.grouping(before_ms, &by, &only))?;
        Ok((bill(before), bill(now), reading.coverage))
    };
    let (before, now, replicas) = read_sums(worker, caller, listed, &query, read).await?;
    Ok(ChangeBody::new(&query, before_ms, (&before, &now), &explain(&before, &now), replicas))
}

fn bill(sums: Sums) -> Bill {
    let mut bill = Bill::new();
    for ((_, key), counters) in sums {
        let name = |dimension| key.get(dimension).to_owned();
        let endpoint = Endpoint { model: name(Dimension::Model), provider: name(Dimension::Provider) };
        bill.entry(endpoint).or_default().add(&counters);
    }
    bill
}

view! {
    /// Why the cost of one period differs from that of another.
    #[cfg_attr(test, schemars(description = ""))]
    pub(crate) struct ChangeBody {
        fn new(
            query: &ActivityQuery,
            before_ms: i64,
            (before, now): (&Bill, &Bill),
            parts: &[Part],
            replicas: Option<Coverage>,
        ) {
            let sum = |bill: &Bill| {
                bill.values().fold(ActivityCounters::default(), |mut sum, counters| {
                    sum.add(counters);
                    sum
                })
            };
            let (before, now) = (sum(before), sum(now));
        }

        /// The change and its largest parts in a sentence.
        pub(crate) summary: String = summary(before.cost, now.cost, parts),
        /// The parts, largest first. They add up to `cost.change` exactly.
        pub(crate) parts: Vec<PartBody> = parts.iter().map(PartBody::new).collect(),
        /// What was spent.
        pub(crate) cost: Cost = Cost::new(now.cost, Some(before.cost)),
        /// The change as a part of the cost before: 0.31 for 31 % more; `null` if that was nothing.
        pub(crate) change: Option<Figure> = Figure::part(now.cost - before.cost, before.cost),
        /// Requests in the period.
        pub(crate) requests: u64 = now.requests,
        /// Requests in the period before.
        pub(crate) requests_before: u64 = before.requests,
        /// Requests of both periods of which costs leave something out, because an endpoint has no known price.
        pub(crate) unknown_costs: u64 = now.unknown_costs.saturating_add(before.unknown_costs),
        /// Beginning of the period. RFC 3339, UTC, with milliseconds.
        pub(crate) since: String = rfc_3339(query.since_ms),
        /// Its end. RFC 3339, UTC, with milliseconds.
        pub(crate) until: String = rfc_3339(query.until_ms),
        /// The period that it is compared with.
        pub(crate) before: RangeBody = RangeBody {
            since: rfc_3339(before_ms),
            until: rfc_3339(before_ms + query.until_ms - query.since_ms),
        },
        /// Whose records these are, where replicas share them: those of all, or, while PostgreSQL is away, those of this
        /// replica alone. Absent otherwise.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub(crate) replicas: Option<Coverage> = replicas,
    }
}

view! {
    /// A part of a change.
    pub(crate) struct PartBody as "CostPart" {
        fn new(part: &Part) {}

        /// `requests`: more or fewer were answered. `prompts`, `answers`: they became longer or shorter. `prices`: the same tokens
        /// cost another amount at the same model and provider. `models`: requests went to other models or providers. `caches`: more
        /// or less came from caches of providers. `attempts`: attempts that failed or lost a race. `fees`: prices of requests, images
        /// and searches.
        #[cfg_attr(test, schemars(with = "crate::base::words::CostCause"))]
        pub(crate) cause: &'static str = part.cause.as_str(),
        /// The same in words, such as `more requests`.
        pub(crate) text: &'static str = words(part),
        /// US dollars that it adds, negative where it takes away.
        pub(crate) change: Dollars = Dollars(part.change),
    }
}

/// A part in words.
fn words(part: &Part) -> &'static str {
    let is_more = part.change.femto() > 0;
    match (part.cause, is_more) {
        (Cause::Requests, true) => "more requests",
        (Cause::Requests, false) => "fewer requests",
        (Cause::Prompts, true) => "longer prompts",
        (Cause::Prompts, false) => "shorter prompts",
        (Cause::Answers, true) => "longer answers",
        (Cause::Answers, false) => "shorter answers",
        (Cause::Prices, true) => "higher prices",
        (Cause::Prices, false) => "lower prices",
        (Cause::Models, true) => "dearer models or providers",
        (Cause::Models, false) => "cheaper models or providers",
        (Cause::Caches, true) => "fewer cache hits",
        (Cause::Caches, false) => "more cache hits",
        (Cause::Attempts, true) => "more failed attempts and hedges",
        (Cause::Attempts, false) => "fewer failed attempts and hedges",
        (Cause::Fees, true) => "more fees, images or searches",
        (Cause::Fees, false) => "fewer fees, images or searches",
    }
}

/// The change and its largest parts in a sentence.
fn summary(before: Usd, now: Usd, parts: &[Part]) -> String {
    let change = now - before;
    let size = |amount: Usd| shown_dollars(Usd::from_femto(amount.femto().saturating_abs()));
    if change.is_zero() && parts.is_empty() {
        return format!("Spend did not change: {} in both periods.", size(now));
    }
    let is_rise = change.femto() >= 0;
    let percent = percent(before, change).map_or_else(String::new, |percent| format!(" ({percent})"));
    let head = match change.femto() {
        0 => format!("Spend did not change: {} in both periods", size(now)),
        _ if is_rise => format!("Spend rose by {}{percent}", size(change)),
        _ => format!("Spend fell by {}{percent}", size(change)),
    };
    let largest = parts.first().map_or(0, |part| part.change.femto().unsigned_abs());
    let is_named = |part: &&Part| part.change.femto().unsigned_abs() * 100 >= largest * LEAST_NAMED;
    let named: Vec<&Part> = parts.iter().filter(is_named).take(MOST_NAMED).collect();
    let is_with = |part: &&&Part| (part.change.femto() > 0) == is_rise;
    let with = named.iter().filter(is_with).map(|part| format!("{} from {}", size(part.change), words(part)));
    let against = named
        .iter()
        .filter(|part| !is_with(part))
        .map(|part| format!("less {} from {}", size(part.change), words(part)));
    let said = named.iter().fold(Usd::ZERO, |sum, part| sum + part.change);
    let rest = change - said;
    let rest = (!rest.is_zero()).then(|| {
        let less = if (rest.femto() > 0) == is_rise { "" } else { "less " };
        format!("{less}{} from the rest", size(rest))
    });
    format!("{head}: {}.", with.chain(against).chain(rest).collect::<Vec<_>>().join(", "))
}

/// A change in percent of what was before, with a sign; `None` where that was nothing.
fn percent(before: Usd, change: Usd) -> Option<String> {
    let before = before.femto();
    let per_mille = change.femto().saturating_mul(1_000).checked_div(before)?;
    let sign = if per_mille < 0 { "−" } else { "+" };
    let size = per_mille.unsigned_abs();
    Some(match size {
        0 => format!("{sign}< 0.1 %"),
        1..100 => format!("{sign}{}.{} %", size / 10, size % 10),
        _ => format!("{sign}{} %", (size + 5) / 10),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> Usd {
        text.parse().unwrap()
    }

    fn sentence(before: &str, now: &str, parts: &[(Cause, &str)]) -> String {
        let parts: Vec<Part> =
            parts.iter().map(|(cause, change)| Part { cause: *cause, change: usd(change) }).collect();
        summary(usd(before), usd(now), &parts)
    }

    #[test]
    fn a_sentence_names_the_largest_parts_and_then_what_worked_against_them() {
        let parts = [(Cause::Requests, "9.1"), (Cause::Answers, "4"), (Cause::Caches, "-0.7")];
        assert_eq!(
            sentence("40", "52.4", &parts),
            "Spend rose by $12.40 (+31 %): $9.10 from more requests, $4.00 from longer answers, less $0.700 from more cache hits."
        );
        let parts = [(Cause::Models, "-3"), (Cause::Prices, "1"), (Cause::Fees, "-0.001")];
        assert_eq!(
            sentence("10", "7.999", &parts),
            "Spend fell by $2.00 (−20 %): $3.00 from cheaper models or providers, less $1.00 from higher prices, $0.00100 from the rest."
        );
        assert_eq!(sentence("0", "2", &[(Cause::Requests, "2")]), "Spend rose by $2.00: $2.00 from more requests.");
        assert_eq!(sentence("2", "2", &[]), "Spend did not change: $2.00 in both periods.");
    }

    #[test]
    fn a_small_change_has_a_decimal_and_one_of_nothing_has_no_percent() {
        let shown = |before, change| percent(usd(before), usd(change));
        assert_eq!(shown("100", "0.4").as_deref(), Some("+0.4 %"));
        assert_eq!(shown("100", "-9.94").as_deref(), Some("−9.9 %"));
        assert_eq!(shown("1000000", "1").as_deref(), Some("+< 0.1 %"));
        assert_eq!(shown("0", "1"), None);
    }
}
