//! Children of others, of a former parent and of a former plugin: which ones are taken over.

mod foreign;
mod orphans;
mod taken_over;
