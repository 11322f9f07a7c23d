//! Bind, run, drain.
//!
//! [`Gateway`] is everything but the listener: an actix team mounts it in an `App` of its own.
//! [`Server`] is the gateway on its own listener, as the binary runs it.

use std::{
    fmt, io,
    net::SocketAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use actix::{Actor as _, Arbiter};
use actix_web::{App, HttpServer, dev::ServerHandle, web::ServiceConfig};
use arc_swap::ArcSwap;
use pointsman_actors::{
    catalog::CatalogActor,
    ledger::{CountRecords, Ledger, MemoryStore},
    news::{News, NewsRoom},
    provider_health::ProviderHealth,
    router::{Router, Seeds},
    stats::{LiveBoard, Statistics},
};
use tokio::sync::Semaphore;

use crate::{
    admission::Admission,
    auth::KeyTable,
    clock,
    config::Config,
    events::Metrics,
    gateway::{Control, Permits, Shared, Worker},
    images::ImageFiles,
    routes,
    simulation::{self, Simulation},
    upstream::{UpstreamClient, tls},
};

/// Why the gateway did not start.
#[derive(Debug)]
pub enum StartError {
    /// The address cannot be listened on.
    Bind(SocketAddr, io::Error),
    /// TLS towards providers cannot be set up.
    Tls(String),
    /// A simulated provider did not start.
    Simulation(io::Error),
    /// The metrics clash.
    Metrics(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Bind(address, error) => {
                write!(f, "cannot listen on {address}: {error}. Choose another with server.bind or POINTSMAN__SERVER__BIND.")
            }
            StartError::Tls(what) => write!(f, "cannot set up TLS towards providers: {what}"),
            StartError::Simulation(error) => write!(f, "cannot start the simulated providers: {error}"),
            StartError::Metrics(what) => write!(f, "cannot set up metrics: {what}"),
        }
    }
}

impl std::error::Error for StartError {}

/// A running gateway without a listener. Cloning shares it.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
    seeds: (u64, u64),
    workers: Arc<AtomicU64>,
    _simulation: Arc<Simulation>,
    control: Arc<Arbiter>,
}
