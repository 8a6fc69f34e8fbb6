//! Turns measurements into figures, and writes these as lines on standard output and, to be kept, to
//! `target/bench/quick.json` and `quick.md`.

use std::fs;

use anyhow::Result;
use serde::Serialize;

use crate::cells::Outcome;
use crate::figure::Figure;
use crate::figure::Target::{Above, AtLeast, AtMost, Exactly};
use crate::quick::{Measured, Round};
use crate::repository;

const FOLDER: &str = "target/bench";

#[derive(Serialize)]
struct Report<'a> {
    machine: &'a str,
    figures: &'a [Figure],
    measured: &'a Measured,
}

/// Prints on which machine and how much is measured.
pub fn machine(count: usize, runs: usize) {
    println!("{}", on(count, runs));
}

/// Prints the figures and writes the report.
///
/// # Errors
/// When it cannot be written.
pub fn write(measured: &Measured) -> Result<()> {
    let figures = figures(measured);
    figures.iter().for_each(|figure| println!("{figure} ({})", figure.range()));
    let machine = on(measured.count, measured.cold.len().max(measured.live.len()));
    let folder = repository(FOLDER);
    fs::create_dir_all(&folder)?;
    let report = Report { machine: &machine, figures: &figures, measured };
    fs::write(folder.join("quick.json"), serde_json::to_vec_pretty(&report)?)?;
    fs::write(folder.join("quick.md"), markdown(&machine, &figures, measured))?;
    println!("report {}", folder.join("quick.md").canonicalize()?.display());
    Ok(())
}

/// Describes on which machine and how much is measured.
pub fn on(count: usize, runs: usize) -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = read("/proc/loadavg");
    format!(
        "on {cores} cores ({}), Linux {}, Kubernetes 1.36.3 (etcd without fsync; controller-manager, scheduler and \
         kwok stopped), hotshoe {}, kube 5, load average {}; N = {count}, runs {runs}, median (min..max)",
        model.trim_start_matches([' ', '\t', ':']).trim(),
        read("/proc/sys/kernel/osrelease").trim(),
        env!("CARGO_PKG_VERSION"),
        load.split(' ').next().unwrap_or_default(),
    )
}

/// Returns all figures, those with a target first.
fn figures(measured: &Measured) -> Vec<Figure> {
    let all = [speed(measured), size(measured), writes(measured), steadiness(measured), decision(measured)];
    let mut figures: Vec<Figure> = all.into_iter().flatten().flatten().collect();
    figures.sort_by_key(|figure| figure.target.is_none());
    figures
}

type Figures = Vec<Option<Figure>>;

fn speed(measured: &Measured) -> Figures {
    let count = measured.count as f64;
    let (cold, live) = (&measured.cold, &measured.live);
    let ratio = |name: &str, runs: &[f64]| Figure::of(name, "ratio", runs);
    let alone: Vec<f64> = cold.iter().flat_map(created).collect();
    let alone = Figure::of("creations-alone", "s", &alone);
    let slowed = |round: &Round| Some(round.host.as_ref()?.created / alone.as_ref()?.value);
    let per_second = |outcome: &Outcome| count / outcome.converged;
    let cpu = |outcome: &Outcome| outcome.cpu * 1000.0 / count;
    let server_cpu = |outcome: &Outcome| outcome.server_cpu * 1000.0 / count;
    let target = |figure: Option<Figure>, target| figure.map(|figure| figure.target(target));
    vec![
        target(ratio("cold-start-to-raw", &ratios(cold, raw, host, |o| 1.0 / o.converged)), AtLeast(0.85)),
        target(ratio("cold-start-to-native", &ratios(cold, native, host, |o| 1.0 / o.converged)), Above(1.0)),
        target(ratio("live-to-native", &ratios(live, native, host, |o| 1.0 / o.converged)), AtLeast(1.0)),
        target(ratio("live-creations-slowed", &each(live, slowed)), AtMost(2.0)),
        target(ratio("live-cpu-to-native", &ratios(live, native, host, cpu)), AtMost(1.1)),
        target(ratio("cold-cpu-to-native", &ratios(cold, native, host, cpu)), AtMost(1.1)),
        alone.clone(),
        values("live-native-creations", "s", live, native, |o| o.created),
        values("live-host-creations", "s", live, host, |o| o.created),
        values("cold-raw", "CR/s", cold, raw, per_second),
        values("cold-native", "CR/s", cold, native, per_second),
        values("cold-host", "CR/s", cold, host, per_second),
        values("live-native", "CR/s", live, native, per_second),
        values("live-host", "CR/s", live, host, per_second),
        values("live-native-latency-p50", "s", live, native, |o| o.latency_p50),
        values("live-host-latency-p50", "s", live, host, |o| o.latency_p50),
        values("live-native-latency-p99", "s", live, native, |o| o.latency_p99),
        values("live-host-latency-p99", "s", live, host, |o| o.latency_p99),
        values("cold-native-cpu-per-1000", "s", cold, native, cpu),
        values("cold-host-cpu-per-1000", "s", cold, host, cpu),
        values("live-native-cpu-per-1000", "s", live, native, cpu),
        values("live-host-cpu-per-1000", "s", live, host, cpu),
        values("cold-raw-server-cpu-per-1000", "s", cold, raw, server_cpu),
        values("cold-native-server-cpu-per-1000", "s", cold, native, server_cpu),
        values("cold-host-server-cpu-per-1000", "s", cold, host, server_cpu),
        values("live-native-server-cpu-per-1000", "s", live, native, server_cpu),
        values("live-host-server-cpu-per-1000", "s", live, host, server_cpu),
    ]
}

