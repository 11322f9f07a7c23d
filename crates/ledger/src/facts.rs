//! What the ledger keeps beside a record, for filters and sums: the fields of [`Facts`](crate::entry::Facts).

/// Fields of [`Facts`](crate::entry::Facts): labels.
pub mod label {
    /// Catalog id of the model that served; of the model that was asked for if none did.
    pub const MODEL: u8 = 1;
    /// Slug of the provider that served.
    pub const PROVIDER: u8 = 2;
    /// Owner, sixteen hexadecimal digits.
    pub const OWNER: u8 = 3;
    /// Status on the wire.
    pub const STATUS: u8 = 4;
    /// Requested model as written by the client.
    pub const REQUESTED_MODEL: u8 = 5;
    /// What happened on the way: `rescued`, `hedged`, `explored`, `missed_target`, `slower_than_predicted`.
    pub const EVENT: u8 = 6;
    /// Number of the key, sixteen hexadecimal digits. Absent for callers without one.
    pub const KEY: u8 = 7;
    /// Team of the account; empty without one.
    pub const TEAM: u8 = 8;
    /// The alias that was asked for; absent for a fixed model.
    pub const ALIAS: u8 = 9;
    /// The objective of the decision.
    pub const OBJECTIVE: u8 = 10;
    /// Class of the task of a chat; absent for other calls.
    pub const TASK: u8 = 11;
    /// What the last attempt of a failed generation failed of; absent without one.
    pub const CAUSE: u8 = 12;
    /// Variant of the endpoint that served; absent where its provider has one endpoint of the model.
    pub const VARIANT: u8 = 13;
}

/// Fields of [`Facts`](crate::entry::Facts): numbers.
pub mod number {
    /// Time to the first output, milliseconds.
    pub const FIRST_TOKEN_MS: u8 = 1;
    /// Cost of all attempts, whole thousandths of a dollar.
    pub const COST_MILLIS: u8 = 2;
    /// The rest of the cost, in 10⁻¹⁵ dollars.
    pub const COST_REST: u8 = 3;
    /// Input tokens, cached ones included.
    pub const PROMPT_TOKENS: u8 = 4;
    /// Output tokens, reasoning included.
    pub const COMPLETION_TOKENS: u8 = 5;
    /// Input tokens read from a cache.
    pub const CACHED_TOKENS: u8 = 6;
    /// Output tokens spent on reasoning.
    pub const REASONING_TOKENS: u8 = 7;
    /// Cost of all attempts, whole billionths of a dollar: for ranges.
    pub const COST_NANOS: u8 = 8;
    /// Input tokens written to a cache. This and what follows is absent where it is 0.
    pub const CACHE_WRITE_TOKENS: u8 = 9;
    /// Input tokens written to a cache for one hour.
    pub const CACHE_WRITE_1H_TOKENS: u8 = 10;
    /// Input tokens of audio.
    pub const AUDIO_TOKENS: u8 = 11;
    /// Output tokens of audio.
    pub const AUDIO_OUTPUT_TOKENS: u8 = 12;
    /// Billed images.
    pub const IMAGES: u8 = 13;
    /// Billed web searches.
    pub const WEB_SEARCHES: u8 = 14;
    /// Time from sending the request to the last byte, at the upstream that served, milliseconds.
    pub const DURATION_MS: u8 = 15;
    /// Cost of the answer, whole billionths of a dollar: input tokens that a cache neither gave nor took.
    pub const INPUT_NANOS: u8 = 16;
    /// Input tokens read from a cache or written to it.
    pub const CACHE_NANOS: u8 = 17;
    /// Output tokens.
    pub const OUTPUT_NANOS: u8 = 18;
    /// Cost of the attempts that did not serve, whole billionths of a dollar.
    pub const LOST_NANOS: u8 = 19;
}

/// 10⁻¹⁵ dollars in a thousandth of a dollar.
pub const FEMTO_PER_MILLI: i128 = 1_000_000_000_000;
/// 10⁻¹⁵ dollars in a billionth of a dollar.
pub const FEMTO_PER_NANO: i128 = 1_000_000;
