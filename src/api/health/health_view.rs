//! JSON of measurements: of a provider, and of a model at a provider.

use std::borrow::Cow;

use pointsman_domain::{Catalog, Failure, FailureCause, Provider, ProviderState, rough_time};
use pointsman_routing::stats::{ErrorCounts, Gate, LastError, LiveStatus, Quantiles, RefusedSince, Summary};
use serde::Serialize;

use crate::api::{
    condition::Condition,
    models::measurements::{Clocks, Measured, Measurements},
    number::Figure,
};

/// Health of a provider.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ProviderHealthBody<'a> {
    /// Slug of the provider: its name in the configuration, in requests and in filters.
    pub(crate) slug: &'a str,
    /// Display name of the provider.
    pub(crate) name: &'a str,
    /// Why it is off, or what it refuses, since when, and what ends that; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<Cow<'a, str>>,
    /// What of the gateway's the provider refuses, or seems to refuse; absent if nothing. No text of a prompt or
    /// answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) refusals: Vec<RefusalBody<'a>>,
    #[serde(flatten)]
    pub(crate) measured: MeasuredBody,
}

view! {
    /// Something of the gateway's that a provider refuses.
    pub(crate) struct RefusalBody<'a> {
        fn new(
            subject: &'static str,
            model: Option<&'a str>,
            refused: RefusedSince,
            (last, gate): (Option<FailureCause>, Gate),
            clocks: Clocks,
        ) {
            let RefusedSince { since, finding } = refused;
        }

        /// `key`: the gateway's key or account, so the whole provider is excluded. `model`: a model, which is excluded
        /// there. `requests`: requests of several callers are called wrong in the same words; nothing is excluded.
        #[cfg_attr(test, schemars(extend("enum" = ["key", "model", "requests"])))]
        pub(crate) subject: &'static str = subject,
        /// Id of the model; `null` for `key`.
        pub(crate) model: Option<&'a str> = model,
        /// What the refusal means.
        pub(crate) meaning: &'static str = finding.meaning,
        /// The provider's code, or the beginning of its sentence, as the table of refusals has it; `null` if it is not in
        /// the table.
        pub(crate) words: Option<&'static str> = Some(finding.words).filter(|words| !words.is_empty()),
        /// Status of the last refusal.
        pub(crate) status: Option<u16> = last.and_then(|last| last.status),
        /// When it was refused first without a success since. RFC 3339, UTC, with milliseconds.
        pub(crate) since: Option<String> = Some(clocks.format(since)),
        /// When the next request may try it. RFC 3339, UTC, with milliseconds.
        pub(crate) next_try: Option<String> = gate.until().map(|tick| clocks.format(tick)),
        /// What ends it.
        pub(crate) remedy: &'static str = match subject {
            "key" => "a success of the next try, or a reload with another key or base URL",
            _ => "a success of the next try, or a reload with another upstream name of the model",
        },
    }
}

/// A model at a provider.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct EndpointHealthBody<'a> {
    /// Id of the model, such as `meadow/small`.
    pub(crate) model: &'a str,
    /// Display name of the provider.
    pub(crate) provider_name: &'a str,
    /// Slug of the provider: its name in the configuration, in requests and in filters.
    pub(crate) provider_slug: &'a str,
    /// Short name that tells two endpoints of one model at one provider apart (`variant` in the configuration); empty
    /// without one.
    pub(crate) variant: &'a str,
    #[serde(flatten)]
    pub(crate) measured: MeasuredBody,
    /// What the routing would give the endpoint now for one and the same request under each objective, lower is better:
    /// a stream of 1,000 prompt and 256 output tokens, without exploration noise, compared among all enabled endpoints
    /// of all models. Open breakers and other exclusions are not regarded. Real requests have scores of their own, in
    /// `/route/preview` and `/route/explain`.
    pub(crate) score: ScoresBody,
}

