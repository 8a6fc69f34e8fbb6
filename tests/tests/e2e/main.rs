//! The host from outside, on a real control plane. All tests are in one binary, so that tests that wait do so in
//! parallel. The tests that run one after the other, in `alone`, take longest; their name begins with `a` so that they
//! start first.
//!
//! | folder | subject |
//! |---|---|
//! | `alone/` | tests that change the whole control plane: outages, another set of rights, a host for all namespaces in its image |
//! | `backup.rs` | what the backup plugin does, seen by a plain client |
//! | `chosen_cluster.rs` | which cluster the recipes act on |
//! | `docs/` | what the README and the book say |
//! | `fleet/` | a host that follows `Plugin` objects |
//! | `host/` | the host as a process: many objects, restarts, configuration, broken plugins |
//! | `kinds/` | kinds of parents: built-in, cluster-scoped, selected by labels; and children that are taken over |
//! | `hostile/` | a plugin that attacks, beside a healthy one |
//! | `javascript.rs` | errors of a plugin in JavaScript |
//! | `lease/` | several hosts share the work |
//! | `memcached/` | what the Memcached plugin does, row by row |
//! | `new.rs` | projects of `hotshoe new`, from nothing to Pods that run |
//! | `nginx.rs` | what the plugins of `NginxServer` do |
//! | `python.rs` | errors of a plugin in Python |
//! | `redis/` | what the Redis plugin does |
//! | `registry/` | components in a real registry, beside other clients of it |
//! | `rollout/` | another component is activated, compared, or rolled back |
//! | `waiting/` | an API server that keeps the host waiting |

mod alone;
mod backup;
mod chosen_cluster;
mod docs;
mod faults;
mod fleet;
mod host;
mod hostile;
mod javascript;
mod kinds;
mod lease;
mod memcached;
mod new;
mod nginx;
mod python;
mod redis;
mod registry;
mod rollout;
mod waiting;
