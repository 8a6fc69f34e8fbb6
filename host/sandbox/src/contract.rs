//! Inspects a component from the outside before it is compiled: whether it is a component, what it imports, for which
//! version of the contract it was built, and which cases it carries.
//!
//! `hotshoe build` does the same inspection as the loader, so that a component that is built can be loaded.

use std::ops::Range;

use wasmparser::component_types::{ComponentEntityType, ComponentInstanceTypeId};
use wasmparser::types::{Types, TypesRef};
use wasmparser::{Encoding, Parser, Payload, Validator, WasmFeatures};

use crate::bindings::CONTRACTS;
use crate::error::LoadError;
use hotshoe_core::model::limits::{Limits, Size};
use hotshoe_platform::candidate::{NotAComponent, begins_like_a_component};

/// The package of the contract, without its version.
const PACKAGE: &str = "hotshoe:reconciler";
/// The interface that a plugin exports.
const EXPORT: &str = "hotshoe:reconciler/reconciler";
/// The only interface with functions that a plugin may import.
const IMPORT: &str = "hotshoe:reconciler/log";
/// The custom section that holds self-test cases, a JSON array.
pub const CASES: &str = "hotshoe:cases";
/// The maximum number of forbidden imports that an error names.
const MAX_NAMED_IMPORTS: usize = 8;
/// The number of bytes by which a data segment counts as a declaration, whatever its content.
const SEGMENT_BYTES: u64 = 8;

/// Inspects a component from the outside.
///
/// # Errors
/// If it is too large or no component, declares too much, imports what a plugin may not have, or was built for another
/// version of the contract.
pub fn inspect<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Outside<'a>, LoadError> {
    let (size, limit) = (bytes.len() as u64, limits.component_bytes.0);
    if size > limit {
        return Err(LoadError::TooLarge { size, limit });
    }
    begins_like_a_component(bytes)?;
    let (types, outside) = read(bytes, limits)?;
    check_versions(&outside)?;
    let types = types.as_ref();
    check_imports(types, &outside.imports)?;
    match outside.exports.iter().any(|name| unversioned(name) == EXPORT) {
        true => Ok(outside),
        false => Err(LoadError::NoPlugin(listed(&outside.exports))),
    }
}

/// The parts of a component that are visible from the outside.
#[derive(Debug, Default)]
pub struct Outside<'a> {
    /// The names of what it imports.
    pub imports: Vec<&'a str>,
    /// The names of what it exports.
    pub exports: Vec<&'a str>,
    /// The range of the custom section of self-test cases; empty if there is none.
    pub cases: Range<usize>,
}