view! {
    pub(crate) struct MeasuredBody {
        fn new(measured: Measured<'_>, clocks: Clocks) {
            let Measured { summary, live_status, condition } = measured;
            let LiveStatus { circuit, open_until, cooldown_until, told, silent, in_flight, .. } = live_status;
            let taken = Failure::LONGEST_WAIT.as_secs();
            let Summary { latency, first_token, throughput, .. } = summary;
        }

        #[cfg_attr(test, schemars(with = "crate::base::words::Condition"))]
        pub(crate) state: &'static str = condition.as_str(),
        #[cfg_attr(test, schemars(with = "crate::base::words::Circuit"))]
        pub(crate) circuit: &'static str = circuit.as_str(),
        /// When an open breaker lets a probe pass; `null` unless it is open. RFC 3339, UTC, with milliseconds.
        pub(crate) open_until: Option<String> = open_until.map(|tick| clocks.format(tick)),
        /// End of the pause after a 429 or for a `Retry-After`; `null` without one. RFC 3339, UTC, with milliseconds.
        pub(crate) cooldown_until: Option<String> = cooldown_until.map(|tick| clocks.format(tick)),
        /// The wait that the provider told for that pause, if it was longer than a minute, which is the most that is heeded: such as
        /// `told to wait 141 years, taken as 60 s`. `null` otherwise.
        pub(crate) cooldown_shortened: Option<String> =
            told.map(|told| format!("told to wait {}, taken as {taken} s", rough_time(told))),
        /// Whether its unanswered requests have waited improbably long; of a provider, whether that is so at all its
        /// endpoints that were called.
        pub(crate) silent: bool = silent,
        /// Attempts in progress at it.
        pub(crate) in_flight: u32 = in_flight,
        /// Length in seconds of the window that `requests`, `successes`, `errors`, `success_rate` and the percentiles are
        /// taken over: the last five minutes. It is always 300.
        pub(crate) window_secs: u64 = summary.window_seconds,
        /// Attempts that ended in the window with a whole answer or with an error of `errors`. Cancelled attempts, those
        /// that lost a race and refusals of the request itself are not counted.
        pub(crate) requests: u64 = summary.requests,
        /// Of those, the ones that ended with a whole answer.
        pub(crate) successes: u64 = summary.successes,
        /// Errors in the window by kind; together `requests` less `successes`.
        pub(crate) errors: ErrorsBody = ErrorsBody::new(summary.errors),
        /// Share of whole answers in the window, 0 to 1 with four decimals. It leaves out `rate_limited` and `auth`, so it
        /// is not `successes` by `requests`. `null` without an attempt that counts.
        pub(crate) success_rate: Option<Figure> = summary.success_rate.map(Figure::share),
        /// Milliseconds from the start of the attempt to the last byte, of whole answers, with one decimal.
        pub(crate) latency_ms: QuantilesBody = QuantilesBody::new(latency, Figure::millis),
        /// Milliseconds from the start of the attempt to its first content, of streams, with one decimal.
        pub(crate) ttft_ms: QuantilesBody = QuantilesBody::new(first_token, Figure::millis),
        /// Shown output tokens per second, with one decimal: of a stream after its first content, of another answer over
        /// its whole time. Reasoning that was generated before the first content is not counted. Answers of fewer than two
        /// tokens have none.
        pub(crate) throughput_tps: QuantilesBody = QuantilesBody::new(throughput, |rate| Figure::rounded(rate, 1)),
        /// The last error of a kind in `errors`, however old; `null` without one since the start.
        pub(crate) last_error: Option<LastErrorBody> =
            summary.last_error.map(|error| LastErrorBody::new(error, clocks)),
        /// Failures since the last whole answer: failed connections, time-outs, server errors and invalid answers, but no
        /// 429, no refused key and no refused request. Of a provider, those of its endpoint with the most.
        pub(crate) consecutive_failures: u32 = summary.consecutive_failures,
    }
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct ErrorsBody {
    /// 429 and 529.
    pub(crate) rate_limited: u64,
    /// Attempts that a time-out of the gateway ended.
    pub(crate) timeout: u64,
    /// No connection, a failed TLS handshake, or a connection that broke before the answer was whole.
    pub(crate) connect: u64,
    /// Any other 5xx, and 408, 409, 425.
    pub(crate) server: u64,
    /// 401 to 404: the gateway's key or account, or its name for the model.
    pub(crate) auth: u64,
    /// Answers that are invalid or end too early, and unexpected statuses.
    pub(crate) other: u64,
}

view! {
    /// Percentiles of what was observed, read from classes of values, so they are approximate.
    pub(crate) struct QuantilesBody as "Quantiles" {
        fn new(quantiles: &Quantiles, write: impl Fn(f64) -> Figure) {}

        /// Median in the window; `null` without an observation.
        pub(crate) p50: Option<Figure> = quantiles.p50.map(&write),
        /// 90th percentile in the window; `null` without an observation.
        pub(crate) p90: Option<Figure> = quantiles.p90.map(&write),
        /// 99th percentile in the window; `null` without an observation.
        pub(crate) p99: Option<Figure> = quantiles.p99.map(&write),
        /// Moving average of about the last 16 observations, whatever their age: their mean up to the 16th, then
        /// exponential. It has no window. Of a provider, the mean over its endpoints, weighted by their answers in the
        /// window. `null` before the first observation since the start.
        pub(crate) ewma: Option<Figure> = quantiles.ewma.map(&write),
    }
}

view! {
    pub(crate) struct LastErrorBody {
        fn new(error: LastError, clocks: Clocks) {}

        /// When. RFC 3339, UTC, with milliseconds.
        pub(crate) at: String = clocks.format(error.at),
        /// Kind of the failure, as in `/route/explain`.
        pub(crate) error_type: &'static str = error.kind.as_str(),
        /// The HTTP status of the provider; `null` if it gave none.
        pub(crate) status: Option<u16> = error.status,
    }
}

view! {
    /// Scores of an endpoint for a reference request, lower is better; `null` if the endpoint is excluded.
    #[derive(Debug, Clone, Copy, Default)]
    pub(crate) struct ScoresBody {
        /// The scores in the order of [`Objective::ALL`](pointsman_domain::Objective::ALL).
        pub(crate) fn new([cheapest, fastest, reliable, balanced]: [f64; 4]) {}

        /// US dollars for a successful answer, failures and waiting priced in. `null` if it is not finite.
        pub(crate) cheapest: Option<f64> = Some(cheapest),
        /// Seconds to the last byte, failures priced in. `null` if it is not finite.
        pub(crate) fastest: Option<f64> = Some(fastest),
        /// Probability that it fails or is slow, with a small share of the time. `null` if it is not finite.
        pub(crate) reliable: Option<f64> = Some(reliable),
        /// Time and cost, each relative to the median of all enabled endpoints, by the weights of the configuration. `null`
        /// if it is not finite.
        pub(crate) balanced: Option<f64> = Some(balanced),
    }
}

impl<'a> ProviderHealthBody<'a> {
    /// The health of the provider at `position`.
    pub(crate) fn new(
        catalog: &'a Catalog,
        position: u32,
        provider: &'a Provider,
        measurements: &Measurements,
    ) -> Self {
        let measured = measurements.provider(catalog, position);
        let refusals = if provider.is_on() { refusals(catalog, position, measurements) } else { Vec::new() };
        let (condition, reason) = match &provider.state {
            ProviderState::Off(why) => (Condition::Off, Some(Cow::Borrowed(why.as_str()))),
            ProviderState::On => (measured.condition, refusals.first().map(RefusalBody::sentence).map(Cow::Owned)),
        };
        ProviderHealthBody {
            slug: provider.slug.as_str(),
            name: &provider.name,
            reason,
            refusals,
            measured: MeasuredBody::new(Measured { condition, ..measured }, measurements.clocks),
        }
    }
}

/// What the provider at `position` refuses: the key first, then models.
fn refusals<'a>(catalog: &'a Catalog, position: u32, measurements: &Measurements) -> Vec<RefusalBody<'a>> {
    let (live, clocks) = (&measurements.live, measurements.clocks);
    let own = live.provider(position);
    let mut refusals: Vec<RefusalBody<'a>> = own
        .refused
        .map(|refused| RefusalBody::new("key", None, refused, (own.last, own.gate), clocks))
        .into_iter()
        .collect();
    for (index, endpoint) in (0_u32..).zip(&catalog.endpoints).filter(|(_, endpoint)| endpoint.provider == position) {
        let (cell, model) = (live.endpoint(index), catalog.model_of(endpoint).map(|model| model.id.as_str()));
        refusals.extend(
            cell.refused.map(|refused| RefusalBody::new("model", model, refused, (cell.last, cell.gate), clocks)),
        );
        refusals.extend(cell.all_mistaken.then_some(RefusalBody {
            subject: "requests",
            model,
            meaning: "requests of several callers are called wrong in the same words, and none has succeeded since",
            words: None,
            status: None,
            since: None,
            next_try: None,
            remedy: "look at the raw text in the callers' errors; nothing is excluded",
        }));
    }
    refusals
}

