//! Headers of answers.

/// Name, type and meaning of each header.
pub(super) const HEADERS: [(&str, &str, &str); 30] = [
    (
        "x-request-id",
        "string",
        "Id of the request: that of the client, if it has 1 to 128 letters, digits, `.`, `_` or \
            `-`, else a new one.",
    ),
    (
        "retry-after",
        "integer",
        "Seconds after which the same request may succeed, rounded up; absent where a retry does \
            not help.",
    ),
    ("retry-after-ms", "integer", "The same in milliseconds."),
    (
        "x-should-retry",
        "string",
        "`false` where `retry-after` is more than a minute: client libraries then do not repeat \
            the request by themselves.",
    ),
    ("x-ratelimit-limit", "integer", "On 429: requests or tokens per minute that the limit allows."),
    ("x-ratelimit-remaining", "integer", "On 429: how many of them would be admitted now."),
    ("x-ratelimit-reset", "integer", "On 429: when the same request would be admitted, in Unix milliseconds."),
    (
        "x-generation-id",
        "string",
        "Id of the generation, for `/generation` and `/route/explain`; absent if the request was \
            not routed.",
    ),
    ("x-route-model", "string", "Id of the model that serves."),
    (
        "x-route-provider",
        "string",
        "Display name of the provider that serves; its slug, if the name has characters that no \
            header allows.",
    ),
    ("x-route-router", "string", "The alias that was asked for; `fixed` if a model was."),
    (
        "x-route-reason",
        "string",
        "`decision_code` of the decision: why this endpoint is the choice, or which fallback \
            serves.",
    ),
    ("x-route-attempts", "integer", "Attempts that were started so far, at least 1."),
    (
        "x-route-latency-ms",
        "integer",
        "Milliseconds from the acceptance of the request to the first output of the provider that \
             serves: the first content of a stream, or the head of the provider's answer if that is \
            not streamed.",
    ),
    (
        "x-route-overhead-ms",
        "number",
        "Milliseconds that the gateway itself took up to here, with three decimals: the time \
            since the acceptance of the request less the time in which it waited for providers, \
            failed attempts included.",
    ),
    (
        "x-route-dropped-parameters",
        "string",
        "Names of parameters and other members of the request, divided by commas, that were not \
            sent: the endpoint does not support them, but another endpoint of the catalog does, or \
            its API has no form for them. Each has the spelling of the client's API, with `[]` for \
            any element, such as `messages[].name`. Sorted; a list that would be longer than 1,024 \
            bytes ends with `...`. Absent without any.",
    ),
    (
        "x-route-emulated-parameters",
        "string",
        "Names of parameters and other members of the request, divided by commas, that were not \
            sent, but whose meaning is produced by other means. Each has the spelling of the \
            client's API; the form is that of `x-route-dropped-parameters`. Absent without any.",
    ),
    (
        "x-route-ignored",
        "string",
        "Members of the request, divided by commas, that have no effect, such as unknown members \
            of `provider`. Absent without any.",
    ),
    (
        "x-route-usage",
        "string",
        "`estimated`: the provider reported no tokens, and the gateway counted them. Absent \
            otherwise, and in a stream, which says so in its `usage`.",
    ),
    (
        "x-route-cost",
        "string",
        "Cost of the answer in US dollars, as a decimal number, in which the body has no place \
            for it; absent in streams and at an unknown price.",
    ),
    (
        "server-timing",
        "string",
        "Times of the request in milliseconds, as browsers show them: `route` (the decision); of \
            the attempt that serves `queue` (the wait for the concurrency limit of the provider), \
            `connect` and `tls` (on a new connection); `ttft` and `total` from the acceptance of the \
             request, `total` not in streams; and `attempt-1`, `attempt-2` and so on, at most eight, \
             each with the slug of its provider and its status or how it failed.",
    ),
    (
        "x-ratelimit-limit-requests",
        "integer",
        "Requests per minute of the key or, if it has no such limit, of its account; absent if \
            neither has one.",
    ),
    ("x-ratelimit-remaining-requests", "integer", "Requests that would be admitted now."),
    (
        "x-ratelimit-reset-requests",
        "string",
        "Time until the whole limit of requests is free again, such as `350ms`, `1s` or `6m0s`.",
    ),
    (
        "x-ratelimit-limit-tokens",
        "integer",
        "Tokens per minute of the key or, if it has no such limit, of its account; absent if \
            neither has one.",
    ),
    ("x-ratelimit-remaining-tokens", "integer", "Tokens that would be admitted now."),
    (
        "x-ratelimit-reset-tokens",
        "string",
        "Time until the whole limit of tokens is free again, such as `350ms`, `1s` or `6m0s`.",
    ),
    ("x-next-cursor", "string", "`after` of the rows that follow; absent at the end."),
    ("x-unreadable-records", "integer", "Records that cannot be read and are left out; absent without any."),
    (
        "x-damaged-blocks",
        "integer",
        "Damaged groups of up to 32 records each, some of which are left out; absent without any.",
    ),
];
