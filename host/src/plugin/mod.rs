//! All contact with wasmtime and with plugin bytes.
