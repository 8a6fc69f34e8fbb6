//! A real browser without windows, which is asked by the DevTools protocol over a pair of pipes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tool;

/// How long the browser may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The programs that are tried, in this order; `tests/install.sh` unpacks the first one.
const PROGRAMS: [&str; 4] = ["chromium-headless-shell", "chromium", "google-chrome", "chrome"];

/// A browser with one page, which is killed when this value is dropped.
pub struct Browser {
    child: Child,
    write: File,
    read: Receiver<Value>,
    session: Option<String>,
    number: u64,
    events: Vec<Value>,
    _home: TempDir,
}

/// Returns the browser of `tests/install.sh`, or the first one on the `PATH`.
fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &PathBuf| {
        program.is_absolute() || std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    };
    let found = PROGRAMS.map(|program| tool("chromium", program)).into_iter().find(is_there);
    found.expect("there is no browser; unpack one with: tests/install.sh chromium chromium-headless-shell")
}

impl Browser {
    /// Starts a browser with an empty page.
    pub fn start() -> Self {
        let home = TempDir::new().expect("a folder");
        let [write, read] = ["in", "out"].map(|name| home.path().join(name));
        let made = Command::new("mkfifo").args([&write, &read]).status().expect("mkfifo runs");
        assert!(made.success(), "there are no pipes");
        let mut command = Command::new("sh");
        command.args(["-c", "in=$1 out=$2; shift 2; exec \"$@\" 3<\"$in\" 4>\"$out\"", "sh"]).args([&write, &read]);
        command.arg(program()).arg(format!("--user-data-dir={}", home.path().join("profile").display()));
        command.args(["--headless", "--remote-debugging-pipe", "--no-sandbox", "--no-first-run", "--disable-gpu"]);
        command.args(["--disable-background-networking", "about:blank"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("the browser starts");
        // Each of these waits until the shell has opened the other end.
        let write = File::create(&write).expect("a pipe to the browser");
        let read = File::open(&read).expect("a pipe from the browser");
        let (send, messages) = mpsc::channel();
        std::thread::spawn(move || {
            for message in BufReader::new(read).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("a message is JSON");
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser =
            Self { child, write, read: messages, session: None, number: 0, events: Vec::new(), _home: home };
        let page = browser.ask("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.ask("Target.attachToTarget", json!({ "targetId": page, "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Shows a file in a window of this width, in the light or dark scheme, and waits until it is loaded.
    pub fn show(&mut self, file: &Path, width: u32, scheme: &str) {
        let screen = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", screen);
        let preferred = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "features": preferred }));
        self.events.clear();
        let shown = self.ask("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        assert!(shown["errorText"].is_null(), "{}: {shown}", file.display());
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let message = self.next();
            self.events.push(message);
        }
    }

    /// Returns the value of an expression of JavaScript on the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer:#}");
        answer["result"]["value"].clone()
    }

    /// Returns what the page has written to the console, its errors and what it was refused, since it was shown.
    pub fn complaints(&self) -> Vec<&Value> {
        let kinds = ["Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Network.loadingFailed"];
        self.events.iter().filter(|event| kinds.iter().any(|kind| event["method"] == *kind)).collect()
    }

    /// Returns the addresses that the page has asked for since it was shown.
    pub fn requests(&self) -> Vec<&str> {
        let requests = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        requests.filter_map(|event| event["params"]["request"]["url"].as_str()).collect()
    }

    /// Sends a command, and returns its result; events that come before it are kept.
    fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        write!(self.write, "{message}\0").and_then(|()| self.write.flush()).expect("the browser runs");
        loop {
            let mut message = self.next();
            if message["id"] == self.number {
                assert!(message["error"].is_null(), "{method}: {message:#}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    fn next(&self) -> Value {
        self.read.recv_timeout(TIMEOUT).expect("the browser answers")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
