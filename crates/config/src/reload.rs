//! Reloads of the configuration: `[reload]`.

use std::time::Duration;

use super::quantity::{MILLISECOND, MINUTE};

settings! {
    /// Reading the configuration again. SIGHUP and `POST /api/v1/admin/reload` always do that. A configuration with a
    /// fault changes nothing: the one in force stays, and the log, metrics and `/health` show the refusal. Settings
    /// that need a restart are listed in the log. An empty file is a fault, also at the start.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ReloadConfig read(section) {
        /// Whether this file, and the key and certificate files that it names, are read again when they change.
        pub watch: bool = flag_or(true),
        /// Time that the files must be unchanged before they are read, because editors and copies write in several
        /// steps. A reload by signal or request waits too, for at most a second each time.
        pub debounce: Duration = duration_or(MILLISECOND..=MINUTE, 250 * MILLISECOND),
        /// Whether a reload may switch the development key on, set `auth.mode = "none"`, or drop all keys that were in
        /// force: a truncated file does exactly that. Set it in the same file as the change that needs it.
        pub allow_widening: bool = flag_or(false),
    }
}
