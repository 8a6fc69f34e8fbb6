//! An API server that keeps the host waiting: requests that are never answered, kinds that cannot be listed, and
//! credentials that are dead.

mod conversion;
mod credentials;
mod hanging;
