//! 429: a limit of the gateway.

use std::time::Duration;

use super::{ApiError, class, whole_seconds};

/// Limit of a key that a call exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Requests per minute.
    Requests,
    /// Requests per minute, all keys together.
    AllRequests,
    /// Calls at a time.
    Concurrency,
    /// Tokens per minute.
    Tokens,
    /// Tokens per minute, all keys together.
    AllTokens,
    /// Requests per minute to the free pool.
    FreePool,
    /// Previews, explanations, replays and lists at a time.
    Analyses,
}

impl ApiError {
    /// 429 of our own: the limit is `most`.
    pub fn limited(limit: Limit, most: u32, wait: Duration) -> ApiError {
        let (reason, message, unit) = match limit {
            Limit::Requests => ("gateway_requests", "Too many requests for this API key", "requests a minute"),
            Limit::AllRequests => {
                ("gateway_requests", "Too many requests of all API keys together", "requests a minute")
            }
            Limit::Concurrency => {
                ("gateway_concurrency", "Too many requests of this API key at the same time", "at the same time")
            }
            Limit::Tokens => ("gateway_tokens", "Too many tokens for this API key", "tokens a minute"),
            Limit::AllTokens => ("gateway_tokens", "Too many tokens of all API keys together", "tokens a minute"),
            Limit::FreePool => {
                ("free_pool", "Too many requests to the free models for this API key", "requests a minute")
            }
            Limit::Analyses => (
                "gateway_analyses",
                "Too many previews, explanations, replays and lists of this API key at the same time",
                "(limits.key_analyses)",
            ),
        };
        let message = format!("{message}: the limit is {most} {unit}. Try again in {} s.", whole_seconds(wait));
        class::LIMITED.error(reason, message).retry_after(wait)
    }
}
