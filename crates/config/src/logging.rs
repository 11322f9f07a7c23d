//! `[log]`: format of log lines, level, and whether every call has one.

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Time, level, target and message, for people.
    Text,
    /// One JSON object per line.
    Json,
}

settings! {
    /// Log lines on standard error. They contain no keys, no prompts, no answers and no text of providers. A line that
    /// cannot be written in time is dropped and counted in `pointsman_log_lines_dropped_total`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct LogConfig read(section) {
        /// `json` writes one object per line, of at most 4 KiB.
        pub format: LogFormat = choice_or(&[("text", LogFormat::Text), ("json", LogFormat::Json)], LogFormat::Text),
        /// Level of all lines; the variable `RUST_LOG` goes before it.
        pub level: Option<&'static str> = choice(&LEVELS.map(|level| (level, level))) [absent = "`info`"],
        /// Whether every inference call has a line at `info` when it ends, with models, provider, times, tokens and
        /// cost.
        pub requests: bool = flag_or(false),
    }
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
