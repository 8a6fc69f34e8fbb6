//! Makes the objects of a built interpreter immortal. Their references are not counted, so a call that only reads them
//! does not write to their memory pages, which all calls then share. `hotshoe/snapshot.py` of the SDK says more.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use wasmparser::{DataKind, Operator, Parser, Payload};

/// The reference count of an immortal object, in 32 bits (`_Py_IMMORTAL_INITIAL_REFCNT`, Python 3.14). The count is the
/// first member of an object.
const IMMORTAL: u32 = 5 << 28;
/// An upper bound of the reference count of any object that is not immortal, exclusive.
const MAX_COUNT: u32 = 1 << 28;

/// Makes the objects at these addresses immortal, in the initial memory of a component. An address has 32 bits.
///
/// # Errors
/// If the bytes are no component, or these are not the addresses of its objects.
pub(super) fn write(component: &mut [u8], addresses: &[u8]) -> anyhow::Result<()> {
    let memory = Memory::of(component)?;
    let (addresses, _) = addresses.as_chunks();
    let mut written = 0;
    for address in addresses {
        let count = memory.at(u32::from_le_bytes(*address)).and_then(|at| component.get_mut(at..)?.first_chunk_mut());
        let Some(count) = count else { continue };
        if (1..MAX_COUNT).contains(&u32::from_le_bytes(*count)) {
            *count = IMMORTAL.to_le_bytes();
            written += 1;
        }
    }
    ensure!(written > addresses.len() / 2, "the objects of the SDK's snapshot are not in the component");
    Ok(())
}

/// The segments of the initial memory: where each lies in the component, by the address at which it begins.
struct Memory(BTreeMap<u32, std::ops::Range<usize>>);

impl Memory {
    /// Reads the segments of the only module that has a memory of its own and fills it.
    fn of(component: &[u8]) -> anyhow::Result<Self> {
        let mut segments = BTreeMap::new();
        let mut has_memory = false;
        for payload in Parser::new(0).parse_all(component) {
            match payload.context("componentize-py made no component")? {
                Payload::Version { .. } => has_memory = false,
                Payload::MemorySection(_) => has_memory = true,
                Payload::DataSection(section) if has_memory => {
                    for segment in section {
                        let segment = segment?;
                        if let Some(address) = address(&segment.kind)? {
                            segments.insert(address, segment.range.end - segment.data.len()..segment.range.end);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(Self(segments))
    }

    /// Returns where the number at this address lies in the component, if a segment has it.
    fn at(&self, address: u32) -> Option<usize> {
        let (begin, range) = self.0.range(..=address).next_back()?;
        let at = range.start + usize::try_from(address - begin).ok()?;
        (at + size_of::<u32>() <= range.end).then_some(at)
    }
}

fn address(kind: &DataKind<'_>) -> anyhow::Result<Option<u32>> {
    let DataKind::Active { offset_expr, .. } = kind else { return Ok(None) };
    match offset_expr.get_operators_reader().read()? {
        Operator::I32Const { value } => Ok(Some(value.cast_unsigned())),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component() -> Vec<u8> {
        let objects = r#"(data (i32.const 256) "\02\00\00\00aaaa\00\00\00\70bbbb\01\00\00\00cccc")"#;
        wat::parse_str(format!("(component (core module (memory 1) {objects}))")).unwrap()
    }

    fn addresses(addresses: &[u32]) -> Vec<u8> {
        addresses.iter().flat_map(|address| address.to_le_bytes()).collect()
    }

    #[test]
    fn objects_at_their_addresses_are_immortal_and_nothing_else_changes() {
        let mut bytes = component();
        write(&mut bytes, &addresses(&[256, 264, 272, 4096])).unwrap_err();
        let mut bytes = component();
        write(&mut bytes, &addresses(&[256, 264, 272])).unwrap();
        let text = bytes.windows(24).any(|window| window == b"\0\0\0\x50aaaa\0\0\0\x70bbbb\0\0\0\x50cccc");
        assert!(text, "{bytes:?}");
        assert_eq!(bytes.len(), component().len());
    }

    #[test]
    fn addresses_of_another_build_are_an_error() {
        assert!(write(&mut component(), &addresses(&[0, 1, 2])).is_err());
        assert!(write(&mut b"no component".to_vec(), &[]).is_err());
    }
}
