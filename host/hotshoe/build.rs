//! How the binary is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A binary that may be loaded anywhere relocates itself at its start: by a list of 1.3 MB that stays
    // resident, or by one of a few kilobytes. musl understands the short one since 1.2.4; other C libraries
    // are left alone, where it would ask for a new one.
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|environment| environment == "musl") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
