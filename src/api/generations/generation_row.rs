//! A generation as one row of a list. No row contains a prompt or an answer.

use std::{borrow::Cow, sync::Arc};

use pointsman_domain::{AttemptRecord, Generation, Usd};
use pointsman_ledger::event::Event;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::value::RawValue;

use crate::{
    access::keys::HolderNames,
    api::{
        csv::{Csv, cells},
        models::measurements::rfc_3339,
        number::{Dollars, Text},
    },
};

view! {
    /// One call. Ended ones only: `/admin/running` has the others.
    #[derive(Deserialize)]
    pub(crate) struct GenerationRow<'a> as "GenerationRow" {
        /// The row of a generation that the key of these names made.
        pub(crate) fn new(generation: &'a Generation, names: &HolderNames) {
            let owned = |name: &Arc<str>| Cow::Owned(name.as_ref().to_owned());
            let link = |attempt: &'a AttemptRecord| LinkBody {
                provider_slug: (&*attempt.provider_slug).into(),
                outcome: attempt.outcome().into(),
                cause: attempt.cause.as_deref().map(Cow::from),
            };
            let served = generation.served_endpoint();
        }

        /// Id of the generation, for `/generation` and `/route/explain`.
        pub(crate) id: Cow<'a, str> = generation.id.as_str().into(),
        /// When the request was admitted. RFC 3339, UTC, with milliseconds.
        pub(crate) created_at: String = rfc_3339(generation.created_ms),
        /// Name of the key that called; `null` if neither it nor another key of its account exists any more.
        pub(crate) key: Option<Cow<'a, str>> = names.key.as_ref().map(owned),
        /// Name of the account that the call was charged to; `null` if it has no key any more.
        pub(crate) account: Option<Cow<'a, str>> = names.account.as_ref().map(owned),
        /// Name of the team whose budget paid too; `null` without one.
        pub(crate) team: Option<Cow<'a, str>> = generation.team.as_deref().map(Cow::from),
        /// Name of the model or alias as the client wrote it.
        pub(crate) requested_model: Cow<'a, str> = (&*generation.requested_model).into(),
        /// Id of the model that served; `null` if none did.
        pub(crate) model: Option<Cow<'a, str>> = generation.model.as_deref().map(Cow::from),
        /// Slug of the provider that served; `null` if none did.
        pub(crate) provider_slug: Option<Cow<'a, str>> = generation.provider_slug.as_deref().map(Cow::from),
        /// The endpoint that served, such as `acme/small@bolt`, or `acme/small@bolt/fp8` for a variant; `null` if none did.
        pub(crate) endpoint: Option<Cow<'a, str>> =
            served.and_then(|served| generation.catalog.name_of(served)).map(Cow::from),
        /// What the choice optimises.
        #[cfg_attr(test, schemars(with = "crate::base::words::Objective"))]
        pub(crate) objective: Cow<'a, str> = generation.decision.objective.value.as_str().into(),
        #[cfg_attr(test, schemars(with = "crate::base::words::DecisionCode"))]
        pub(crate) decision_code: Cow<'a, str> = generation.decision_code().as_str().into(),
        /// `completed`: the client got a whole answer. `failed`: it ended with an error, before or within the answer.
        /// `cancelled`: the client left before the end.
        #[cfg_attr(test, schemars(extend("enum" = ["completed", "failed", "cancelled"])))]
        pub(crate) status: Cow<'a, str> = generation.status.as_str().into(),
        /// Whether the answer was streamed.
        pub(crate) streamed: bool = generation.streamed,
        /// The attempts, in the order of their starts.
        pub(crate) chain: Vec<LinkBody<'a>> = generation.attempts.iter().map(link).collect(),
        /// Milliseconds from the acceptance of the request to the first output of the provider that served: the first
        /// content of a stream, or the head of the provider's answer if that is not streamed. `null` if nothing served.
        pub(crate) ttft_ms: Option<u64> = generation.latency_ms,
        /// Milliseconds from the acceptance of the request to the end of its last attempt; `null` if there was none.
        pub(crate) total_ms: Option<u64> = total_ms(generation),
        /// Tokens of the prompt, those read from or written to a cache included.
        pub(crate) prompt_tokens: u64 = generation.usage.prompt_tokens,
        /// Tokens of the answer, reasoning included.
        pub(crate) completion_tokens: u64 = generation.usage.completion_tokens,
        /// Prompt tokens read from the provider's cache.
        pub(crate) cached_tokens: u64 = generation.usage.cached_tokens,
        /// Tokens of the answer that were spent on reasoning.
        pub(crate) reasoning_tokens: u64 = generation.usage.reasoning_tokens,
        /// Prompt tokens written to the provider's cache.
        pub(crate) cache_write_tokens: u64 = generation.usage.cache_write_tokens,
        /// Of those, the tokens written to be kept for one hour.
        pub(crate) cache_write_1h_tokens: u64 = generation.usage.cache_write_1h_tokens,
        /// Other prompt tokens that are audio.
        pub(crate) audio_tokens: u64 = generation.usage.audio_tokens,
        /// Tokens of the answer that are audio.
        pub(crate) audio_output_tokens: u64 = generation.usage.audio_output_tokens,
        /// Billed images.
        pub(crate) images: u64 = generation.usage.images,
        /// Billed web searches.
        pub(crate) web_searches: u64 = generation.usage.web_searches,
        /// US dollars of all attempts together, failed ones included; `null` if the price of one is unknown.
        #[cfg_attr(test, schemars(with = "Option<f64>"))]
        pub(crate) cost: Option<RowCost> = generation.spent().map(RowCost::Number),
        /// Whether it completed although an attempt had failed. An attempt that lost a race did not fail.
        pub(crate) rescued: bool = Event::Rescued.happened(generation),
        /// Whether a second attempt raced the first.
        pub(crate) hedged: bool = Event::Hedged.happened(generation),
        /// Whether chance made the choice: exploration noise or a draw (`routing.explore`).
        pub(crate) explored: bool = Event::Explored.happened(generation),
        /// Whether its first token came later than a `preferred_max_latency` of the request or of its alias, or did not
        /// come; of streams only.
        pub(crate) missed_target: bool = Event::MissedTarget.happened(generation),
        /// Whether the first token of the attempt that served came later than its predicted 95th percentile; of streams
        /// only, and where the prediction rests on measurements.
        pub(crate) slower_than_predicted: bool = Event::SlowerThanPredicted.happened(generation),
        /// Whether tokens or cost are the gateway's estimate, of any attempt.
        pub(crate) estimated: bool =
            generation.usage.estimated || generation.attempts.iter().any(|attempt| attempt.estimated),
    }
}

