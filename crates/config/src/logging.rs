//! `[log]`: format of log lines, level, and whether every call has one.

use super::section::Section;

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Time, level, target and message, for people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// `[log]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogConfig {
    /// Text for people, or JSON, one object a line.
    pub format: LogFormat,
    /// Level of all lines. `RUST_LOG` goes before it.
    pub level: Option<&'static str>,
    /// Whether every inference call has a line at `info`.
    pub requests: bool,
}

impl LogConfig {
    pub(super) fn read(section: &Section<'_>) -> LogConfig {
        let levels = ["off", "error", "warn", "info", "debug", "trace"].map(|level| (level, Some(level)));
        LogConfig {
            format: section.choice_or(
                "format",
                &[("text", LogFormat::Text), ("json", LogFormat::Json)],
                LogFormat::Text,
            ),
            level: section.choice_or("level", &levels, None),
            requests: section.flag_or("requests", false),
        }
    }
}
