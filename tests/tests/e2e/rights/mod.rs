//! What the accounts of host and plugins may do, and what a grant allows.

mod granted;
mod identity;
mod namespaces;
