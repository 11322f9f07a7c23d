//! The store against a model of it, on a disk that fails.

mod accounts;
mod blobs;
mod damage;
mod memory_disk;
mod model;
mod pages;
mod queries;
mod ratings;
mod running;
mod sqlite_faults;
mod traffic;
