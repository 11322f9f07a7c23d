//! Attempts to deliver alerts.

use prometheus::{IntCounterVec, IntGaugeVec};

use super::instruments::Instruments;

pointsman_domain::named! {
    /// How an attempt ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum AlertResult {
        /// The receiver has the alert.
        Sent = "sent",
        /// The receiver did not take it; it is tried again.
        Failed = "failed",
        /// It is not tried any more.
        GivenUp = "given_up",
    }
}

/// Metrics of these events. Receivers are those of the configuration.
pub struct AlertMetrics {
    attempts: IntCounterVec,
    waiting: IntGaugeVec,
}

impl AlertMetrics {
    pub(super) fn new(make: &Instruments<'_>) -> Result<AlertMetrics, prometheus::Error> {
        let attempts = "Attempts to deliver an alert, by receiver and result";
        Ok(AlertMetrics {
            attempts: make.counters("alert_attempts_total", attempts, &["receiver", "result"])?,
            waiting: make.gauges("alerts_waiting", "Alerts that wait to be delivered", &["receiver"])?,
        })
    }

    /// Creates the series of these receivers, and removes the gauges of others.
    pub(crate) fn adopt<'r>(&self, receivers: impl Iterator<Item = &'r str>) {
        self.waiting.reset();
        for receiver in receivers {
            self.waiting.with_label_values(&[receiver]).set(0);
            for result in AlertResult::ALL {
                let _ = self.attempts.with_label_values(&[receiver, result.as_str()]);
            }
        }
    }

    /// Alerts that wait for a receiver.
    pub(crate) fn waiting(&self, receiver: &str, alerts: usize) {
        self.waiting.with_label_values(&[receiver]).set(i64::try_from(alerts).unwrap_or(i64::MAX));
    }
    /// An attempt to deliver the alert of `event` ended: counts and logs it, a failure that is tried again at `warn`, the loss of
    /// an alert at `error`. `outcome` is `sent`, or why it was not.
    pub(crate) fn attempted(&self, receiver: &str, event: &str, result: AlertResult, outcome: &str) {
        self.attempts.with_label_values(&[receiver, result.as_str()]).inc();
        match result {
            AlertResult::Sent => log::info!(event = "alert"; "alert '{event}' is sent to '{receiver}'"),
            AlertResult::Failed => {
                log::warn!(event = "alert"; "alert '{event}' did not reach '{receiver}' and is tried again: {outcome}");
            }
            AlertResult::GivenUp => {
                log::error!(event = "alert"; "alert '{event}' never reached '{receiver}': {outcome}");
            }
        }
    }
}
