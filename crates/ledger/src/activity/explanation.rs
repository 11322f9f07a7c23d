//! Why the cost of one period differs from that of another: a sum of parts, exact to the last unit.
//!
//! Each part is the difference of two costs, the second of which is the first of the next part. The way from the earlier to the
//! later cost: all costs with the later number of requests; then those requests divided among models and providers as they
//! were; then, of each of these, prompts and answers as long as they were, at the shares of caches and the prices from before;
//! with the later hits of caches; at the later prices; and last what attempts cost that served nobody. So the parts add up
//! whatever is rounded in between. What it leaves to others: which sums are compared, and words in an answer.

use std::collections::BTreeMap;

use pointsman_domain::Usd;

use super::ActivityCounters;
use crate::facts::FEMTO_PER_NANO;

pointsman_domain::named! {
    /// A cause of a change.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Cause {
        /// More or fewer requests were answered.
        Requests = "requests",
        /// Prompts became longer or shorter.
        Prompts = "prompts",
        /// Answers became longer or shorter.
        Answers = "answers",
        /// A token of the same kind costs another amount at the same model and provider: its price, its tier or its mix of audio and
        /// reasoning changed.
        Prices = "prices",
        /// Requests went to other models or providers.
        Models = "models",
        /// More or fewer tokens came from caches of providers, or were written to them.
        Caches = "caches",
        /// Attempts that served nobody: they failed, or lost a race.
        Attempts = "attempts",
        /// Prices of requests, images and searches.
        Fees = "fees",
    }
}

/// Where calls went.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Catalog id of the model.
    pub model: String,
    /// Slug of the provider; empty if none served.
    pub provider: String,
}

/// What was counted at each endpoint.
pub type Bill = BTreeMap<Endpoint, ActivityCounters>;

/// A part of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Why.
    pub cause: Cause,
    /// What it adds to the cost.
    pub change: Usd,
}

/// The parts of the change from one bill to another, largest first and none of them zero. They add up to the change exactly.
pub fn explain(before: &Bill, after: &Bill) -> Vec<Part> {
    let mut changes: BTreeMap<Cause, i128> = BTreeMap::new();
    let mut note = |cause, from: i128, to: i128| *changes.entry(cause).or_default() += to.saturating_sub(from);
    let empty = ActivityCounters::default();
    let endpoints = before.keys().chain(after.keys()).collect::<std::collections::BTreeSet<_>>();
    let pairs = endpoints.into_iter().map(|endpoint| {
        let of = |bill: &Bill| Costs::of(endpoint, bill.get(endpoint).unwrap_or(&empty));
        (of(before), of(after))
    });
    let pairs: Vec<(Costs, Costs)> = pairs.collect();

    let sum = |of: fn(&(Costs, Costs)) -> i128| pairs.iter().map(of).fold(0, i128::saturating_add);
    let (requests, later) = (sum(|pair| pair.0.requests), sum(|pair| pair.1.requests));
    let (served, served_later) = (sum(|pair| pair.0.served()), sum(|pair| pair.1.served()));
    // Without a request before, all that is spent now is spent on new ones.
    let with_requests = if requests == 0 { served_later } else { scaled(served, later, requests) };
    note(Cause::Requests, served, with_requests);
    let with_models = pairs.iter().map(|(before, after)| before.at_requests_of(after)).fold(0, i128::saturating_add);
    note(Cause::Models, with_requests, with_models);
    for (before, after) in &pairs {
        // A new endpoint, and one that is gone, are told in whole by the part of models.
        if before.requests > 0 && after.requests > 0 {
            endpoint(before, after, &mut note);
        }
        note(Cause::Attempts, before.lost, after.lost);
    }
    let parts = changes.into_iter().filter(|(_, change)| *change != 0);
    let mut parts: Vec<Part> = parts.map(|(cause, change)| Part { cause, change: Usd::from_femto(change) }).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.change.femto().unsigned_abs()));
    parts
}

