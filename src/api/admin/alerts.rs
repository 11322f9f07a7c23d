//! `GET /admin/alerts`: the receivers of alerts and how deliveries to them end. `POST /admin/alerts/test` sends a test.

use actix_web::HttpResponse;
use futures_util::future::join_all;
use pointsman_config::AlertReceiver;
use serde::Serialize;

use super::audit;
use crate::{
    api::{
        answer::{Data, uncached},
        auth::Administrator,
        models::measurements::rfc_3339,
        query_parameters,
    },
    base::{error::ApiError, events},
    state::{
        alerts::{
            delivery,
            outbox::{Delivery, Mailbox},
        },
        gateway::{GatewayView, Worker},
    },
};

/// Most lasting events that are shown of a receiver.
const MOST_EVENTS: usize = 100;

/// Shows the receivers, without secrets.
///
/// # Errors
/// None.
pub(crate) async fn show(_: Administrator, worker: Worker) -> Result<HttpResponse, ApiError> {
    Ok(uncached(&Data { data: ReceiverBody::all(&worker) }))
}

/// Sends a test to all receivers, or to that of the parameter `receiver`, and waits for how it ends.
///
/// # Errors
/// 404 for a receiver that is not configured, and without any.
pub(crate) async fn test(by: Administrator) -> Result<HttpResponse, ApiError> {
    let named = query_parameters::pairs(by.query(), &["receiver"])?.pop();
    let named = named.map(|(_, name)| name);
    let is_meant = |receiver: &&AlertReceiver| named.as_ref().is_none_or(|name| *receiver.name == **name);
    let receivers: Vec<&AlertReceiver> = by.worker.setup.config.alerts.iter().filter(is_meant).collect();
    if receivers.is_empty() {
        return Err(ApiError::no_such("receiver of alerts"));
    }
    events::administered(&by.caller.key.name, "tests the receivers of alerts", named.as_deref());
    let actor = audit::actor(&by);
    let tests = receivers.into_iter().map(|receiver| {
        let (shared, actor) = (&by.worker.shared, actor.clone());
        async move { TestBody::new(receiver, delivery::test(shared, receiver, actor).await) }
    });
    Ok(uncached(&Data { data: join_all(tests).await }))
}

view! {
    /// A receiver of alerts.
    pub(crate) struct ReceiverBody<'a> {
        fn new(receiver: &'a AlertReceiver, mailbox: Option<&Mailbox>) {
            let lasting = mailbox.into_iter().flat_map(|mailbox| mailbox.watch().lasting());
            let lasting = lasting.map(|((event, subject), watched)| EventBody {
                event: event.clone(),
                subject: Some(subject.clone()).filter(|subject| !subject.is_empty()),
                since: rfc_3339(watched.since_ms),
            });
        }

        /// Name of the receiver.
        pub(crate) name: &'a str = &receiver.name,
        /// Scheme, host and port of its address. The rest may be a secret.
        pub(crate) place: &'a str = &receiver.place,
        /// Form of the body of an alert.
        #[cfg_attr(test, schemars(extend("enum" = ["json", "slack"])))]
        pub(crate) format: &'static str = receiver.format.as_str(),
        /// Whether alerts are signed.
        pub(crate) signed: bool = receiver.key.is_some(),
        /// The events that it is told.
        pub(crate) events: &'a [&'static str] = &receiver.events,
        /// Seconds after which an event that lasts is told again.
        pub(crate) repeat_secs: u64 = receiver.repeat.as_secs(),
        /// Alerts that wait to be delivered.
        pub(crate) waiting: usize = mailbox.map_or(0, Mailbox::waiting),
        /// The last attempt to deliver an alert; `null` before the first.
        pub(crate) last: Option<DeliveryBody> = mailbox.and_then(Mailbox::last).map(DeliveryBody::new),
        /// The events that it was told and that have not ended, at most 100.
        pub(crate) lasting: Vec<EventBody> = lasting.take(MOST_EVENTS).collect(),
    }
}

/// An attempt to deliver an alert.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct DeliveryBody {
    /// When it ended. RFC 3339, UTC, with milliseconds.
    pub(crate) at: String,
    /// The event; `test` for a test.
    pub(crate) event: String,
    /// `sent`, or why the receiver did not take it.
    pub(crate) outcome: String,
}

/// An event that lasts.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline))]
pub(crate) struct EventBody {
    /// The event.
    pub(crate) event: String,
    /// What it is about; `null` if it is about the gateway.
    pub(crate) subject: Option<String>,
    /// When it began. RFC 3339, UTC, with milliseconds.
    pub(crate) since: String,
}

impl ReceiverBody<'_> {
    /// All receivers, in the order of the configuration.
    pub(crate) fn all(view: &GatewayView) -> Vec<ReceiverBody<'_>> {
        let receivers = view.setup.config.alerts.iter();
        view.shared.records.alerts.read(|outbox| {
            receivers.map(|receiver| ReceiverBody::new(receiver, outbox.mailbox(&receiver.name))).collect()
        })
    }
}

impl DeliveryBody {
    fn new(delivery: &Delivery) -> DeliveryBody {
        let Delivery { at_ms, event, outcome } = delivery.clone();
        DeliveryBody { at: rfc_3339(at_ms), event, outcome }
    }
}

view! {
    /// How a test of a receiver ended.
    pub(crate) struct TestBody {
        fn new(receiver: &AlertReceiver, sent: Result<(), String>) {
            let AlertReceiver { name, place, .. } = receiver;
            let ok = sent.is_ok();
            let sentence = match sent {
                Ok(()) => format!("'{name}' at {place} took the test."),
                Err(why) => format!("'{name}' at {place} did not take the test: {why}."),
            };
        }

        /// Name of the receiver.
        receiver: String = name.to_string(),
        /// Whether it took the test.
        ok: bool = ok,
        /// The same as a sentence for people.
        sentence: String = sentence,
    }
}
