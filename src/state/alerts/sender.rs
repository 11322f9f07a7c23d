//! One delivery: the body, its signature, the call.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use pointsman_config::{AlertFormat, AlertReceiver, SigningKey};
use pointsman_transport::{PostClient, client_config};
use rustls::ClientConfig;
use serde_json::json;
use sha2::Sha256;

use super::watch::{Alert, Phase};

/// Timeout of a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// Why a receiver did not take an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// For people.
    pub why: String,
    /// How long it asks to be left alone.
    pub wait: Option<Duration>,
}

impl From<String> for Refused {
    fn from(why: String) -> Refused {
        Refused { why, wait: None }
    }
}

/// Posts an alert, and waits up to `limit` for the head of the answer. Redirects are not followed, and the body of the answer is not read.
///
/// # Errors
/// When the receiver did not take it.
pub(super) async fn send(
    receiver: &AlertReceiver,
    (id, alert): (&str, &Alert),
    now_ms: i64,
    limit: Duration,
) -> Result<(), Refused> {
    let tls = match &receiver.ca_file {
        Some(file) => client_config(Some(file)).map_err(|fault| fault.to_string())?,
        None => Arc::clone(tls()?),
    };
    let client = PostClient::new(receiver.url.expose(), &tls, CONNECT).map_err(|fault| fault.to_string())?;
    let body = body(receiver.format, alert, now_ms);
    let seconds = (now_ms / 1_000).to_string();
    let signature = receiver.key.as_ref().map(|key| signature(key, id, &seconds, &body));
    let mut headers: Vec<(&str, &[u8])> = vec![
        ("content-type", b"application/json"),
        ("webhook-id", id.as_bytes()),
        ("webhook-timestamp", seconds.as_bytes()),
    ];
    headers.extend(signature.as_ref().map(|signature| ("webhook-signature", signature.as_bytes())));
    let answered = client.tell(&headers, Bytes::from(body), Instant::now() + limit).await;
    let why = match answered.map_err(|error| error.to_string())? {
        (200..300, _) => return Ok(()),
        (status @ 300..400, _) => format!("it answered {status}, and redirects are not followed").into(),
        (status, wait) => Refused { why: format!("it answered {status}"), wait },
    };
    Err(why)
}

/// The TLS settings of receivers without a file of certificates: those of the system.
fn tls() -> Result<&'static Arc<ClientConfig>, String> {
    static TLS: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    TLS.get_or_init(|| client_config(None).map_err(|fault| fault.to_string())).as_ref().map_err(Clone::clone)
}

/// The value of `webhook-signature` as Standard Webhooks has it: HMAC-SHA-256 over id, time and body.
fn signature(key: &SigningKey, id: &str, seconds: &str, body: &str) -> String {
    // A key of any length is taken.
    let Ok(mut code) = Hmac::<Sha256>::new_from_slice(key.expose()) else { return String::new() };
    for part in [id, ".", seconds, ".", body] {
        code.update(part.as_bytes());
    }
    format!("v1,{}", STANDARD.encode(code.finalize().into_bytes()))
}

fn body(format: AlertFormat, alert: &Alert, now_ms: i64) -> String {
    match format {
        AlertFormat::Json => json!({
            "type": format!("alert.{}", alert.phase.as_str()),
            "timestamp": rfc_3339(now_ms),
            "data": {
                "event": alert.event,
                "severity": alert.severity,
                "subjects": alert.subjects,
                "sentence": alert.sentence,
                "since": rfc_3339(alert.since_ms),
            },
        })
        .to_string(),
        AlertFormat::Slack => json!({ "text": text(alert) }).to_string(),
    }
}

/// An alert as a line for a chat.
fn text(alert: &Alert) -> String {
    let Alert { phase, severity, sentence, subjects, .. } = alert;
    let label = match phase {
        Phase::Began => severity.clone(),
        Phase::Lasts => format!("still {severity}"),
        Phase::Ended => "over".to_owned(),
        Phase::Test => "test".to_owned(),
    };
    // The sentence of a notice names some of its subjects only.
    let unnamed: Vec<&str> =
        subjects.iter().map(String::as_str).filter(|subject| !sentence.contains(subject)).collect();
    let about = if unnamed.is_empty() { String::new() } else { format!(" ({})", unnamed.join(", ")) };
    escaped(&format!("Pointsman, {label}: {sentence}{about}"))
}

/// Text without what a chat service reads as a link, a mention or an entity.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn rfc_3339(unix_millis: i64) -> String {
    let at = chrono::DateTime::from_timestamp_millis(unix_millis).unwrap_or_default();
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(phase: Phase) -> Alert {
        Alert {
            event: "budget_spent".to_owned(),
            phase,
            severity: "critical".to_owned(),
            subjects: vec!["team product ($1 a day)".to_owned(), "team <lab>".to_owned()],
            sentence: "The budget is spent of team product ($1 a day).".to_owned(),
            since_ms: 1_763_629_500_000,
        }
    }

    /// The example of the specification of Standard Webhooks.
    #[test]
    fn the_signature_is_that_of_standard_webhooks() {
        let key = SigningKey::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let body = r#"{"test": 2432232314}"#;
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_chat_gets_one_line_without_markup_of_its_own() {
        let line = body(AlertFormat::Slack, &alert(Phase::Began), 0);
        let expected = "Pointsman, critical: The budget is spent of team product ($1 a day). (team &lt;lab&gt;)";
        assert_eq!(line, json!({ "text": expected }).to_string());
        assert!(text(&alert(Phase::Ended)).starts_with("Pointsman, over: "));
    }

    #[test]
    fn json_has_all_members() {
        let body: serde_json::Value = serde_json::from_str(&body(AlertFormat::Json, &alert(Phase::Began), 0)).unwrap();
        assert_eq!((&body["type"], &body["data"]["event"]), (&json!("alert.began"), &json!("budget_spent")));
        assert_eq!(body["data"]["since"], "2025-11-20T09:05:00.000Z");
        assert_eq!(body["data"]["subjects"].as_array().unwrap().len(), 2);
    }
}
