#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hotshoe_fuzz::ownership(bytes));
