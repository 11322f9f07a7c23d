//! What a process has cost so far, as the kernel counts it.

use std::{fs, time::Duration};

use crate::Failure;

/// Processor time of all threads of a process, user and system together.
///
/// The scheduler's own count is in nanoseconds but leaves out threads that have ended, of which the
/// proxies here have none. Kernels without it count in ticks, usually of 10 ms.
pub(crate) fn cpu_time(pid: u32, ticks_per_second: u64) -> Result<Duration, Failure> {
    scheduled(pid).or_else(|_| ticks(pid, ticks_per_second))
}

fn scheduled(pid: u32) -> Result<Duration, Failure> {
    let mut time = Duration::ZERO;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = fs::read_to_string(thread?.path().join("schedstat"))?;
        time += Duration::from_nanos(stat.split_whitespace().next().ok_or("an empty schedstat")?.parse()?);
    }
    Ok(time)
}

fn ticks(pid: u32, ticks_per_second: u64) -> Result<Duration, Failure> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the program's name in parentheses and may hold anything.
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/PID/stat has another form")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_nanos(ticks * 1_000_000_000 / ticks_per_second))
}

/// Open file descriptors of a process.
pub(crate) fn descriptors(pid: u32) -> Result<u64, Failure> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64)
}

/// Resident memory of a process in KiB.
pub(crate) fn resident(pid: u32) -> Result<u64, Failure> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
