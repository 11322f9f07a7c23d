//! The crate by what others see of it: files and environments, and what they come to.

// `cfg(test)` is always set here; it tells clippy that helpers may unwrap as tests do.
#[cfg(test)]
mod environment;
#[cfg(test)]
mod faults;
#[cfg(test)]
#[path = "../../../../tests/it/folder.rs"]
#[allow(dead_code, reason = "the tests of whole servers use all of it")]
mod folder;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod models;
#[cfg(test)]
mod quality;
#[cfg(test)]
mod routing;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod shipped;
#[cfg(test)]
mod targets;

/// The faults, a line each.
#[cfg(test)]
fn lines(faults: &[pointsman_config::Fault]) -> String {
    faults.iter().map(|fault| format!("{fault}\n")).collect()
}
