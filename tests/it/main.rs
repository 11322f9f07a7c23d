//! The whole server, and its parts as a stranger would use them.

// `cfg(test)` is always set here; it tells clippy that helpers may unwrap as tests do.
#[cfg(test)]
mod config_commands;
#[cfg(test)]
mod config_environment;
#[cfg(test)]
mod config_faults;
#[cfg(test)]
mod config_fuzz;
#[cfg(test)]
mod config_models;
#[cfg(test)]
mod config_secrets;
#[cfg(test)]
mod config_shipped;
