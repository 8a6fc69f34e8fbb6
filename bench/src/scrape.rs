//! Scrapes of the metrics of many plugins: how large they are, how long they take, and how long what a reconcile counts
//! waits for them. They are served in this process as a host serves them. The number of parents does not matter: no metric
//! has a series for each.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use hotshoe::server::{About, Ports};
use hotshoe_operator::telemetry::exercise;
use hotshoe_operator::telemetry::metrics::Metrics;

use crate::figure::Target::AtMost;
use crate::figure::{Figure, quantile};
use crate::report;

/// The pause between two scrapes: far less than that of a Prometheus, and longer than a host rests after one.
const PAUSE: Duration = Duration::from_millis(500);
/// What Prometheus asks for.
const ACCEPT: &str = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
/// After how many rounds over all plugins one more plugin is counted for the first time.
const ROUNDS: usize = 64;

/// Measure a scrape of a host with 100 plugins, and the pause that it makes
#[derive(clap::Args, Debug)]
#[command(after_help = "Example: just bench scrape --plugins 20")]
pub struct Args {
    /// How many plugins the host has
    #[arg(long, default_value_t = 100)]
    plugins: usize,
    /// How many scrapes are measured, in each coding
    #[arg(long, default_value_t = 50)]
    scrapes: usize,
}

impl Args {
    /// Measures and prints the figures.
    ///
    /// # Errors
    /// When the metrics are not served.
    pub async fn run(self) -> Result<()> {
        ensure!(self.plugins > 0 && self.scrapes > 0, "nothing is measured with 0 plugins or 0 scrapes");
        println!("{}", report::on(1, self.scrapes));
        let metrics = Arc::new(Metrics::default());
        let names: Vec<String> = (0..self.plugins).map(|number| format!("operator-{number:03}")).collect();
        names.iter().for_each(|name| exercise::fill(&metrics, name));
        let ports = Ports::bind(([127, 0, 0, 1], 0).into(), None, None).await?;
        let address = ports.address()?;
        ports.serve(None, None, About { metrics: metrics.clone(), ..About::default() })?;
        for (coding, name) in [(None, "plain"), (Some("gzip"), "gzip")] {
            self.measure(address, coding, name)?;
        }
        let pause = |beside| self.slowest_count(address, &metrics, &names, beside);
        let (without, beside) = (pause(false)?, pause(true)?);
        let figure = |name: &str, value| Figure::of(name, "ms", &[value]).context("no value");
        println!("{}", figure("scrape-pause-without", without)?);
        println!("{}", figure("scrape-pause", beside)?.target(AtMost(1.0)));
        Ok(())
    }

    fn measure(&self, address: SocketAddr, coding: Option<&str>, name: &str) -> Result<()> {
        let (mut sizes, mut times) = (Vec::new(), Vec::new());
        for _ in 0..self.scrapes {
            thread::sleep(PAUSE);
            let scrape = scraped(address, coding)?;
            ensure!(scrape.is_packed == coding.is_some(), "void: the answer has another coding");
            sizes.push(scrape.bytes as f64 / 1000.0);
            times.push(scrape.time.as_secs_f64() * 1000.0);
        }
        times.sort_by(f64::total_cmp);
        let size = Figure::of(&format!("scrape-size-{name}"), "kB", &sizes).context("no scrape")?;
        let size = if coding.is_some() { size.target(AtMost(500.0)) } else { size };
        println!("{size}");
        for (share, of) in [(0.5, "p50"), (0.99, "p99")] {
            let time = Figure::of(&format!("scrape-time-{name}-{of}"), "ms", &[quantile(&times, share)]);
            println!("{}", time.context("no scrape")?.target(AtMost(20.0)));
        }
        Ok(())
    }

    /// Returns how long what a reconcile counts took at most, in milliseconds, beside scrapes or without them.
    fn slowest_count(&self, address: SocketAddr, metrics: &Metrics, names: &[String], beside: bool) -> Result<f64> {
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let counting = scope.spawn(|| {
                let (mut slowest, mut rounds) = (Duration::ZERO, 0_usize);
                while !ended.load(Ordering::Acquire) {
                    let new = rounds.is_multiple_of(ROUNDS).then(|| format!("operator-{beside}-{rounds}"));
                    for name in names.iter().chain(&new) {
                        let began = Instant::now();
                        exercise::count_reconcile(metrics, name);
                        slowest = slowest.max(began.elapsed());
                    }
                    rounds += 1;
                    // So that the kernel runs it at once, as it does a host that waits for events.
                    thread::sleep(Duration::from_micros(200));
                }
                slowest
            });
            for _ in 0..self.scrapes {
                thread::sleep(PAUSE / 5);
                if beside {
                    scraped(address, Some("gzip"))?;
                }
            }
            ended.store(true, Ordering::Release);
            counting.join().map(|slowest| slowest.as_secs_f64() * 1000.0).map_err(|_| anyhow!("void: it panicked"))
        })
    }
}

/// An answer to a scrape.
struct Scrape {
    bytes: usize,
    time: Duration,
    is_packed: bool,
}

/// Scrapes on a new connection, as each scrape there is.
fn scraped(address: SocketAddr, coding: Option<&str>) -> Result<Scrape> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    let coding = coding.map(|coding| format!("Accept-Encoding: {coding}\r\n")).unwrap_or_default();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nAccept: {ACCEPT}\r\n{coding}\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let time = began.elapsed();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").context("no end of the headers")? + 4;
    let bytes = answer.len() - end;
    answer.truncate(end);
    let head = String::from_utf8_lossy(&answer).to_lowercase();
    ensure!(head.starts_with("http/1.1 200"), "{head}");
    Ok(Scrape { bytes, time, is_packed: head.contains("content-encoding: gzip") })
}