/// Validates everything but the bodies of functions, which the compiler validates. Collects the names of the outermost
/// imports and exports.
fn read<'a>(bytes: &'a [u8], limits: &Limits) -> Result<(Types, Outside<'a>), LoadError> {
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let mut outside = Outside::default();
    let mut declared = Declared::default();
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(broken)?;
        // Before the validator stores the declarations.
        declared.add(&payload, limits)?;
        match &payload {
            Payload::Version { encoding: Encoding::Component | Encoding::Module, .. } => depth += 1,
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section.clone() {
                    outside.imports.push(import.map_err(broken)?.name.name);
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section.clone() {
                    outside.exports.push(export.map_err(broken)?.name.name);
                }
            }
            Payload::CustomSection(section) if depth == 1 && section.name() == CASES => {
                within("its cases", section.data().len() as u64, limits.case_bytes)?;
                outside.cases = section.data_offset()..section.data_offset() + section.data().len();
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let wasmparser::ValidPayload::End(types) = validator.payload(&payload).map_err(broken)?
            && depth == 0
        {
            return Ok((types, outside));
        }
    }
    // Unreachable: the parser ends every file with an end or an error.
    Ok((Validator::new().validate_all(bytes).map_err(broken)?, outside))
}

fn broken(error: wasmparser::BinaryReaderError) -> LoadError {
    NotAComponent(clean(&error.to_string())).into()
}

/// The size of a component's declarations so far, in bytes, including those of nested components.
#[derive(Default)]
struct Declared {
    all: u64,
    types: u64,
}

impl Declared {
    fn add(&mut self, payload: &Payload<'_>, limits: &Limits) -> Result<(), LoadError> {
        let Some((_, section)) = payload.as_section() else { return Ok(()) };
        let bytes = section.len() as u64;
        self.all += match payload {
            // The content of nested modules and components is counted separately; the rest is copied without parsing.
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => 0,
            Payload::CodeSectionStart { .. } | Payload::CustomSection(_) => 0,
            Payload::DataSection(segments) => SEGMENT_BYTES * u64::from(segments.count()),
            _ => bytes,
        };
        if let Payload::TypeSection(_) | Payload::CoreTypeSection(_) | Payload::ComponentTypeSection(_) = payload {
            self.types += bytes;
        }
        within("its types", self.types, limits.type_bytes)?;
        within("its declarations", self.all, limits.declaration_bytes)
    }
}

fn within(what: &str, bytes: u64, limit: Size) -> Result<(), LoadError> {
    if bytes <= limit.0 {
        return Ok(());
    }
    Err(LoadError::TooComplex(format!("{what} take more than {limit}, which grows with limits.componentBytes")))
}

/// Checks the imports. Types may come from any interface, because they do nothing. Of everything else, only `log` may
/// be imported.
fn check_imports(types: TypesRef<'_>, imports: &[&str]) -> Result<(), LoadError> {
    let forbidden: Vec<_> = imports.iter().filter_map(|name| Some((*name, forbidden(types, name)?))).collect();
    match forbidden.as_slice() {
        [] => Ok(()),
        [(_, function)] => Err(LoadError::ForbiddenImport(clean(function))),
        several => {
            let named: Vec<&str> = several.iter().take(MAX_NAMED_IMPORTS).map(|(name, _)| *name).collect();
            let more = match several.len().saturating_sub(MAX_NAMED_IMPORTS) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Err(LoadError::ForbiddenImport(clean(&named.join(", ")) + &more))
        }
    }
}

/// Returns the name of an import, if a plugin may not have it; of an interface, with the name of its first function.
fn forbidden(types: TypesRef<'_>, name: &str) -> Option<String> {
    match types.component_item_for_import(name).map(|item| item.ty) {
        Some(ComponentEntityType::Instance(_)) if unversioned(name) == IMPORT => None,
        Some(ComponentEntityType::Instance(id)) => first_function(types, id).map(|inner| format!("{name}#{inner}")),
        Some(ComponentEntityType::Type { .. }) => None,
        _ => Some(name.to_owned()),
    }
}

/// Returns the name of the first item in an imported interface that is no type.
fn first_function(types: TypesRef<'_>, instance: ComponentInstanceTypeId) -> Option<&str> {
    let exports = types.get(instance)?.exports.iter();
    exports
        .filter(|(_, item)| !matches!(item.ty, ComponentEntityType::Type { .. }))
        .map(|(name, _)| name.as_str())
        .next()
}

fn check_versions(outside: &Outside<'_>) -> Result<(), LoadError> {
    let names = outside.imports.iter().chain(&outside.exports);
    let ours = names.filter(|name| unversioned(name).split('/').next() == Some(PACKAGE));
    let other = ours.filter_map(|name| name.split_once('@')).find(|(_, version)| !is_compatible(version));
    match other {
        None => Ok(()),
        Some((_, version)) => Err(LoadError::ContractMismatch {
            needs: clean(&format!("{PACKAGE}@{version}")),
            offers: CONTRACTS.join(" and "),
        }),
    }
}

/// Returns whether the linker treats a version as one that this host offers: with the same major version, or below 1.0
/// with the same minor version.
fn is_compatible(version: &str) -> bool {
    let track = |version: &str| {
        let mut parts = version.split('.').map(str::to_owned);
        match parts.next() {
            Some(zero) if zero == "0" => (zero, parts.next()),
            major => (major.unwrap_or_default(), None),
        }
    };
    CONTRACTS.iter().any(|offered| track(version) == track(offered))
}

fn unversioned(name: &str) -> &str {
    name.split_once('@').map_or(name, |(name, _)| name)
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => "nothing".to_owned(),
        names => clean(&names.join(", ")),
    }
}

