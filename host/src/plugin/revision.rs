//! A component, loaded and found good: what a slot holds and what a call runs.
//!
//! ```text
//! bytes ─▶ size ─▶ outside ─▶ cache or compile ─▶ load ─▶ link ─▶ describe ─▶ Revision
//!                (contract.rs)   (compile.rs)                   (in the sandbox)
//! ```
//!
//! A `Revision` never changes. Whoever has one may call it, also after another was published.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use super::bindings::Linked;
use super::call;
use super::candidate::Candidate;
use super::compile::Compiler;
use super::contract;
use super::descriptor;
use super::engine::Engine;
use super::limits::Limits;
use super::native::Native;
use super::threads::Lane;
use crate::decision::Descriptor;
use crate::error::LoadError;

/// The SHA-256 of a component. Displayed by its first 12 digits, which people compare.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// All 64 hexadecimal digits.
    pub fn full(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(6).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.full())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for Digest {
    type Err = &'static str;

    /// All 64 digits, with or without `sha256:` before them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = "a digest has 64 hexadecimal digits";
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        if digits.len() != 64 {
            return Err(error);
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| error)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| error)?;
        }
        Ok(Self(digest))
    }
}

/// A loaded component.
pub struct Revision {
    digest: Digest,
    descriptor: Descriptor,
    limits: Arc<Limits>,
    cases: Box<[u8]>,
    pub(super) engine: Engine,
    pub(super) lane: Lane,
    pub(super) linked: Arc<Linked>,
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revision({} {} {})", self.descriptor.name, self.descriptor.version, self.digest)
    }
}

impl Revision {
    /// Loads a component completely, up to a successful `describe`.
    ///
    /// # Errors
    /// The first thing that is wrong with it. Nothing is left behind but what is cached.
    pub async fn load(
        engine: &Engine,
        compiler: &Compiler,
        candidate: Candidate,
        limits: Limits,
    ) -> Result<Revision, LoadError> {
        let limits = Arc::new(limits);
        let lane = engine.threads().lane();
        let accepted = Arc::clone(&limits);
        let inspected = run(engine, lane, move || Inspected::new(candidate, &accepted)).await??;
        let component = inspected.component(engine, compiler, lane, &limits).await?;
        let linked = Linked::new(engine.linker(), &component)
            .map(Arc::new)
            .map_err(|error| LoadError::LoadFailed(words(&error)))?;
        let descriptor = call::describe(engine, lane, &linked, &limits)
            .await
            .map_err(|failed| LoadError::DescribeFailed(failed.to_string()))?;
        let descriptor = descriptor::validate(descriptor).map_err(LoadError::DescribeFailed)?;
        Ok(Revision {
            digest: inspected.candidate.digest(),
            descriptor,
            limits,
            cases: inspected.cases().into(),
            engine: engine.clone(),
            lane,
            linked,
        })
    }

    /// Keeps its native code in the cache, where others that are loaded would push it out while it is at work.
    pub fn note_used(&self, compiler: &Compiler) {
        Native::new(&self.engine, compiler, &self.digest).note_used();
    }

    /// The same component under other limits. Those that hold for its size and its compilation it has
    /// passed already.
    pub fn under(self: &Arc<Self>, limits: &Limits) -> Arc<Revision> {
        if *self.limits == *limits {
            return self.clone();
        }
        Arc::new(Revision {
            digest: self.digest,
            descriptor: self.descriptor.clone(),
            limits: Arc::new(limits.clone()),
            cases: self.cases.clone(),
            engine: self.engine.clone(),
            lane: self.lane,
            linked: self.linked.clone(),
        })
    }

    /// The SHA-256 of the component's bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What it says of itself, validated.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// What it may use.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// The self-test cases that it carries, a JSON array; empty where there are none.
    pub fn cases(&self) -> &[u8] {
        &self.cases
    }
}

/// Bytes that look like a plugin from outside.
struct Inspected {
    candidate: Candidate,
    cases: Range<usize>,
}

impl Inspected {
    fn new(candidate: Candidate, limits: &Limits) -> Result<Self, LoadError> {
        let (size, limit) = (candidate.bytes().len() as u64, limits.component_bytes.0);
        if size > limit {
            return Err(LoadError::TooLarge { size, limit });
        }
        let cases = contract::inspect(candidate.bytes(), limits)?.cases;
        Ok(Self { candidate, cases })
    }

    fn cases(&self) -> &[u8] {
        self.candidate.bytes().get(self.cases.clone()).unwrap_or_default()
    }

    /// From the cache, or else compiled.
    async fn component(
        &self,
        engine: &Engine,
        compiler: &Compiler,
        lane: Lane,
        limits: &Limits,
    ) -> Result<Component, LoadError> {
        let native = Native::new(engine, compiler, &self.candidate.digest());
        let (cached, most) = (native.clone(), limits.native_bytes);
        if let Some(component) = run(engine, lane, move || cached.cached(most)).await? {
            return Ok(component);
        }
        let code = compiler.compile(self.candidate.bytes(), limits, engine.threads().others()).await?;
        run(engine, lane, move || native.compiled(&code)).await?
    }
}

async fn run<T: Send + 'static>(
    engine: &Engine,
    lane: Lane,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LoadError> {
    let stopped = |_| LoadError::LoadFailed("the host is shutting down".to_owned());
    engine.threads().run(lane, work).await.map_err(stopped)
}

fn words(error: &wasmtime::Error) -> String {
    super::text::clean(format!("{error:#}"), 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_shown_short_and_read_whole() {
        let digest = Digest::of(b"");
        assert_eq!(digest.to_string(), "e3b0c44298fc");
        assert_eq!(digest.full().parse(), Ok(digest));
        assert_eq!(format!("sha256:{}", digest.full()).parse(), Ok(digest));
        assert!("e3b0".parse::<Digest>().is_err());
        assert!("+".repeat(64).parse::<Digest>().is_err());
    }
}
