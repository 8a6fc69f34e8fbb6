//! Loads native code into the process: maps it from the cache, or takes it from the compiler and caches it. Runs on a
//! decision thread, because it reads files and verifies megabytes.

use std::fs;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wasmtime::component::Component;

use crate::bindings::Linked;
use crate::code_cache::{CodeCache, Purpose, VerifiedCode};
use crate::error::LoadError;
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
    /// Names the code by the component and the engine's `settings`. The code of a revision that is to be active stays
    /// in the cache until this is dropped.
    pub(super) fn new(
        (engine, settings): (&wasmtime::Engine, u64),
        cache: Option<Arc<CodeCache>>,
        digest: &Digest,
        purpose: Purpose,
    ) -> Self {
        let name = format!("{}-{settings:016x}", digest.full()).into();
        if let (Some(cache), Purpose::Activation) = (&cache, purpose) {
            cache.pin(&name);
        }
        Self { engine: engine.clone(), cache, digest: *digest, name, purpose }
    }

    /// Loads the code from the cache, if it has at most `most` bytes. Intact code that cannot be loaded is removed.
    pub(super) fn cached(&self, most: Size) -> Option<Code> {
        let cache = self.cache.as_ref()?;
        let code = cache.get(&self.name, most, self.purpose)?;
        // The file may be readable and yet not mappable: some volumes are mounted `noexec`.
        let loaded = map(&self.engine, &code).or_else(|_| copy(&self.engine, &code.read()?));
        match loaded {
            Ok(loaded) => Some(loaded),
            Err(error) => {
                tracing::warn!(digest = %self.digest, directory = %cache.dir().display(), %error, "cached code cannot be loaded; compiling again");
                cache.remove(&self.name);
                None
            }
        }
    }

    /// Loads code from the compiler, and caches it if that succeeds. The cached file is mapped then, and the copy in
    /// memory is dropped.
    ///
    /// # Errors
    /// If the compiler has another version than this process.
    pub(super) fn compiled(&self, code: &[u8]) -> Result<Code, LoadError> {
        let loaded = copy(&self.engine, code)
            .map_err(|error| LoadError::LoadFailed(sanitize::clean(format!("{error:#}"), 1_000)))?;
        let Some(cache) = &self.cache else { return Ok(loaded) };
        if let Err(error) = cache.put(&self.name, code, self.purpose) {
            tracing::warn!(
                digest = %self.digest, directory = %cache.dir().display(), %error,
                "a compiled component cannot be cached, and will be compiled again at the next start: \
                 let the host write the directory, make room on its volume, or give it another one with --cache"
            );
            return Ok(loaded);
        }
        Ok(self.cached(Size(code.len() as u64)).unwrap_or(loaded))
    }
}

/// Native code in the process.
pub(super) enum Code {
    /// Mapped from a file in the cache.
    Mapped(Component),
    /// In memory only.
    Copied(Component),
}

impl Code {
    pub(super) fn component(&self) -> &Component {
        match self {
            Self::Mapped(component) | Self::Copied(component) => component,
        }
    }
}

/// The mapped code of a process.
#[derive(Default)]
pub(super) struct MappedCode(Mutex<Vec<Weak<Linked>>>);

impl MappedCode {
    /// Notes where code was linked, if it is mapped.
    pub(super) fn add(&self, loaded: &Code, linked: &Arc<Linked>) {
        let mut mapped = self.0.lock();
        mapped.retain(|linked| linked.strong_count() > 0);
        if matches!(loaded, Code::Mapped(_)) {
            mapped.push(Arc::downgrade(linked));
        }
    }

    /// Unmaps the pages of all mapped code. To be called when no plugin was called for a while: mapped pages count as
    /// resident, and the kernel keeps executed pages longer than all other pages of files. The next call maps the pages
    /// that it executes again, in some microseconds.
    pub(super) fn unmap_pages(&self) {
        self.0.lock().iter().filter_map(Weak::upgrade).for_each(|linked| unmap_pages(linked.component()));
    }
}

