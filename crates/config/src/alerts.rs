//! `[[alerts]]`: who is told when something needs attention.

use std::{path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use pointsman_base::secret::Secret;

use super::{
    Surroundings,
    accounts::refuse_duplicates,
    address::BaseUrl,
    credential::{ca_file, secret_of_variable},
    fault::hint,
    quantity::{DAY, HOUR, MINUTE},
    section::{Section, words},
};

/// Longest list of receivers.
const MAX_RECEIVERS: usize = 32;
/// Longest name of a receiver, bytes.
const MAX_NAME: usize = 64;
/// Shortest secret, bytes.
const MIN_SECRET: usize = 16;
/// Beginning of a secret in base64, as Standard Webhooks writes it.
const BASE64_PREFIX: &str = "whsec_";
/// Ends of names that no public name server knows.
const PRIVATE_ENDS: [&str; 2] = [".local", ".internal"];

/// The events that an alert can tell: codes of notices of `GET /api/v1/admin/verdict`.
pub const ALERT_EVENTS: [&str; 22] = [
    "actor_restarted",
    "actor_silent",
    "all_endpoints_down",
    "budget_near",
    "budget_spent",
    "canary_fell_back",
    "catalogue_changed",
    "config_refused",
    "endpoints_down",
    "failures_shown",
    "ledger_failing",
    "memory_failing",
    "memory_not_restored",
    "predictions_off",
    "prices_old",
    "records_dropped",
    "restart_pending",
    "shedding",
    "spend_pace_out_of_reach",
    "store_away",
    "store_refuses",
    "target_at_risk",
];

/// One `[[alerts]]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertReceiver {
    /// Name, unique among the receivers.
    pub name: Arc<str>,
    /// The address that alerts are posted to. It may hold a secret, as the addresses of chat services do.
    pub url: Secret,
    /// Scheme and host of the address, for people.
    pub place: String,
    /// PEM file with certificates that are trusted in addition to those of the system.
    pub ca_file: Option<PathBuf>,
    /// Key of the signature: `None` for alerts without one.
    pub key: Option<SigningKey>,
    /// The events that it is told.
    pub events: Vec<&'static str>,
    /// Form of the body.
    pub format: AlertFormat,
    /// Time after which an event that lasts is told again.
    pub repeat: Duration,
}

/// Bytes of a key that signs alerts. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Arc<[u8]>);

impl SigningKey {
    /// The key in this text: base64 after `whsec_`, else the bytes of the text itself. `None` if it is too short.
    pub fn parse(text: &str) -> Option<SigningKey> {
        let bytes = match text.strip_prefix(BASE64_PREFIX) {
            Some(encoded) => STANDARD.decode(encoded).ok()?,
            None => text.as_bytes().to_vec(),
        };
        (bytes.len() >= MIN_SECRET).then(|| SigningKey(bytes.into()))
    }

    /// The bytes. Every call of this function is a place where the key could leak.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

pointsman_domain::named! {
    /// Form of the body of an alert.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AlertFormat {
        /// All members of the alert.
        Json = "json",
        /// `{"text": "…"}`, as chat services take it.
        Slack = "slack",
    }
}

/// Reads all receivers. Those with a fault are left out.
pub(super) fn read_all(root: &Section<'_>, context: &Surroundings<'_>) -> Vec<AlertReceiver> {
    let receivers = root.sections("alerts", MAX_RECEIVERS, |section| read(section, context));
    let receivers: Vec<AlertReceiver> = receivers.into_iter().flatten().collect();
    refuse_duplicates(root, "alerts", receivers.iter().map(|receiver| &receiver.name));
    receivers
}

