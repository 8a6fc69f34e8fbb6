//! Makes a component that a host loads, with the plugin's cases in it, from what the tools of a language built.

use anyhow::{Context, bail};
use wasmparser::{Chunk, Parser, Payload};
use wit_component::ComponentEncoder;

use hotshoe_core::model::limits::Limits;
use hotshoe_sandbox::cases::Case;
use hotshoe_sandbox::contract;
use hotshoe_sandbox::contract::CASES;

/// A core module's first eight bytes; a component has another version.
const CORE_MODULE: [u8; 8] = *b"\0asm\x01\0\0\0";

/// Makes a component of a core module or takes one as it is, checks that a host can load it, and adds the cases.
pub(super) fn component(bytes: Vec<u8>, cases: &[Case], limits: &Limits) -> anyhow::Result<Vec<u8>> {
    let mut component = if bytes.starts_with(&CORE_MODULE) { encode(&bytes)? } else { bytes };
    contract::inspect(&component, limits)?;
    append_cases(&mut component, cases)?;
    Ok(component)
}

/// Returns a component with these cases in the place of those that it carries.
///
/// # Errors
/// If it is no component, or the cases are too large.
pub(in crate::cli) fn carrying(bytes: &[u8], cases: &[Case], limits: &Limits) -> anyhow::Result<Vec<u8>> {
    let mut component = without_cases(bytes)?;
    append_cases(&mut component, cases)?;
    contract::inspect(&component, limits)?;
    Ok(component)
}

/// Copies all sections of a component but that of cases.
fn without_cases(component: &[u8]) -> anyhow::Result<Vec<u8>> {
    let (mut parser, mut rest, mut kept) = (Parser::new(0), component, Vec::new());
    loop {
        let Chunk::Parsed { consumed, payload } = parser.parse(rest, true)? else { bail!("the component ends early") };
        let nested = match &payload {
            Payload::ModuleSection { unchecked_range, .. } | Payload::ComponentSection { unchecked_range, .. } => {
                unchecked_range.len()
            }
            Payload::End(_) => return Ok(kept),
            _ => 0,
        };
        let (section, after) = rest.split_at_checked(consumed + nested).context("the component ends early")?;
        if !matches!(&payload, Payload::CustomSection(section) if section.name() == CASES) {
            kept.extend(section);
        }
        rest = after;
    }
}

fn encode(core: &[u8]) -> anyhow::Result<Vec<u8>> {
    let encoded = ComponentEncoder::default().module(core).and_then(|encoder| encoder.validate(true).encode());
    encoded.context(
        "the core module cannot be made a component: it must be built against the world hotshoe:reconciler/plugin by \
         wit-bindgen, without WASI",
    )
}

fn append_cases(component: &mut Vec<u8>, cases: &[Case]) -> anyhow::Result<()> {
    if !cases.is_empty() {
        append_section(component, CASES, &serde_json::to_vec(cases)?);
    }
    Ok(())
}

/// Appends a custom section: the id 0, the size of all that follows, the size of the name, the name, and the data.
fn append_section(component: &mut Vec<u8>, name: &str, data: &[u8]) {
    let mut content = Vec::new();
    append_length(&mut content, name.len());
    content.extend(name.as_bytes());
    content.extend(data);
    component.push(0);
    append_length(component, content.len());
    component.extend(content);
}

/// Appends a length in LEB128.
fn append_length(bytes: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        bytes.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_found_again_by_the_loader() {
        for length in [0, 127, 128, 20_000] {
            let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
            append_section(&mut bytes, CASES, &vec![b'x'; length]);
            let error = contract::inspect(&bytes, &Limits::default()).unwrap_err();
            assert_eq!(
                error.reason().as_str(),
                "NoPlugin",
                "the section of {length} bytes spoils the component: {error}"
            );
        }
    }

    #[test]
    fn other_cases_take_the_place_of_those_that_a_component_carries_and_the_rest_stays() {
        let guest = hotshoe_components::Guest::default().component();
        let limits = Limits::default();
        let case = |name: &str| Case::from_yaml(&format!("name: {name}\nparent: {{}}\n")).unwrap();
        let (one, two) = ([case("a")], [case("b"), case("c")]);
        let carries = |cases: &[Case]| component(guest.clone(), cases, &limits).unwrap();
        assert_eq!(carrying(&carries(&one), &two, &limits).unwrap(), carries(&two));
        assert_eq!(carrying(&carries(&two), &[], &limits).unwrap(), guest);
        assert_eq!(carrying(&guest, &one, &limits).unwrap(), carries(&one));
        for end in [3, guest.len() / 2, guest.len() - 1] {
            assert!(carrying(&guest[..end], &one, &limits).is_err(), "{end} bytes");
        }
        let large = vec![case(&"x".repeat(limits.case_bytes.0 as usize))];
        let error = format!("{:#}", carrying(&guest, &large, &limits).unwrap_err());
        assert!(error.contains("its cases take more than"), "{error}");
    }

    #[test]
    fn a_module_without_the_world_is_refused_with_the_name_of_the_world() {
        let core = wat::parse_str(r#"(module (func (export "run")))"#).unwrap();
        let error = format!("{:#}", component(core, &[], &Limits::default()).unwrap_err());
        assert!(error.contains("hotshoe:reconciler"), "{error}");
    }
}
