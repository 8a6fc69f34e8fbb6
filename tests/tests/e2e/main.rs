//! The host from outside, on a real control plane. One binary, so that tests which wait do it side by side: the
//! longest chain, which begins with an `a`, is started first.
//!
//! | folder | what it is about |
//! |---|---|
//! | `alone/` | what changes the whole control plane: outages, another set of rights, a host for all namespaces in its image |
//! | `backup.rs` | what the backup plugin does, seen by a plain client |
//! | `chosen_cluster.rs` | which cluster the recipes act on |
//! | `docs/` | what the README and the book say |
//! | `fleet/` | a host that follows `Plugin` objects |
//! | `host/` | the host as a process: many objects, restarts, configuration, broken plugins |
//! | `kinds/` | kinds of parents: of Kubernetes itself, without a namespace, selected by labels; and children that are taken over |
//! | `hostile/` | a plugin that attacks, beside a healthy one |
//! | `javascript.rs` | what a plugin in JavaScript does wrong |
//! | `lease/` | several hosts share the work |
//! | `memcached/` | what the Memcached plugin does, row by row |
//! | `new.rs` | what `hotshoe new` makes, from nothing to Pods that run |
//! | `nginx.rs` | what the plugins of `NginxServer` do |
//! | `python.rs` | what is seen of a plugin in Python that fails |
//! | `redis/` | what the Redis plugin does |
//! | `registry/` | components in a real registry, beside other clients of it |
//! | `rollout/` | another component is activated, compared, or rolled back |

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