/// An amount, in JSON a number or a text. Read from both.
#[derive(Clone, Copy)]
pub(crate) enum RowCost {
    Number(Usd),
    Text(Usd),
}

impl RowCost {
    /// The amount.
    pub(crate) const fn amount(self) -> Usd {
        match self {
            RowCost::Number(amount) | RowCost::Text(amount) => amount,
        }
    }
}

impl Serialize for RowCost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RowCost::Number(amount) => Dollars(*amount).serialize(serializer),
            RowCost::Text(amount) => Text(amount).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RowCost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RowCost, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        text.get().trim_matches('"').parse().map(RowCost::Number).map_err(|_| D::Error::custom("not an amount"))
    }
}

/// One attempt in the chain of a generation.
#[derive(Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct LinkBody<'a> {
    /// Slug of the provider: its name in the configuration, in requests and in filters.
    pub(crate) provider_slug: Cow<'a, str>,
    /// How the attempt ended: `completed`, or the `error_type` of the attempt in `/route/explain`.
    pub(crate) outcome: Cow<'a, str>,
    /// Why the connection failed, such as `refused`; `null` for other outcomes.
    pub(crate) cause: Option<Cow<'a, str>>,
}

impl<'a> GenerationRow<'a> {
    /// The row with its cost as text, which every program reads exactly.
    pub(crate) fn with_exact_cost(self) -> GenerationRow<'a> {
        GenerationRow { cost: self.cost.map(|cost| RowCost::Text(cost.amount())), ..self }
    }

    /// The names of the columns, as in JSON.
    const COLUMNS: [&'static str; 33] = [
        "id",
        "created_at",
        "key",
        "account",
        "team",
        "requested_model",
        "model",
        "provider_slug",
        "endpoint",
        "objective",
        "decision_code",
        "status",
        "streamed",
        "chain",
        "ttft_ms",
        "total_ms",
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "reasoning_tokens",
        "cache_write_tokens",
        "cache_write_1h_tokens",
        "audio_tokens",
        "audio_output_tokens",
        "images",
        "web_searches",
        "cost",
        "rescued",
        "hedged",
        "explored",
        "missed_target",
        "slower_than_predicted",
        "estimated",
    ];

    /// Writes the names of the columns.
    pub(crate) fn write_head(csv: &mut Csv) {
        csv.row(GenerationRow::COLUMNS);
    }

    /// Writes the row. What has no value is empty; the chain is `flaky:provider_error > good:completed`.
    pub(crate) fn write(&self, csv: &mut Csv) {
        let mut cells = cells(self);
        let links: Vec<String> =
            self.chain.iter().map(|link| format!("{}:{}", link.provider_slug, link.outcome)).collect();
        cells.insert("chain".to_owned(), links.join(" > "));
        csv.row(GenerationRow::COLUMNS.map(|column| cells.get(column).map_or("", String::as_str)));
    }
}

