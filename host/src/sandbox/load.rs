//! Loads native code into the process: from the cache, or from the compiler and then into the cache. Runs on a decision
//! thread, for it reads files and verifies megabytes.

use std::sync::Arc;

use wasmtime::component::Component;

use crate::sandbox::code_cache::{CodeCache, Purpose};
use crate::sandbox::compile::Compiler;
use crate::sandbox::engine::Engine;
use crate::sandbox::error::LoadError;
use hotshoe_core::model::digest::Digest;
use hotshoe_core::model::limits::Size;
use hotshoe_core::model::sanitize;

/// The native code of one component for one engine.
#[derive(Clone)]
pub(super) struct Native {
    engine: wasmtime::Engine,
    cache: Option<Arc<CodeCache>>,
    digest: Digest,
    name: Arc<str>,
    purpose: Purpose,
}

impl Native {
    /// Names the code. That of a revision that is to be active stays in the cache for as long as this lives.
    pub(super) fn new(engine: &Engine, compiler: &Compiler, digest: &Digest, purpose: Purpose) -> Self {
        let name = format!("{}-{:016x}", digest.full(), engine.settings()).into();
        let cache = compiler.cache();
        if let (Some(cache), Purpose::Activation) = (&cache, purpose) {
            cache.pin(&name);
        }
        Self { engine: engine.wasm().clone(), cache, digest: *digest, name, purpose }
    }

    /// Loads the code from the cache, if it has at most `most` bytes. Code that is intact but does not load is removed.
    pub(super) fn cached(&self, most: Size) -> Option<Component> {
        let cache = self.cache.as_ref()?;
        let code = cache.get(&self.name, most, self.purpose)?;
        match deserialize(&self.engine, &code) {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(digest = %self.digest, directory = %cache.dir().display(), %error, "cached code cannot be loaded; compiling again");
                cache.remove(&self.name);
                None
            }
        }
    }

    /// Loads code from the compiler, and caches it once it has loaded.
    ///
    /// # Errors
    /// If the compiler has another version than this process.
    pub(super) fn compiled(&self, code: &[u8]) -> Result<Component, LoadError> {
        let component = deserialize(&self.engine, code)
            .map_err(|error| LoadError::LoadFailed(sanitize::clean(format!("{error:#}"), 1_000)))?;
        if let Some(cache) = &self.cache
            && let Err(error) = cache.put(&self.name, code, self.purpose)
        {
            tracing::warn!(
                digest = %self.digest, directory = %cache.dir().display(), %error,
                "a compiled component cannot be cached, and will be compiled again at the next start: let the host write the directory, make room on its volume, or give it another one with --cache"
            );
        }
        Ok(component)
    }
}

fn deserialize(engine: &wasmtime::Engine, code: &[u8]) -> wasmtime::Result<Component> {
    #[expect(
        unsafe_code,
        reason = "the bytes are native code. They come from two places only: the pipe of a child process of this \
                  binary, or a file that carries a MAC by a key which only this user can read, verified over this \
                  very buffer. wasmtime checks that its version and settings fit"
    )]
    // SAFETY: as above, the bytes were made by `Engine::precompile_component`.
    unsafe {
        Component::deserialize(engine, code)
    }
}
