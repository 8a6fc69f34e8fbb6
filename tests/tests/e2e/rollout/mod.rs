//! Another component while the host runs. Each test has a host of its own, which watches a namespace of its own.

mod activation;
mod blocked;
mod canary;
mod failing_few;
mod followed;
mod reload;
mod rollback;
mod shadow;
mod stored;