impl<'a> RefusalBody<'a> {
    fn sentence(&self) -> String {
        let what = match (self.subject, self.model) {
            ("key", _) => "The provider refuses the gateway's key or account".to_owned(),
            ("model", Some(model)) => format!("The provider refuses the model {model}"),
            (_, model) => format!("The provider may refuse {}", model.unwrap_or("the gateway's requests")),
        };
        let status = self.status.map(|status| format!("status {status}"));
        let words = self.words.map(|words| format!("'{words}'"));
        let said: Vec<String> = status.into_iter().chain(words).collect();
        let said = if said.is_empty() { String::new() } else { format!(" ({})", said.join(", ")) };
        let since = self.since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
        let next = self.next_try.as_ref().map(|next| format!(" Next try: {next}.")).unwrap_or_default();
        let remedy = if self.subject == "requests" { String::new() } else { format!(" It ends with {}.", self.remedy) };
        format!("{what}{since}: {}{said}.{next}{remedy}", self.meaning)
    }
}

impl<'a> EndpointHealthBody<'a> {
    /// The health of the endpoint at `position`; `None` if the endpoint is not enabled.
    pub(crate) fn new(
        catalog: &'a Catalog,
        position: u32,
        measurements: &Measurements,
        score: ScoresBody,
    ) -> Option<Self> {
        let endpoint = catalog.endpoint(position).filter(|endpoint| !endpoint.disabled)?;
        let provider = catalog.provider_of(endpoint).filter(|provider| provider.is_on())?;
        Some(EndpointHealthBody {
            model: catalog.model_of(endpoint)?.id.as_str(),
            provider_name: &provider.name,
            provider_slug: provider.slug.as_str(),
            variant: &endpoint.variant,
            measured: MeasuredBody::new(measurements.endpoint(catalog, position), measurements.clocks),
            score,
        })
    }
}

