//! What a service manager such as systemd is told: that the process serves, reloads, stops, and is alive.
//!
//! Nothing is sent unless the manager asked for it with `NOTIFY_SOCKET`. A manager that cannot be told is logged, because it
//! would end the process as one that does not start.

use sd_notify::NotifyState;

/// The gateway serves, for the first time or after a reload.
pub fn ready(status: &str) {
    notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The configuration is being read again; [`ready`] ends that.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => log::warn!("cannot tell the service manager of the reload: {error}"),
    }
}

/// The gateway drains and will end.
pub fn stopping() {
    notify(&[NotifyState::Stopping, NotifyState::Status("draining")]);
}

/// The control loop runs. Sent only to a manager that restarts a process which stops saying so.
pub fn alive() {
    if sd_notify::watchdog_enabled().is_some() {
        notify(&[NotifyState::Watchdog]);
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        log::warn!("cannot tell the service manager: {error}");
    }
}