/// Maps verified code. Fails where the cache's volume allows no execution, and where there is no `/proc`.
fn map(engine: &wasmtime::Engine, code: &VerifiedCode) -> wasmtime::Result<Code> {
    #[expect(
        unsafe_code,
        reason = "the file is native code. It carries a MAC by a key which only this user can read, verified over this \
                  very open file, which the host replaces and never writes in place. Another process that could write to it \
                  could read the key in the same directory. wasmtime checks that its version and settings fit"
    )]
    // SAFETY: as above, the bytes were made by `Engine::precompile_component`, and do not change.
    unsafe {
        Component::deserialize_file(engine, code.path()).map(Code::Mapped)
    }
}

fn copy(engine: &wasmtime::Engine, code: &[u8]) -> wasmtime::Result<Code> {
    #[expect(
        unsafe_code,
        reason = "the bytes are native code. They come from two places only: the pipe of a child process of this \
                  binary, or a file that was verified as for `map`. wasmtime checks that its version and settings fit"
    )]
    // SAFETY: as above, the bytes were made by `Engine::precompile_component`.
    unsafe {
        Component::deserialize(engine, code).map(Code::Copied)
    }
}

#[cfg(target_os = "linux")]
fn unmap_pages(mapped: &Component) {
    let code = mapped.image_range();
    #[expect(
        unsafe_code,
        reason = "the range is a private mapping of a file, which wasmtime does not write to once it has loaded it, and \
                  which stays as long as the component: a page of it that is touched again has the same bytes"
    )]
    // SAFETY: as above. What is copied in memory is not in `MappedCode`.
    let unmapped = unsafe {
        let length = code.end.addr() - code.start.addr();
        rustix::mm::madvise(code.start.cast_mut().cast(), length, rustix::mm::Advice::LinuxDontNeed)
    };
    if let Err(error) = unmapped {
        tracing::debug!(%error, "the pages of idle code stay mapped");
    }
}

#[cfg(not(target_os = "linux"))]
fn unmap_pages(_: &Component) {}