fn clean(text: &str) -> String {
    hotshoe_core::model::sanitize::clean(text.to_owned(), 500)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspected(wat: &str) -> Result<(), String> {
        inspect(&wat::parse_str(wat).unwrap(), &Limits::default()).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn bytes_that_are_no_component_are_recognised() {
        let message = |bytes: &[u8]| inspect(bytes, &Limits::default()).unwrap_err().to_string();
        assert!(message(b"").contains("empty"));
        assert!(message(b"#!/bin/sh").contains("does not begin"));
        assert!(message(b"\x7fELF....").contains("native code"));
        assert!(message(b"\0asm").contains("cut off"));
        assert!(message(&wat::parse_str("(module)").unwrap()).contains("core module"));
        let whole = wat::parse_str("(component (core module $m (func)) (core instance (instantiate $m)))").unwrap();
        for length in 8..whole.len() {
            assert!(inspect(&whole[..length], &Limits::default()).is_err(), "{length} of {} bytes", whole.len());
        }
    }

    #[test]
    fn too_many_declarations_are_refused_wherever_they_are() {
        let types = |count: usize| "(type (func (param i32 i64) (result f64)))".repeat(count);
        let many = "(import \"a\" \"a long name\" (func))".repeat(100_000);
        for (wat, message) in [
            (format!("(component (core module {}))", types(60_000)), "its types take more than"),
            (
                format!("(component (component (component (core module {}))))", types(60_000)),
                "its types take more than",
            ),
            (
                format!("(component {})", "(core type (func (param i32 i64 i32)))".repeat(60_000)),
                "its types take more than",
            ),
            (format!("(component {})", "(type (tuple u8 u16 u32 u64))".repeat(60_000)), "its types take more than"),
            (format!("(component (core module {many}))"), "its declarations take more than"),
            (
                format!("(component (core module (memory 1) {}))", "(data \"a\")".repeat(200_000)),
                "its declarations take more than",
            ),
        ] {
            let error = inspect(&wat::parse_str(&wat).unwrap(), &Limits::default()).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
        assert!(
            inspected(&format!("(component (core module {}))", types(10_000))).unwrap_err().contains("exports nothing")
        );
    }

    /// A component with a custom section of that name and so many bytes.
    fn with_section(name: &str, length: usize) -> Vec<u8> {
        let data = "x".repeat(length);
        wat::parse_str(format!("(component (@custom \"{name}\" \"{data}\"))")).unwrap()
    }

    #[test]
    fn cases_that_take_too_much_are_refused_before_they_are_read() {
        let limit = Limits::default().case_bytes.bytes();
        let error = |name, length| inspect(&with_section(name, length), &Limits::default()).unwrap_err().to_string();
        assert!(error(CASES, limit + 1).contains("its cases take more than 1Mi"));
        assert!(error(CASES, limit).contains("exports nothing"));
        assert!(error("producers", limit + 1).contains("exports nothing"));
    }

    #[test]
    fn code_and_data_are_no_declarations() {
        let data = format!("(data \"{}\")", "x".repeat(2_000_000));
        let code = format!("(func {})", "nop ".repeat(2_000_000));
        let error = inspected(&format!("(component (core module {data} {code}))"));
        assert!(error.unwrap_err().contains("exports nothing"));
    }

    #[test]
    fn a_component_without_the_contract_is_no_plugin() {
        assert!(inspected("(component)").unwrap_err().contains("the component exports nothing"));
    }

    #[test]
    fn a_forbidden_function_is_named() {
        let error = inspected(
            r#"(component (import "wasi:clocks/wall-clock@0.2.0" (instance (export "now" (func (result u64))))))"#,
        );
        let error = error.unwrap_err();
        assert!(error.contains("imports wasi:clocks/wall-clock@0.2.0#now"), "{error}");
        assert!(error.contains("build it without WASI"), "{error}");
        let error = inspected(r#"(component (import "exec" (func)))"#).unwrap_err();
        assert!(error.contains("imports exec,") && !error.contains("WASI"), "{error}");
    }

    #[test]
    fn of_many_forbidden_imports_the_first_are_named() {
        let import = |number| format!("(import \"wasi:cli/i{number}@0.2.9\" (instance (export \"f\" (func))))");
        let imports: String = (0..MAX_NAMED_IMPORTS + 3).map(import).collect();
        let error = inspected(&format!("(component {imports})")).unwrap_err();
        assert!(error.contains("imports wasi:cli/i0@0.2.9, wasi:cli/i1@0.2.9, "), "{error}");
        assert!(error.contains("wasi:cli/i7@0.2.9 and 3 more, which a plugin may not have"), "{error}");
        assert!(error.contains("jco") && error.contains("componentize-py") && error.contains("--stub-wasi"), "{error}");
    }

    #[test]
    fn an_interface_of_types_may_be_imported() {
        let error = inspected(
            r#"(component (import "hotshoe:reconciler/types@0.1.0" (instance
                (type (enum "a")) (export "verb" (type (eq 0))))))"#,
        );
        assert!(error.unwrap_err().contains("exports nothing"));
    }

    #[test]
    fn another_version_of_the_contract_is_named() {
        let error = inspected(r#"(component (import "hotshoe:reconciler/log@2.0.0" (instance)))"#).unwrap_err();
        assert_eq!(
            error,
            "plugin needs hotshoe:reconciler@2.0.0, this host offers 0.1.0 and 0.2.0; \
             build it again with an SDK for one of these, or keep the host that it ran on"
        );
    }

    #[test]
    fn versions_are_compatible_as_the_linker_sees_them() {
        assert!(["0.1.0", "0.1.7", "0.2.0", "0.2.1"].into_iter().all(is_compatible));
        assert!(!["0.3.0", "0.20.0", "1.1.0", ""].into_iter().any(is_compatible));
    }
}
