//! Why a call is refused with 503.

/// Reason for refusing a call with 503.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overload {
    /// Limit of requests in flight.
    RequestsInFlight,
    /// Limit of buffered bytes of the gateway.
    BufferedBytes,
    /// Limit of buffered bytes of this key.
    BufferedBytesOfKey,
    /// The queue of previews, explanations, replays and lists does not move.
    Analyses,
    /// The process is shutting down.
    Draining,
    /// Every endpoint is saturated or has no free permit.
    EndpointsBusy,
    /// Every endpoint is half-open, or its circuit open, and a probe that may close one is in flight.
    ProbesInFlight,
    /// Every circuit is open.
    CircuitsOpen,
    /// Every provider refuses the gateway's key, account or name of the model.
    RefusedByProviders,
    /// The disk of the ledger fails, and memory has no room for further records.
    Ledger,
    /// As many live streams of administrators as there may be.
    LiveStreams,
    /// A control actor did not answer.
    ActorSilent,
}

impl Overload {
    /// The reason in the answer, and the message.
    pub(super) const fn reason_with_message(self) -> (&'static str, &'static str) {
        match self {
            Overload::RequestsInFlight => ("overloaded", "The gateway is at its limit of requests in flight."),
            Overload::LiveStreams => ("overloaded", "The gateway has as many live streams as it has room for."),
            Overload::BufferedBytes => {
                ("overloaded", "The gateway holds as many bytes of requests and answers as it has room for.")
            }
            Overload::BufferedBytesOfKey => {
                ("overloaded", "This API key's requests and unread answers take as much room as one key may have.")
            }
            Overload::Analyses => {
                ("overloaded", "Too many previews, explanations, replays and lists wait at the moment.")
            }
            Overload::Draining => ("draining", "The gateway is shutting down."),
            Overload::EndpointsBusy => {
                ("overloaded", "Every endpoint that could serve this request takes no more requests at the moment.")
            }
            Overload::ProbesInFlight => (
                "probe_in_flight",
                "Every provider that could serve this request failed or limited its rate a moment ago, and a request that tests \
                 whether one has recovered is in flight.",
            ),
            Overload::CircuitsOpen => {
                ("all_circuits_open", "Every provider that could serve this request is failing at the moment.")
            }
            Overload::RefusedByProviders => (
                "all_circuits_open",
                "Every provider that could serve this request refuses the gateway's own key, account or name of the model. \
                 Its administrator must correct that; /health/providers names what was refused.",
            ),
            Overload::Ledger => (
                "ledger_unavailable",
                "The gateway cannot record further requests: the disk of its ledger fails, and its memory is full.",
            ),
            Overload::ActorSilent => ("overloaded", "A part of the gateway did not answer in time."),
        }
    }
}
