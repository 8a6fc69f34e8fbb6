//! What the process itself uses, under the names that all clients of Prometheus give it. It is found at each scrape, from
//! the kernel. What the kernel does not say is left out.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::telemetry::table::{Kind, Row, Table};

/// The place of the start time among the fields of `/proc/self/stat` that follow the name of the program.
const START_TIME: usize = 19;
/// What the kernel calls kB.
const KIB: f64 = 1024.0;

/// A metric of the process.
struct ProcessMetric {
    row: Row,
    value: fn(&Usage) -> Option<f64>,
}

/// The metrics of the process.
const METRICS: [ProcessMetric; 8] = [
    ProcessMetric {
        row: Row {
            name: "process_cpu_seconds_total",
            kind: Kind::Counter,
            labels: &[],
            help: "Processor time of the host, without its children that compile",
        },
        value: |_| Some(cpu_time().as_secs_f64()),
    },
    ProcessMetric {
        row: gauge("process_resident_memory_bytes", "Memory of the host that is in RAM"),
        value: |usage| usage.bytes("VmRSS:"),
    },
    ProcessMetric {
        row: gauge("process_virtual_memory_bytes", "Address space of the host; most of it is reserved for plugins"),
        value: |usage| usage.bytes("VmSize:"),
    },
    ProcessMetric {
        row: gauge("process_virtual_memory_max_bytes", "Limit of the address space, if there is one"),
        value: |_| limit(Resource::As),
    },
    ProcessMetric { row: gauge("process_threads", "Threads of the host"), value: |usage| usage.number("Threads:") },
    ProcessMetric { row: gauge("process_open_fds", "Open files and connections"), value: |_| open_files() },
    ProcessMetric {
        row: gauge("process_max_fds", "Limit of open files and connections"),
        value: |_| limit(Resource::Nofile),
    },
    ProcessMetric {
        row: gauge("process_start_time_seconds", "Unix time at which the host was started"),
        value: |usage| usage.started,
    },
];

const fn gauge(name: &'static str, help: &'static str) -> Row {
    Row { name, kind: Kind::Gauge, labels: &[], help }
}

/// Registers the metrics of the process.
pub(super) fn register(table: &mut Table) {
    table.collect(METRICS.iter().map(|metric| metric.row), Process { started: started() });
}

/// The process. Its start time is found once, so that it never changes.
#[derive(Debug)]
struct Process {
    started: Option<f64>,
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let usage = Usage { status: read("/proc/self/status"), started: self.started };
        for ProcessMetric { row, value } in METRICS {
            let Some(value) = value(&usage) else { continue };
            match row.kind {
                Kind::Counter => encode(&row, &ConstCounter::new(value), &mut encoder)?,
                Kind::Gauge | Kind::Histogram => encode(&row, &ConstGauge::new(value), &mut encoder)?,
            }
        }
        Ok(())
    }
}

/// Encodes a value under the name of its row.
fn encode(row: &Row, value: &impl EncodeMetric, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = format!("{}.", row.help);
    value.encode(encoder.encode_descriptor(row.base(), &help, None, value.metric_type())?)
}

/// What the kernel says of the process.
struct Usage {
    status: String,
    started: Option<f64>,
}

impl Usage {
    fn number(&self, field: &str) -> Option<f64> {
        let line = self.status.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_whitespace().next()?.parse().ok()
    }

    fn bytes(&self, field: &str) -> Option<f64> {
        Some(self.number(field)? * KIB)
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let part = |part: i64| u64::try_from(part).unwrap_or_default();
    Duration::from_secs(part(used.tv_sec)) + Duration::from_nanos(part(used.tv_nsec))
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has no other numbers")]
fn limit(resource: Resource) -> Option<f64> {
    getrlimit(resource).current.map(|limit| limit as f64)
}

/// Counts the open files, without the folder that is read for that.
fn open_files() -> Option<f64> {
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u32::try_from(count.saturating_sub(1)).ok().map(f64::from)
}

/// Returns when the process was started, in seconds since 1970.
fn started() -> Option<f64> {
    let since_boot = since_boot(&read("/proc/self/stat"), rustix::param::clock_ticks_per_second())?;
    let uptime: f64 = read("/proc/uptime").split(' ').next()?.parse().ok()?;
    let age = Duration::try_from_secs_f64(uptime).ok()?.saturating_sub(since_boot);
    Some(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.saturating_sub(age).as_secs_f64())
}

/// Returns how long after the start of the machine the process was started.
fn since_boot(stat: &str, ticks_per_second: u64) -> Option<Duration> {
    // The name of the program is in brackets, and may have blanks and brackets itself.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().nth(START_TIME)?.parse().ok()?;
    Some(Duration::from_millis(ticks.checked_mul(1000)?.checked_div(ticks_per_second)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_shown_as_the_kernel_knows_it() {
        let mut table = Table::default();
        register(&mut table);
        let text = table.text();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap()
        };
        assert!(value("process_cpu_seconds_total") > 0.0);
        let resident = value("process_resident_memory_bytes");
        assert!(resident > 1e6 && resident < value("process_virtual_memory_bytes"), "{text}");
        assert!(value("process_threads") >= 1.0 && value("process_open_fds") >= 3.0, "{text}");
        assert!(value("process_open_fds") <= value("process_max_fds"), "{text}");
        let age =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() - value("process_start_time_seconds");
        assert!((-2.0..24.0 * 3600.0).contains(&age), "it was started {age} s ago");
    }

    #[test]
    fn the_start_time_is_found_behind_a_name_that_looks_like_more_fields() {
        let stat = "7 (a) S 1 (b) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 1";
        assert_eq!(since_boot(stat, 100), Some(Duration::from_millis(123_450)));
        assert_eq!(since_boot("7 (a", 100), None);
        assert_eq!(since_boot("", 0), None);
    }
}
