//! `[responses]`: what clients of the OpenAI Responses API may count on.

settings! {
    /// Clients of the OpenAI Responses API (`/responses`).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ResponsesConfig read(section) {
        /// Whether tools that run at the provider, such as `web_search`, are left out (and named) for endpoints of
        /// other APIs. `false`: such requests go to endpoints with `dialect = "openai-responses"` only.
        pub drop_hosted_tools: bool = flag_or(true),
    }
}