fn size(measured: &Measured) -> Figures {
    let (cold, live) = (&measured.cold, &measured.live);
    let target = |figure: Option<Figure>, target| figure.map(|figure| figure.target(target));
    vec![
        target(values("rss-idle", "MB", live, host, |o| o.idle.rss), AtMost(20.0)),
        target(values("rss-with-crs", "MB", live, host, |o| o.with_crs.rss), AtMost(32.0)),
        target(values("rss-with-crs-at-start", "MB", cold, host, |o| o.with_crs.rss), AtMost(32.0)),
        target(
            measured.steady.and_then(|s| Figure::of("rss-with-crs-after-restart", "MB", &[s.restart_rss])),
            AtMost(32.0),
        ),
        values("live-native-rss-idle", "MB", live, native, |o| o.idle.rss),
        values("live-native-idle-private", "MB", live, native, |o| o.idle.private),
        values("live-native-idle-text", "MB", live, native, |o| o.idle.files),
        values("live-host-idle-private", "MB", live, host, |o| o.idle.private),
        values("live-host-idle-text", "MB", live, host, |o| o.idle.files),
        values("live-native-rss", "MB", live, native, |o| o.with_crs.rss),
        values("live-native-private", "MB", live, native, |o| o.with_crs.private),
        values("live-native-text", "MB", live, native, |o| o.with_crs.files),
        values("live-host-private", "MB", live, host, |o| o.with_crs.private),
        values("live-host-text", "MB", live, host, |o| o.with_crs.files),
        values("live-native-pss", "MB", live, native, |o| o.with_crs.pss),
        values("live-host-pss", "MB", live, host, |o| o.with_crs.pss),
        values("live-host-rss-peak", "MB", live, host, |o| o.with_crs.peak),
        values("cold-native-rss", "MB", cold, native, |o| o.with_crs.rss),
    ]
}

fn writes(measured: &Measured) -> Figures {
    let count = measured.count as f64;
    let hosts: Vec<&Outcome> = rounds(measured).filter_map(host).collect();
    let natives: Vec<&Outcome> = rounds(measured).filter_map(native).collect();
    let per = |outcomes: &[&Outcome], resource: &str| -> Vec<f64> {
        outcomes.iter().map(|outcome| outcome.written(resource) as f64 / count).collect()
    };
    let exactly =
        |name: &str, runs: Vec<f64>, target| Figure::of(name, "per-CR", &runs).map(|f| f.target(Exactly(target)));
    let none = |name: &str, unit, of: fn(&Outcome) -> u64| {
        let runs: Vec<f64> = hosts.iter().map(|outcome| of(outcome) as f64).collect();
        Figure::of(name, unit, &runs).map(|figure| figure.target(Exactly(0.0)))
    };
    vec![
        exactly("writes-finalizer", per(&hosts, "memcacheds"), 1.0),
        exactly("writes-deployment", per(&hosts, "deployments"), 1.0),
        exactly("writes-service", per(&hosts, "services"), 1.0),
        // One status before the children exist, and one after; nothing else is ever observed here.
        exactly("writes-status", per(&hosts, "memcacheds/status"), 2.0),
        none("conflicts", "writes", |outcome| outcome.conflicts),
        none("failed-creates", "writes", |outcome| outcome.failed_creates),
        Figure::of("plugin-calls", "per-CR", &calls(&hosts, count)),
        Figure::of("writes-all", "per-CR", &all(&hosts, count)),
        Figure::of("native-writes-all", "per-CR", &all(&natives, count)),
        Figure::of("native-writes-status", "per-CR", &per(&natives, "memcacheds/status")),
    ]
}

