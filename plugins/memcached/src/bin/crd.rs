//! Prints the CRD of `Memcached`: `cargo run -p memcached --features crd --bin crd`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let definition = memcached::crd::definition()?;
    println!("# Generated from plugins/memcached/src/api.rs by `just crds`; change it there.");
    print!("{}", serde_saphyr::to_string(&definition)?);
    Ok(())
}
