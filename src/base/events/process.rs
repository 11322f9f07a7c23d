//! The standard metrics of the process, read from `/proc/self`. They have no prefix, as in all Prometheus clients.

use std::fs;

use prometheus::proto::MetricFamily;

use super::families::Families;

/// Units per second of the times in `/proc/self/stat`. Linux fixes it for all programs, whatever the kernel's own rate.
const TICKS_PER_SECOND: f64 = 100.0;

/// The metrics of this process, which began at this time in Unix seconds. Those that the system does not tell are left
/// out.
pub(super) fn families(started_seconds: f64) -> Vec<MetricFamily> {
    Families::with_prefix("process_".to_owned(), |families| {
        let gauges = [
            ("start_time_seconds", "When the process started, in Unix seconds", Some(started_seconds)),
            ("resident_memory_bytes", "Resident memory of the process", resident_bytes()),
            ("open_fds", "Open file descriptors", open_descriptors()),
            ("max_fds", "Most file descriptors that may be open", most_descriptors()),
        ];
        for (name, help, value) in gauges {
            value.into_iter().for_each(|value| families.gauge(name, help, value));
        }
        let seconds = cpu_seconds();
        let help = "CPU time of the process, user and system";
        seconds.into_iter().for_each(|seconds| families.counter("cpu_seconds_total", help, seconds));
    })
}

fn resident_bytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program is in parentheses and may contain anything. User and system time are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(str::parse::<f64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

fn open_descriptors() -> Option<f64> {
    // The listing itself has one open.
    fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count().saturating_sub(1) as f64)
}

fn most_descriptors() -> Option<f64> {
    rlimit::Resource::NOFILE.get_soft().ok().map(|most| most as f64)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_process_tells_its_memory_descriptors_and_cpu_time() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000.0));
        let (open, most) = (open_descriptors().unwrap(), most_descriptors().unwrap());
        assert!(open > 0.0 && open <= most, "{open} of {most}");
        let before = cpu_seconds().unwrap();
        let began = std::time::Instant::now();
        while began.elapsed().as_millis() < 10_000 && cpu_seconds().unwrap() <= before {}
        assert!(cpu_seconds().unwrap() > before);
    }
}
