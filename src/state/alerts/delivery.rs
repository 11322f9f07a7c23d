//! Looks at the verdict, queues what is to be told, and delivers it: one task that looks, and one for each receiver while it has
//! something to send.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use pointsman_base::clock;
use pointsman_config::AlertReceiver;

use super::{
    outbox::{Delivery, Mailbox, Outbox, Settled, Waiting},
    sender,
    watch::{Alert, Findings, Phase},
};
use crate::{
    access::issued::{Actor, Change},
    base::events::AlertResult,
    state::gateway::{GatewayView, Shared},
};

/// Time between two looks at the verdict.
const INTERVAL: Duration = Duration::from_secs(2);
/// Longest wait for the answer of a receiver, and for that to a test: an administrator waits for it.
const TIMEOUT: Duration = Duration::from_secs(10);
const TEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Who sends alerts, in the audit log.
const SENDER: &str = "gateway";

/// Looks at what needs attention, which `evaluate` finds out, and sends alerts until the gateway is dropped. Needs a running
/// actix system.
pub fn start(shared: &Arc<Shared>, evaluate: impl AsyncFn(&GatewayView) -> Findings + 'static) {
    actix_rt::spawn(run(Arc::downgrade(shared), evaluate));
}

async fn run(shared: Weak<Shared>, evaluate: impl AsyncFn(&GatewayView) -> Findings) {
    loop {
        let Some(view) = shared.upgrade().map(GatewayView::in_force) else { return };
        // While it drains, what is wrong is that it stops.
        if !view.shared.is_draining() {
            if !view.setup.config.alerts.is_empty() {
                look(&view, &evaluate(&view).await).await;
            } else if !view.shared.records.alerts.read(Outbox::is_empty) {
                // A reload removed the last receiver.
                look(&view, &Findings::default()).await;
            }
        }
        drop(view);
        actix_rt::time::sleep(INTERVAL).await;
    }
}

/// Queues what is to be told, and starts to send what is due.
async fn look(view: &GatewayView, findings: &Findings) {
    let (receivers, alerts) = (&view.setup.config.alerts, &view.shared.records.alerts);
    let (lost, is_changed) = {
        let mut outbox = alerts.outbox.lock();
        let before = outbox.clone();
        let lost = outbox.observe(receivers, findings, clock::unix_millis(), fresh_id);
        (lost, *outbox != before)
    };
    if is_changed {
        alerts.save().await;
    }
    for (receiver, waiting) in lost {
        conclude(&view.shared, &receiver, &waiting.alert.event, AlertResult::GivenUp, "its queue is full").await;
    }
    for receiver in receivers {
        show_waiting(&view.shared, &receiver.name);
        if let Some(first) = alerts.outbox.lock().begin(&receiver.name, clock::unix_millis()) {
            actix_rt::spawn(send_due(Arc::clone(&view.shared), receiver.clone(), first));
        }
    }
}

/// Sends the first alert of a receiver, and those behind it while the receiver takes them.
async fn send_due(shared: Arc<Shared>, mut receiver: AlertReceiver, first: Waiting) {
    let mut next = Some(first);
    while let Some(waiting) = next {
        let sent = sender::send(&receiver, (&*waiting.id, &waiting.alert), clock::unix_millis(), TIMEOUT).await;
        let outcome = sent.as_ref().err().map_or_else(|| "sent".to_owned(), |refused| refused.why.clone());
        let now_ms = clock::unix_millis();
        let settled =
            shared.records.alerts.outbox.lock().settle(&receiver.name, &waiting.id, sent, now_ms, rand::random());
        shared.records.alerts.save().await;
        let result = match settled {
            Settled::Sent => AlertResult::Sent,
            Settled::Again => AlertResult::Failed,
            Settled::GivenUp => AlertResult::GivenUp,
        };
        conclude(&shared, &receiver.name, &waiting.alert.event, result, &outcome).await;
        // A reload may have changed its address meanwhile, or removed it.
        let in_force = shared.setup.load().config.alerts.iter().find(|it| it.name == receiver.name).cloned();
        let Some(in_force) = in_force else { return };
        receiver = in_force;
        show_waiting(&shared, &receiver.name);
        next = shared.records.alerts.outbox.lock().begin(&receiver.name, clock::unix_millis());
    }
}

/// Counts and logs an attempt. One that ends the matter goes into the audit log.
async fn conclude(shared: &Arc<Shared>, receiver: &str, event: &str, result: AlertResult, outcome: &str) {
    shared.process.metrics.alerts.attempted(receiver, event, result, outcome);
    if result != AlertResult::Failed {
        let actor = Actor { by: SENDER.to_owned(), from: String::new(), request_id: None };
        audit(shared, actor, receiver, event, outcome).await;
    }
}

async fn audit(shared: &Arc<Shared>, actor: Actor, receiver: &str, event: &str, outcome: &str) {
    let (registry, text) = (Arc::clone(&shared.access.registry), str::to_owned);
    let change = Change::SendAlert { receiver: text(receiver), event: text(event), result: text(outcome) };
    let stored = actix_rt::task::spawn_blocking(move || registry.record(actor, change)).await;
    if let Ok(Err(fault)) = stored {
        log::error!(event = "alerts"; "the audit log does not hold an alert: {fault}");
    }
}

fn show_waiting(shared: &Shared, receiver: &str) {
    let waiting = shared.records.alerts.read(|outbox| outbox.mailbox(receiver).map_or(0, Mailbox::waiting));
    shared.process.metrics.alerts.waiting(receiver, waiting);
}

/// Sends a test to one receiver now, for an administrator. It neither waits nor is it tried again.
///
/// # Errors
/// Why the receiver did not take it.
pub async fn test(shared: &Arc<Shared>, receiver: &AlertReceiver, actor: Actor) -> Result<(), String> {
    let now_ms = clock::unix_millis();
    let alert = Alert {
        event: "test".to_owned(),
        phase: Phase::Test,
        severity: "info".to_owned(),
        subjects: Vec::new(),
        sentence: format!("This is a test of the receiver '{}', asked for by '{}'.", receiver.name, actor.by),
        since_ms: now_ms,
    };
    let sent =
        sender::send(receiver, (&*fresh_id(), &alert), now_ms, TEST_TIMEOUT).await.map_err(|refused| refused.why);
    let outcome = sent.as_ref().err().cloned().unwrap_or_else(|| "sent".to_owned());
    let delivery = Delivery { at_ms: now_ms, event: alert.event.clone(), outcome: outcome.clone() };
    shared.records.alerts.outbox.lock().note(&receiver.name, delivery);
    let result = if sent.is_ok() { AlertResult::Sent } else { AlertResult::GivenUp };
    shared.process.metrics.alerts.attempted(&receiver.name, &alert.event, result, &outcome);
    audit(shared, actor, &receiver.name, &alert.event, &outcome).await;
    sent
}

fn fresh_id() -> String {
    format!("alert-{}", hex::encode(rand::random::<[u8; 12]>()))
}
