//! What a parent shows: its status, its conditions, and what tools make of them.

mod kstatus;
mod memcached;
mod unserved;
