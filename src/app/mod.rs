//! The program: the server, the gateway that applications mount, and the command line.

pub mod cli;
pub mod serve;
pub mod server;