/// Unmaps the pages of this program's own code, and so releases memory. To be called when no plugin was called for a
/// while: an idle host never executes again three quarters of the code that it executed at its start. A page that is
/// executed again is mapped again from the page cache.
#[cfg(target_os = "linux")]
pub(super) fn unmap_program() {
    let Some((start, length)) = fs::read_to_string("/proc/self/maps").ok().and_then(|maps| program(&maps)) else {
        return;
    };
    #[expect(
        unsafe_code,
        reason = "the range is a private mapping of this program's file that nothing may write to, and the program has no \
                  text relocations, so all of its pages are those of the file. The kernel refuses to write to the file of a \
                  running program: a page that is executed again has the same bytes"
    )]
    // SAFETY: as above.
    let unmapped = unsafe {
        let start = std::ptr::with_exposed_provenance_mut(start);
        rustix::mm::madvise(start, length, rustix::mm::Advice::LinuxDontNeed)
    };
    if let Err(error) = unmapped {
        tracing::debug!(%error, "the pages of the program stay mapped");
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn unmap_program() {}

/// Returns where the code of this program is mapped, and its length, by a memory map as in `/proc/self/maps`.
#[cfg(target_os = "linux")]
fn program(maps: &str) -> Option<(usize, usize)> {
    let here = (program as fn(&str) -> Option<(usize, usize)>) as usize;
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        // Another mapping than the linker's, such as one in large pages or one that a debugger has made writable, stays.
        (rest.starts_with("r-xp") && (start..end).contains(&here)).then_some((start, end - start))
    })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;
    use std::ops::Range;
    use std::path::Path;

    use wasmtime::Store;
    use wasmtime::component::Linker;

    use super::*;
    use crate::engine;
    use hotshoe_core::model::limits::CACHE_BYTES;

    const ANSWERS: &str = r#"(component
        (core module $m (func (export "f") (result i32) i32.const 42))
        (core instance $i (instantiate $m))
        (func (export "f") (result u32) (canon lift (core func $i "f"))))"#;

    fn native(base: &Path) -> Native {
        Native {
            engine: wasmtime::Engine::new(&engine::config()).unwrap(),
            cache: Some(Arc::new(CodeCache::open(base, CACHE_BYTES).unwrap())),
            digest: Digest::of(b"a"),
            name: "a".into(),
            purpose: Purpose::Activation,
        }
    }

    fn compile(native: &Native) -> Vec<u8> {
        native.engine.precompile_component(&wat::parse_str(ANSWERS).unwrap()).unwrap()
    }

    fn answer(native: &Native, component: &Component) -> u32 {
        let mut store = Store::new(&native.engine, ());
        store.set_epoch_deadline(1);
        let instance = Linker::new(&native.engine).instantiate(&mut store, component).unwrap();
        let function = instance.get_typed_func::<(), (u32,)>(&mut store, "f").unwrap();
        function.call(&mut store, ()).unwrap().0
    }

    /// Returns the resident kilobytes of the code and the file that they are mapped from, by the process's memory map.
    fn resident(component: &Component) -> (u64, String) {
        let code = component.image_range();
        resident_within(&(code.start.addr()..code.end.addr()))
    }

    fn resident_within(code: &Range<usize>) -> (u64, String) {
        let (mut file, mut sum, mut within) = (String::new(), 0, false);
        for line in fs::read_to_string("/proc/self/smaps").unwrap().lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let address = |hex| usize::from_str_radix(hex, 16).ok();
            if let Some((start, end)) = range.and_then(|(start, end)| Some((address(start)?, address(end)?))) {
                within = start < code.end && code.start < end;
                if within {
                    file = line.split_whitespace().nth(5).unwrap_or_default().to_owned();
                }
            } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| within) {
                sum += size.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
            }
        }
        (sum, file)
    }

    #[test]
    fn cached_code_is_mapped_and_answers_again_after_its_pages_were_unmapped() {
        let base = tempfile::tempdir().unwrap();
        let native = native(base.path());
        assert!(native.cached(Size(1 << 20)).is_none());
        for loaded in [native.compiled(&compile(&native)).unwrap(), native.cached(Size(1 << 20)).unwrap()] {
            assert!(matches!(loaded, Code::Mapped(_)));
            let component = loaded.component();
            assert_eq!(answer(&native, component), 42);
            let (size, file) = resident(component);
            assert!(size > 0 && file.ends_with("a.native"), "{size} of {file}");
            unmap_pages(component);
            assert_eq!(resident(component).0, 0);
            assert_eq!(answer(&native, component), 42);
        }
    }

    #[test]
    fn the_program_goes_on_after_its_pages_were_unmapped() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let (start, length) = program(&maps).unwrap();
        let code = start..start + length;
        let (before, file) = resident_within(&code);
        unmap_program();
        let (after, _) = resident_within(&code);
        assert!(after < before, "{after} and {before} kB of {file}");
        assert_eq!(Some(Path::new(&file)), std::env::current_exe().ok().as_deref());
        assert_eq!(program(&maps.replace("r-xp", "rwxp")), None);
    }

    #[test]
    fn code_that_cannot_be_stored_is_in_memory() {
        let base = tempfile::tempdir().unwrap();
        let native = native(base.path());
        fs::remove_dir_all(base.path()).unwrap();
        fs::write(base.path(), "no directory").unwrap();
        let loaded = native.compiled(&compile(&native)).unwrap();
        assert!(matches!(loaded, Code::Copied(_)));
        assert_eq!(answer(&native, loaded.component()), 42);
    }

    #[test]
    fn a_removed_file_stays_mapped() {
        let base = tempfile::tempdir().unwrap();
        let native = native(base.path());
        let loaded = native.compiled(&compile(&native)).unwrap();
        native.cache.as_ref().unwrap().remove("a");
        unmap_pages(loaded.component());
        assert_eq!(answer(&native, loaded.component()), 42);
    }
}