/// Milliseconds from the acceptance of the request to the end of its last attempt.
pub(crate) fn total_ms(generation: &Generation) -> Option<u64> {
    let ends = generation.attempts.iter().map(|attempt| attempt.started_ms.saturating_add(attempt.duration_ms));
    // Start and duration are rounded down one by one: their sum may be just below the time to the first output.
    ends.chain(generation.latency_ms).max()
}

#[cfg(test)]
mod tests {
    use pointsman_domain::Usage;
    use serde_json::Value;

    use super::*;
    use crate::api::{route_samples::generation, samples::catalog};

    fn named(key: &str) -> HolderNames {
        HolderNames { key: Some(key.into()), account: Some("webshop".into()) }
    }

    #[test]
    fn the_columns_of_csv_are_the_members_of_json_in_their_order() {
        let generation = generation(&catalog());
        let json = serde_json::to_string(&GenerationRow::new(&generation, &named("test"))).unwrap();
        let members: Vec<usize> =
            GenerationRow::COLUMNS.iter().map(|name| json.find(&format!("\"{name}\":")).unwrap()).collect();
        assert!(members.is_sorted(), "{members:?}");
        let members: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(members.as_object().unwrap().len(), GenerationRow::COLUMNS.len());
    }

    #[test]
    fn a_requested_model_that_looks_like_a_formula_stays_text() {
        let mut generation = generation(&catalog());
        generation.requested_model = "=cmd|'/c calc'!A1".into();
        let mut csv = Csv::default();
        GenerationRow::new(&generation, &named("-key,\"1\"")).write(&mut csv);
        let text = csv.into_text();
        assert!(text.contains(",'=cmd|'/c calc'!A1,"), "{text}");
        assert!(text.contains(",\"'-key,\"\"1\"\"\","), "{text}");
    }

    #[test]
    fn a_cost_with_an_estimate_in_it_is_marked_also_without_usage() {
        let mut generation = generation(&catalog());
        generation.usage = Usage::default();
        generation.attempts.iter_mut().for_each(|attempt| attempt.estimated = false);
        assert!(!GenerationRow::new(&generation, &HolderNames::default()).estimated);
        generation.attempts[0].estimated = true;
        assert!(GenerationRow::new(&generation, &HolderNames::default()).estimated);
    }

    #[test]
    fn an_attempt_that_failed_makes_a_rescue_and_one_that_lost_a_race_does_not() {
        let mut generation = generation(&catalog());
        let rescued = |generation: &Generation| GenerationRow::new(generation, &HolderNames::default()).rescued;
        assert!(rescued(&generation), "its first attempt failed");
        for harmless in [AttemptRecord::LOST_RACE, AttemptRecord::CANCELLED] {
            generation.attempts[0].error_type = Some(harmless.into());
            assert!(!rescued(&generation), "{harmless}");
        }
        generation.attempts[0].error_type = Some("provider_overloaded".into());
        assert!(rescued(&generation));
        generation.status = pointsman_domain::GenerationStatus::Failed;
        assert!(!rescued(&generation));
    }

    #[test]
    fn a_streamed_answer_after_its_predicted_p95_is_slower_than_predicted_and_a_plain_one_never_is() {
        let mut generation = generation(&catalog());
        let slower =
            |generation: &Generation| GenerationRow::new(generation, &HolderNames::default()).slower_than_predicted;
        let served = generation.attempts.iter().position(|attempt| attempt.served).unwrap();
        let endpoint = generation.attempts[served].endpoint;
        let candidate = generation.decision.plan().find(|candidate| candidate.index == endpoint).unwrap();
        assert!((candidate.predicted.first_token_p95 - 0.51).abs() < 1e-9);
        for (first_token_ms, expected) in [(None, false), (Some(510), false), (Some(511), true)] {
            generation.attempts[served].first_token_ms = first_token_ms;
            assert_eq!(slower(&generation), expected, "{first_token_ms:?}");
        }
        generation.streamed = false;
        assert!(!slower(&generation));
    }

    #[test]
    fn the_whole_time_is_never_below_the_time_to_the_first_output() {
        let mut generation = generation(&catalog());
        let end = generation.attempts.iter().map(|attempt| attempt.started_ms + attempt.duration_ms).max().unwrap();
        assert_eq!(
            GenerationRow::new(&generation, &HolderNames::default()).total_ms,
            Some(end.max(generation.latency_ms.unwrap()))
        );
        generation.latency_ms = Some(end + 1);
        assert_eq!(GenerationRow::new(&generation, &HolderNames::default()).total_ms, Some(end + 1));
        generation.attempts.clear();
        generation.latency_ms = None;
        assert_eq!(GenerationRow::new(&generation, &HolderNames::default()).total_ms, None);
    }
}
