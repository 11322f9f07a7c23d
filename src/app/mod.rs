//! The program: the server to run or to mount, and the command line.

pub mod cli;
pub mod serve;
pub mod server;
