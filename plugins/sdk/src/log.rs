//! Lines for the host's log, which tags them with the plugin, its digest and the parent.
//!
//! ```
//! hotshoe_sdk::info!("{} of {} replicas are ready", 1, 3);
//! ```
//!
//! The host bounds the number and size of the lines of one call. A line has no effect on the
//! decision, and a call that the host skips as already answered writes none.

/// The level of a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    /// Every step.
    Trace,
    /// For the author of the plugin.
    Debug,
    /// For an administrator who follows the log.
    Info,
    /// A person may have to act.
    Warn,
    /// A person has to act.
    Error,
}

/// Writes one line.
#[cfg(target_family = "wasm")]
pub fn write(level: Level, message: &str) {
    crate::guest::log(level, message);
}

/// Writes one line: to the test that captures this thread's lines, or else to standard error.
#[cfg(not(target_family = "wasm"))]
pub fn write(level: Level, message: &str) {
    native::write(level, message);
}

#[cfg(not(target_family = "wasm"))]
pub use native::capture;

#[cfg(not(target_family = "wasm"))]
mod native {
    use std::cell::RefCell;

    use super::Level;

    type Lines = Vec<(Level, String)>;

    thread_local! {
        static CAPTURED: RefCell<Option<Lines>> = const { RefCell::new(None) };
    }

    /// Runs `work`, and returns its result and the lines that it wrote on this thread.
    pub fn capture<T>(work: impl FnOnce() -> T) -> (T, Vec<(Level, String)>) {
        CAPTURED.set(Some(Vec::new()));
        let result = work();
        (result, CAPTURED.take().unwrap_or_default())
    }

    pub(super) fn write(level: Level, message: &str) {
        CAPTURED.with_borrow_mut(|captured| match captured {
            Some(lines) => lines.push((level, message.to_owned())),
            None => eprintln!("{level:?}: {message}"),
        });
    }
}

/// Writes a line at level trace, formatted as by [`format!`].
#[macro_export]
macro_rules! trace {
    ($($message:tt)+) => { $crate::log::write($crate::log::Level::Trace, &::std::format!($($message)+)) };
}

/// Writes a line at level debug, formatted as by [`format!`].
#[macro_export]
macro_rules! debug {
    ($($message:tt)+) => { $crate::log::write($crate::log::Level::Debug, &::std::format!($($message)+)) };
}

/// Writes a line at level info, formatted as by [`format!`].
#[macro_export]
macro_rules! info {
    ($($message:tt)+) => { $crate::log::write($crate::log::Level::Info, &::std::format!($($message)+)) };
}

/// Writes a line at level warn, formatted as by [`format!`].
#[macro_export]
macro_rules! warn {
    ($($message:tt)+) => { $crate::log::write($crate::log::Level::Warn, &::std::format!($($message)+)) };
}

/// Writes a line at level error, formatted as by [`format!`].
#[macro_export]
macro_rules! error {
    ($($message:tt)+) => { $crate::log::write($crate::log::Level::Error, &::std::format!($($message)+)) };
}