fn steadiness(measured: &Measured) -> Figures {
    let Some(steady) = measured.steady else { return Vec::new() };
    let one = |name: &str, unit, value: f64| Figure::of(name, unit, &[value]);
    let target = |figure: Option<Figure>, target| figure.map(|figure| figure.target(target));
    vec![
        target(one("quiet-writes", "writes", steady.quiet_writes as f64), Exactly(0.0)),
        target(one("touch-writes", "writes", steady.touch_writes as f64), Exactly(0.0)),
        target(one("touch-calls", "per-CR", steady.touch_calls as f64 / measured.count as f64), AtMost(1.0)),
        target(one("restart-writes", "writes", steady.restart_writes as f64), Exactly(0.0)),
        target(one("after-outage", "s", steady.outage), AtMost(5.0)),
        one("quiet-cpu", "s", steady.quiet_cpu),
    ]
}

fn decision(measured: &Measured) -> Figures {
    let Some(times) = measured.decision else { return Vec::new() };
    let one = |name: &str, unit, value: f64| Figure::of(name, unit, &[value]);
    vec![
        one("decision-p50", "us", times.wasm_p50).map(|figure| figure.target(AtMost(80.0))),
        one("decision-p99", "us", times.wasm_p99),
        one("decision-native-p50", "us", times.native_p50),
        one("decision-input", "bytes", times.bytes),
    ]
}

fn raw(round: &Round) -> Option<&Outcome> {
    round.raw.as_ref()
}

fn native(round: &Round) -> Option<&Outcome> {
    round.native.as_ref()
}

fn host(round: &Round) -> Option<&Outcome> {
    round.host.as_ref()
}

type Of = fn(&Round) -> Option<&Outcome>;

fn rounds(measured: &Measured) -> impl Iterator<Item = &Round> {
    measured.cold.iter().chain(&measured.live)
}

fn created(round: &Round) -> Vec<f64> {
    [raw(round), native(round), host(round)].into_iter().flatten().map(|outcome| outcome.created).collect()
}

fn all(outcomes: &[&Outcome], count: f64) -> Vec<f64> {
    outcomes.iter().map(|outcome| outcome.writes.values().sum::<u64>() as f64 / count).collect()
}

fn calls(hosts: &[&Outcome], count: f64) -> Vec<f64> {
    hosts.iter().map(|outcome| outcome.plugin_calls as f64 / count).collect()
}

fn each(rounds: &[Round], value: impl Fn(&Round) -> Option<f64>) -> Vec<f64> {
    rounds.iter().filter_map(value).collect()
}

fn values(name: &str, unit: &'static str, rounds: &[Round], of: Of, value: impl Fn(&Outcome) -> f64) -> Option<Figure> {
    Figure::of(name, unit, &each(rounds, |round| of(round).map(&value)))
}

/// Returns the ratio within each round, so that anything that slowed down both cancels out.
fn ratios(rounds: &[Round], base: Of, subject: Of, value: impl Fn(&Outcome) -> f64) -> Vec<f64> {
    each(rounds, |round| Some(value(subject(round)?) / value(base(round)?)))
}

fn markdown(machine: &str, figures: &[Figure], measured: &Measured) -> String {
    let mut text =
        format!("# Benchmark\n\n{machine}\n\n| figure | value | range | target | |\n|---|---|---|---|---|\n");
    for figure in figures {
        let target = figure.target.map(|target| target.to_string()).unwrap_or_default();
        let word = figure.target.map_or("", |_| if figure.is_met() { "ok" } else { "**short**" });
        let (name, value, unit, range) = (&figure.name, figure.value, figure.unit, figure.range());
        text.push_str(&format!("| {name} | {value:.3} {unit} | {range} | {target} | {word} |\n"));
    }
    text.push_str("\n## Writes of the host\n\n");
    for (cell, rounds) in [("cold", &measured.cold), ("live", &measured.live)] {
        for outcome in rounds.iter().filter_map(host) {
            text.push_str(&format!("- {cell}: {:?}\n", outcome.writes));
        }
    }
    text
}