fn read(section: &Section<'_>, context: &Surroundings<'_>) -> Option<AlertReceiver> {
    const NAME: &str = "1 to 64 letters, digits, '-', '_' and '.'";
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    keys! { section:
        //! Receivers of alerts, one `[[alerts]]` each: a webhook for every notice of `GET /api/v1/admin/verdict` that
        //! begins, lasts or ends. See [ALERTS.md](ALERTS.md).
        /// Name of the receiver; unique.
        name = required(NAME) [allowed = "1 to 64 letters, digits, `-`, `_` and `.`"],
        /// Address that alerts are posted to. Where the address itself is a secret, as those of chat services are, use
        /// `url_env`.
        url = filled()
            [absent = "that of `url_env`",
             allowed = "`https://`, or `http://` to a loopback or private address, or to a name that no public name \
                 server knows"],
        /// Environment variable with the address.
        url_env = filled() [absent = "none"],
        /// Trusted certificates of the receiver in addition to those of the system.
        ca_file = with(|section, _| ca_file(section, true, context))
            [absent = "none", allowed = "path, relative to this file"],
        /// Environment variable with the key of the signature, at least 16 bytes: base64 after `whsec_`, else the bytes
        /// of the text itself.
        key "secret_env" = with(|section, key| signing_key(section, key, context)) [absent = "alerts are not signed"],
        /// The events that it is told.
        events = with(events) [absent = "all", allowed = "names of [events](ALERTS.md#events)"],
        /// `json`: all members of the alert. `slack`: `{"text": "…"}`.
        format = choice_or(&words(AlertFormat::ALL, AlertFormat::as_str), AlertFormat::Json),
        /// Time after which an event that lasts is told again.
        repeat = duration_or(MINUTE..=30 * DAY, 4 * HOUR),
    }
    if name.is_some_and(|name| name.len() > MAX_NAME || !name.chars().all(is_name)) {
        section.fault("name", "is not a name", NAME);
    }
    section.refuse("secret", "a secret must not be in this file", "secret_env = \"NAME_OF_A_VARIABLE\"");
    let address = address(section, (url, url_env), context);
    let (url, place) = address?;
    Some(AlertReceiver { name: name?.into(), url, place, ca_file, key, events, format, repeat })
}

/// The address, and what of it may be shown.
fn address(
    section: &Section<'_>,
    sources: (Option<&str>, Option<&str>),
    context: &Surroundings<'_>,
) -> Option<(Secret, String)> {
    const SOURCES: &str = "url = \"https://…\" or url_env = \"NAME_OF_A_VARIABLE\"";
    let (key, url) = match sources {
        (Some(url), None) => ("url", Ok(Secret::from(url))),
        (None, Some(variable)) => ("url_env", secret_of_variable(variable, context.environment)),
        (None, None) => {
            section.absence("url", "is missing", SOURCES);
            return None;
        }
        (Some(_), Some(_)) => {
            section.fault("url_env", "is set together with url", format!("one of them: {SOURCES}"));
            return None;
        }
    };
    let url = url.map_err(|wrong| section.fault(key, wrong, "a variable with an address")).ok()?;
    let parsed = BaseUrl::parse(url.expose());
    let parsed = parsed.map_err(|fault| section.fault(key, fault.to_string(), BaseUrl::SHAPE)).ok()?;
    if !parsed.is_tls() && !is_private(&parsed) {
        let wrong = "would send alerts unencrypted over a public network";
        section.fault(key, wrong, "https://, or http:// to a loopback or private address");
        return None;
    }
    let scheme = if parsed.is_tls() { "https" } else { "http" };
    let port = if parsed.port() == if parsed.is_tls() { 443 } else { 80 } {
        String::new()
    } else {
        format!(":{}", parsed.port())
    };
    let place = format!("{scheme}://{}{port}", parsed.host());
    Some((url, place))
}

