//! stub
use std::sync::Arc; use crate::decision::*; use crate::error::*; use super::{call::Outcome, engine::Engine, compile::Compiler, limits::Limits};
/// d
#[derive(Clone,Copy,PartialEq,Eq,Debug)] pub struct Digest([u8;32]);
impl Digest { /// o
 pub fn of(_: &[u8]) -> Self { Self([0;32]) } /// s
 pub fn short(&self) -> String { String::new() } /// b
 pub fn as_bytes(&self) -> &[u8] { &self.0 } }
impl std::fmt::Display for Digest { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("x") } }
/// r
pub struct Revision { /// d
 pub digest: Digest, /// d
 pub descriptor: Descriptor }
impl Revision { /// l
 pub async fn load(_: &Engine, _: &Compiler, _: Vec<u8>, _: Limits) -> Result<Self, LoadError> { Err(LoadError::NotAComponent("stub".into())) }
 /// d
 pub async fn decide(&self, _: Call, _: Arc<Observation>) -> Result<Outcome, CallError> { Err(CallError::Stopped) }
 /// r
 pub async fn rehearse(&self) -> Result<(), CallError> { Ok(()) } }
