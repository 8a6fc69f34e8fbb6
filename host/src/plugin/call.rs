//! stub
use crate::decision::*;
/// o
pub struct Outcome { /// r
 pub result: Result<Answer, Failure>, /// l
 pub logs: Vec<LogLine>, /// e
 pub elapsed: std::time::Duration }
/// l
pub struct LogLine { /// l
 pub level: Level, /// m
 pub message: String }
/// l
#[derive(Clone,Copy)] pub enum Level { /// l
 Trace, /// l
 Debug, /// l
 Info, /// l
 Warn, /// l
 Error }
