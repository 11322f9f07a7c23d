//! What a service manager such as systemd is told, through its socket.

use std::{
    os::unix::net::UnixDatagram,
    time::{Duration, Instant},
};

use crate::{folder::Folder, patience::PATIENCE, process::Process};

/// The socket of a manager.
struct Manager(UnixDatagram);

impl Manager {
    /// The next message that has this line, among what comes within the patience of a test.
    fn told(&self, line: &str) -> String {
        let (began, mut bytes) = (Instant::now(), [0_u8; 1024]);
        let mut heard = Vec::new();
        while began.elapsed() < PATIENCE {
            if let Ok(length) = self.0.recv(&mut bytes) {
                let message = String::from_utf8_lossy(&bytes[..length]).into_owned();
                if message.lines().any(|told| told.starts_with(line)) {
                    return message;
                }
                heard.push(message);
            }
        }
        panic!("{line} did not come: {heard:?}");
    }
}

#[actix_web::test]
async fn a_service_manager_hears_of_start_reload_life_and_stop() {
    let folder = Folder::new();
    let path = folder.at("notify");
    let manager = Manager(UnixDatagram::bind(&path).unwrap());
    manager.0.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let environment = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "30000000"),
        ("POINTSMAN__SERVER__BIND", "127.0.0.1:0"),
        ("POINTSMAN__SIMULATION__MODE", "on"),
    ];
    let mut process = Process::start(&[], &environment);
    assert!(manager.told("READY=1").contains("STATUS=serving configuration version 1"));
    assert!(process.gateway().get("/health/ready").await.status == 200, "it is not ready before it serves");
    manager.told("WATCHDOG=1");
    process.signal("HUP");
    assert!(manager.told("RELOADING=1").contains("MONOTONIC_USEC="));
    manager.told("READY=1");
    process.signal("TERM");
    manager.told("STOPPING=1");
    assert!(process.end().await.success());
}

#[actix_web::test]
async fn without_a_service_manager_nothing_is_said_and_nothing_is_missed() {
    let mut process =
        Process::start(&[], &[("POINTSMAN__SERVER__BIND", "127.0.0.1:0"), ("POINTSMAN__SIMULATION__MODE", "on")]);
    process.signal("TERM");
    assert!(process.end().await.success());
    assert!(!process.stderr().contains("service manager"), "{}", process.stderr());
}
