//! stub
use crate::error::LoadError;
/// s
pub struct Source; impl Source { /// n
 pub fn new(_: Vec<std::path::PathBuf>, _: usize) -> Self { Self } /// n
 pub async fn next(&mut self) -> Result<Vec<u8>, LoadError> { std::future::pending().await } /// r
 pub fn read_now(&mut self) -> Result<Vec<u8>, LoadError> { Ok(vec![]) } }
