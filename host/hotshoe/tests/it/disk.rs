//! Compiled code stays within the maximum size of the cache directory.

use std::fs;
use std::path::Path;

use crate::plugin_support::{Guest, HOTSHOE, engine, folder};
use hotshoe_core::check::memory_share::Account;
use hotshoe_core::model::limits::{Limits, Size};
use hotshoe_platform::candidate::Candidate;
use hotshoe_sandbox::code_cache::Purpose;
use hotshoe_sandbox::compile::Compiler;
use hotshoe_sandbox::error::LoadError;
use hotshoe_sandbox::revision::{Loaded, Revision};

const MIB: u64 = 1 << 20;
const CACHE_SIZE: Size = Size(12 * MIB);

/// A component with data of 1 MiB, which consists of this letter.
fn large(letter: char) -> Vec<u8> {
    let text = letter.to_string().repeat(MIB as usize);
    Guest { pages: 20, fields: format!(r#"(data (i32.const 131072) "{text}")"#), ..Guest::default() }.component()
}

async fn load(program: &str, base: &Path, bytes: &[u8], purpose: Purpose) -> Result<Loaded, LoadError> {
    let compiler = Compiler::new(program.into(), Some(base), CACHE_SIZE);
    let (component, limits, memory) = (Candidate::of(bytes.to_vec()), Limits::default(), Account::default());
    Revision::load(engine(), &compiler, component, limits, purpose, &memory).await
}

fn bytes_below(base: &Path) -> u64 {
    let entries = fs::read_dir(base.join("compiled")).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// Each trial leaves its code in the cache; without a bound, these would leave 12 MiB.
#[tokio::test]
async fn twelve_trials_neither_evict_active_code_nor_exceed_the_cache_limit() {
    let base = folder();
    let active = large('_');
    load(HOTSHOE, base.path(), &active, Purpose::Activation).await.unwrap();
    let tried: Vec<_> = ('a'..='l').map(large).collect();
    for component in &tried {
        load(HOTSHOE, base.path(), component, Purpose::Trial).await.unwrap();
        assert!(bytes_below(base.path()) <= 2 * CACHE_SIZE.0 / 3, "{}", bytes_below(base.path()));
    }
    load("/bin/false", base.path(), &active, Purpose::Activation).await.unwrap();
    assert!(load("/bin/false", base.path(), &tried[0], Purpose::Activation).await.is_err(), "it made room");
}