/// Whether only this machine or a private network can be at the address.
fn is_private(url: &BaseUrl) -> bool {
    let host = url.host().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<std::net::IpAddr>().map(|ip| ip.to_canonical()) {
        Ok(std::net::IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private(),
        Ok(std::net::IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local(),
        Err(_) => !host.contains('.') || PRIVATE_ENDS.iter().any(|end| host.ends_with(end)),
    }
}

fn signing_key(section: &Section<'_>, key: &'static str, context: &Surroundings<'_>) -> Option<SigningKey> {
    const ALLOWED: &str = "a variable with at least 16 bytes: base64 after 'whsec_', or any text";
    let found = secret_of_variable(section.filled(key)?, context.environment);
    let secret = found.map_err(|wrong| section.fault(key, wrong, ALLOWED)).ok()?;
    let read = SigningKey::parse(secret.expose());
    if read.is_none() {
        section.fault(key, "names a secret that is too short or no base64", ALLOWED);
    }
    read
}

fn events(section: &Section<'_>, key: &'static str) -> Vec<&'static str> {
    let Some(items) = section.texts(key, ALERT_EVENTS.len()) else { return ALERT_EVENTS.to_vec() };
    let known = |text: &str| ALERT_EVENTS.into_iter().find(|event| *event == text);
    let mut events = Vec::new();
    for item in &items {
        match known(item.text) {
            Some(event) => events.push(event),
            None => item.fault(format!("unknown event{}", hint(item.text, ALERT_EVENTS)), ALERT_EVENTS.join(", ")),
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Config;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn read(text: &str) -> Result<Vec<AlertReceiver>, String> {
        let environment =
            [("HOOK_SECRET", SECRET), ("HOOK_URL", "https://hooks.example.com/T0/secret"), ("SHORT", "x")];
        let environment = environment.into_iter().collect();
        let config = Config::parse(text, "config.toml", Path::new("."), &environment);
        config.map(|config| config.alerts).map_err(|faults| faults.iter().map(ToString::to_string).collect())
    }

    fn receiver(rest: &str) -> Result<AlertReceiver, String> {
        read(&format!("[[alerts]]\nname = \"ops\"\n{rest}\n")).map(|mut all| all.remove(0))
    }

    #[test]
    fn a_receiver_is_told_every_event_unless_it_names_some() {
        let all = receiver("url = \"https://h/x\"").unwrap();
        assert_eq!((all.events.len(), all.format, all.repeat), (ALERT_EVENTS.len(), AlertFormat::Json, 4 * HOUR));
        let some = receiver("url = \"https://h/x\"\nevents = [\"budget_spent\"]\nformat = \"slack\"").unwrap();
        assert_eq!((some.events, some.format), (vec!["budget_spent"], AlertFormat::Slack));
        let fault = receiver("url = \"https://h/x\"\nevents = [\"budget_spend\"]").unwrap_err();
        assert!(fault.contains("budget_spent"), "{fault}");
    }

    #[test]
    fn plain_http_is_for_private_addresses_alone() {
        for (url, is_taken) in [
            ("http://127.0.0.1:9/x", true),
            ("http://10.1.2.3/x", true),
            ("http://[fd00::1]/x", true),
            ("http://alertmanager:9093/x", true),
            ("http://hooks.ops.svc.cluster.local/x", true),
            ("http://hooks.example.com/x", false),
            ("http://8.8.8.8/x", false),
            ("https://hooks.example.com/x", true),
            ("https://me:pass@hooks.example.com/x", false),
        ] {
            assert_eq!(receiver(&format!("url = \"{url}\"")).is_ok(), is_taken, "{url}");
        }
    }

    #[test]
    fn secrets_come_from_variables_and_are_never_shown() {
        let found = receiver("url_env = \"HOOK_URL\"\nsecret_env = \"HOOK_SECRET\"").unwrap();
        assert_eq!(
            (&*found.place, found.key.as_ref().map(|key| key.expose().len())),
            ("https://hooks.example.com", Some(24))
        );
        let shown = format!("{found:?}");
        assert!(!shown.contains("T0") && !shown.contains("MfKQ") && shown.contains("***"), "{shown}");
        let written = receiver("url = \"https://h/x\"\nsecret = \"hush-hush-hush-hush\"").unwrap_err();
        assert!(written.contains("must not be in this file") && !written.contains("hush"), "{written}");
        let unset = receiver("url = \"https://h/x\"\nsecret_env = \"UNSET\"").unwrap_err();
        assert!(unset.contains("UNSET is not set"), "{unset}");
        assert!(receiver("url = \"https://h/x\"\nsecret_env = \"SHORT\"").is_err());
        assert!(receiver("").unwrap_err().contains("url"));
    }

    #[test]
    fn two_receivers_with_one_name_are_a_fault() {
        let one = "[[alerts]]\nname = \"ops\"\nurl = \"https://h/x\"\n";
        assert!(read(&format!("{one}{one}")).unwrap_err().contains("'ops' is used twice"));
    }
}
