//! Pointsman itself: a configuration for this world, and its process.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use pointsman_domain::RoutingPolicy;

use super::{
    child::Process,
    stage::{self, SPEED},
};
use crate::world::World;

/// The model that all providers serve.
pub const MODEL: &str = "acme/chat";
/// Where it takes requests.
pub const PATH: &str = "/api/v1/chat/completions";
/// Shortest time that a connection on a busy machine may take, real seconds.
const CONNECT: f64 = 1.0;

/// A running gateway.
pub struct Gateway {
    // The process goes before its configuration does.
    _process: Process,
    _directory: Directory,
    /// Where it listens.
    pub address: SocketAddr,
}

/// A directory that goes with us.
struct Directory(PathBuf);

impl Gateway {
    /// Starts the binary in front of these providers. Blocks until it listens.
    pub fn start(pointsman: &Path, world: &World, providers: &[SocketAddr]) -> io::Result<Gateway> {
        let directory = Directory::new()?;
        let file = directory.0.join("config.toml");
        fs::write(&file, configuration(world, &stage::policy(), providers))?;
        let mut process = Process::start([
            OsString::from("guard"),
            directory.0.clone().into_os_string(),
            pointsman.as_os_str().to_owned(),
            "--config".into(),
            file.into_os_string(),
        ])?;
        let base = process.wait_for("Base address  http://")?;
        let address = base.split('/').next().unwrap_or_default().parse().map_err(io::Error::other)?;
        process.ignore();
        Ok(Gateway { _process: process, _directory: directory, address })
    }
}

impl Directory {
    fn new() -> io::Result<Directory> {
        let name = format!("pointsman-oracle-{}-{}", std::process::id(), stage::micros_now());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Its guard has removed it, unless there never was one.
        _ = fs::remove_dir_all(&self.0);
    }
}

fn configuration(world: &World, policy: &RoutingPolicy, providers: &[SocketAddr]) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    _ = write_server(policy, &mut text);
    _ = write_endpoints(world, providers, &mut text);
    text
}

/// Every constant that is a time, as real time.
fn write_server(policy: &RoutingPolicy, out: &mut String) -> std::fmt::Result {
    let (clocks, stats, breaker) = (&policy.clocks, &policy.stats, &policy.breaker);
    let real = |virtual_time: std::time::Duration| virtual_time.as_secs_f64() / SPEED;
    let time = |seconds: f64| format!("\"{}us\"", (seconds * 1e6).round().max(1.0));
    let first_byte = time(real(clocks.first_byte));
    writeln!(out, "[server]\nbind = \"127.0.0.1:0\"\n[auth]\nmode = \"none\"\n[timeouts]")?;
    writeln!(out, "connect = {}\nfirst_byte = {first_byte}", time(real(clocks.connect).max(CONNECT)))?;
    writeln!(out, "first_content = {first_byte}\ntotal = {}", time(real(clocks.total)))?;
    writeln!(out, "[routing]\nseed = 1\ninstance_id = 1\n[routing.expert]")?;
    writeln!(out, "half_life = {}", time(real(stats.half_life)))?;
    writeln!(out, "failure_time = {}", time(real(policy.failure_time)))?;
    writeln!(out, "prior_ttft = {}", time(real(stats.prior_first_token)))?;
    writeln!(out, "prior_time_per_token = {}", time(real(stats.prior_per_token)))?;
    writeln!(out, "[routing.breaker]\nbase = {}", time(real(breaker.base)))
}

fn write_endpoints(world: &World, providers: &[SocketAddr], out: &mut String) -> std::fmt::Result {
    for (position, address) in providers.iter().enumerate() {
        writeln!(out, "[providers.p{position}]\nenabled = true\nbase_url = \"http://{address}/v1\"")?;
    }
    writeln!(out, "[[models]]\nid = \"{MODEL}\"\nname = \"Chat\"\ncreated = 2026-11-20\ncontext_length = 100000")?;
    for (position, endpoint) in world.endpoints.iter().enumerate() {
        let (prompt, completion) = (endpoint.price_in, endpoint.price_out);
        writeln!(out, "[[models.endpoints]]\nprovider = \"p{position}\"\nupstream_model = \"chat\"")?;
        writeln!(out, "pricing = {{ prompt = \"{prompt:.15}\", completion = \"{completion:.15}\" }}")?;
    }
    Ok(())
}