/// The parts of one endpoint that served in both periods, from its cost at the later number of requests.
fn endpoint(before: &Costs, after: &Costs, note: &mut impl FnMut(Cause, i128, i128)) {
    let at_requests = |cost| scaled(cost, after.requests, before.requests);
    let (prompts, prompts_later) = (before.input + before.cache, after.input + after.cache);
    let from = at_requests(prompts);
    let longer = if before.prompt_tokens == 0 {
        prompts_later
    } else {
        scaled(prompts, after.prompt_tokens, before.prompt_tokens)
    };
    let cached = before.prompts_as_cached_in(after);
    note(Cause::Prompts, from, longer);
    note(Cause::Caches, longer, cached);
    note(Cause::Prices, cached, prompts_later);

    let from = at_requests(before.output);
    let longer = if before.output_tokens == 0 {
        after.output
    } else {
        scaled(before.output, after.output_tokens, before.output_tokens)
    };
    note(Cause::Answers, from, longer);
    note(Cause::Prices, longer, after.output);

    // The division of the whole and those of its parts round apart: the last part takes what is left.
    let parts = at_requests(prompts) + at_requests(before.output);
    note(Cause::Fees, before.at_requests_of(after) - parts, after.fees);
}

/// The costs of one endpoint in 10⁻¹⁵ dollars, and what they were for.
#[derive(Debug, Clone, Copy)]
struct Costs {
    /// Requests that it served.
    requests: i128,
    prompt_tokens: i128,
    /// Of them those that came from a cache or were written to one.
    cache_tokens: i128,
    output_tokens: i128,
    input: i128,
    cache: i128,
    output: i128,
    /// Requests, images, searches, and what was rounded off the others.
    fees: i128,
    lost: i128,
}

impl Costs {
    fn of(endpoint: &Endpoint, counters: &ActivityCounters) -> Costs {
        let femto = |nanos: u64| i128::from(nanos) * FEMTO_PER_NANO;
        let cost = counters.cost.femto();
        // What nobody served cost nothing but its attempts.
        let lost = if endpoint.provider.is_empty() { cost } else { femto(counters.lost_nanos) };
        let requests = if endpoint.provider.is_empty() { 0 } else { i128::from(counters.requests) };
        let prompt_tokens = i128::from(counters.prompt_tokens);
        let (input, cache, output) =
            (femto(counters.input_nanos), femto(counters.cache_nanos), femto(counters.output_nanos));
        Costs {
            requests,
            prompt_tokens,
            cache_tokens: i128::from(counters.cached_tokens.saturating_add(counters.cache_write_tokens))
                .min(prompt_tokens),
            output_tokens: i128::from(counters.completion_tokens),
            input,
            cache,
            output,
            fees: cost - lost - input - cache - output,
            lost,
        }
    }

    /// The cost of all answers.
    const fn served(&self) -> i128 {
        self.input + self.cache + self.output + self.fees
    }

    /// What as many requests as those of `after` would have cost; of an endpoint that had none, what they do cost.
    fn at_requests_of(&self, after: &Costs) -> i128 {
        if self.requests == 0 { after.served() } else { scaled(self.served(), after.requests, self.requests) }
    }

    /// What the prompts of `after`, with as much of them from caches as there, would have cost at the prices of these.
    fn prompts_as_cached_in(&self, after: &Costs) -> i128 {
        let plain = |costs: &Costs| costs.prompt_tokens - costs.cache_tokens;
        let (own, later) = (plain(self), plain(after));
        let input = if own == 0 { after.input } else { scaled(self.input, later, own) };
        let cache = if self.cache_tokens != 0 {
            scaled(self.cache, after.cache_tokens, self.cache_tokens)
        } else if own != 0 && later != 0 && after.input != 0 {
            // Nothing was cached before: a cached token would have had the discount that it has now.
            scaled(after.cache, input, after.input)
        } else {
            after.cache
        };
        input + cache
    }
}

/// An amount times one number and divided by another, rounded towards zero.
fn scaled(amount: i128, times: i128, by: i128) -> i128 {
    if by == 0 {
        return 0;
    }
    let whole = amount.checked_mul(times).map(|product| product / by);
    // Of amounts so large the last digits do not matter, and the parts add up all the same.
    whole
        .unwrap_or_else(|| (amount / by).saturating_mul(times).saturating_add((amount % by).saturating_mul(times) / by))
}

#[cfg(test)]
mod tests;
