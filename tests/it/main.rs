//! The whole server, and its parts as a stranger would use them.

mod config_commands;
mod config_environment;
mod config_faults;
mod config_fuzz;
mod config_secrets;
mod config_shipped;