impl ErrorsBody {
    fn new(errors: ErrorCounts) -> ErrorsBody {
        let ErrorCounts { rate_limited, timeout, connect, server, auth, other } = errors;
        ErrorsBody { rate_limited, timeout, connect, server, auth, other }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::api::samples::{catalog, measurements};

    fn check(body: &impl Serialize, expected: Expect) {
        expected.assert_eq(&serde_json::to_string_pretty(body).unwrap());
    }

    #[test]
    fn a_provider_shows_what_was_measured() {
        let catalog = catalog();
        let measurements = measurements(&catalog, &[]);
        let provider = &catalog.providers[0];
        check(
            &ProviderHealthBody::new(&catalog, 0, provider, &measurements),
            expect![[r#"
            {
              "slug": "acme",
              "name": "Acme",
              "state": "degraded",
              "circuit": "closed",
              "open_until": null,
              "cooldown_until": null,
              "cooldown_shortened": null,
              "silent": false,
              "in_flight": 0,
              "window_secs": 300,
              "requests": 10,
              "successes": 9,
              "errors": {
                "rate_limited": 0,
                "timeout": 0,
                "connect": 0,
                "server": 1,
                "auth": 0,
                "other": 0
              },
              "success_rate": 0.9123,
              "latency_ms": {
                "p50": 2000,
                "p90": 3000,
                "p99": 6000,
                "ewma": 2200
              },
              "ttft_ms": {
                "p50": 200,
                "p90": 300,
                "p99": 600,
                "ewma": 220
              },
              "throughput_tps": {
                "p50": 0.2,
                "p90": 0.3,
                "p99": 0.6,
                "ewma": 0.2
              },
              "last_error": {
                "at": "2025-11-20T09:05:00.000Z",
                "error_type": "server",
                "status": 500
              },
              "consecutive_failures": 1
            }"#]],
        );
    }

    #[test]
    fn a_provider_that_is_off_says_why() {
        let catalog = catalog();
        let body = ProviderHealthBody::new(&catalog, 2, &catalog.providers[2], &Measurements::default());
        let body = serde_json::to_value(body).unwrap();
        assert_eq!((&body["state"], &body["reason"]), (&"off".into(), &"ACME_KEY is not set".into()));
    }

    #[test]
    fn an_endpoint_adds_its_names_and_scores() {
        let catalog = catalog();
        let scores = ScoresBody::new([0.004, 0.31, f64::NAN, 1.0]);
        let body = EndpointHealthBody::new(&catalog, 1, &measurements(&catalog, &[]), scores).unwrap();
        let body = serde_json::to_value(body).unwrap();
        assert_eq!((&body["model"], &body["provider_slug"]), (&"acme/small".into(), &"beta".into()));
        assert_eq!(body["state"], "unknown");
        let scores = r#"{"cheapest":0.004,"fastest":0.31,"reliable":null,"balanced":1.0}"#;
        assert_eq!(body["score"], serde_json::from_str::<serde_json::Value>(scores).unwrap());
    }

    #[test]
    fn an_endpoint_that_is_not_enabled_is_not_shown() {
        let catalog = catalog();
        let off = catalog.endpoints.iter().position(|endpoint| endpoint.provider == 2).unwrap();
        let off = u32::try_from(off).unwrap();
        assert!(EndpointHealthBody::new(&catalog, off, &Measurements::default(), ScoresBody::default()).is_none());
    }
}
