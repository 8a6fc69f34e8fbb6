//! The host from outside, on a real control plane. All tests are in one binary, so that tests that wait do so in
//! parallel. The tests that run one after the other, in `alone`, take longest; their name begins with `a` so that they
//! start first.
//!
//! | folder | subject |
//! |---|---|
//! | `alone/` | tests that change the whole control plane: outages, another set of rights, a host for all namespaces in its image |
//! | `backup.rs` | what the backup plugin does, seen by a plain client |
//! | `bundle.rs` | the bundle for the Operator Lifecycle Manager, by the Operator Framework's own validators |
//! | `certificates.rs` | the host's own CA of its webhooks, and their registration by the host |
//! | `chart/` | the Helm chart, rendered and installed by the real Helm |
//! | `chosen_cluster.rs` | which cluster the recipes act on |
//! | `conversion.rs` | objects in several versions of their kind |
//! | `deletion/` | finalizers, clean-ups |
//! | `dev.rs` | `hotshoe dev`, from a save to an active component |
//! | `docs/` | what the README and the book say |
//! | `explain.rs` | `hotshoe explain`: why an object is as it is |
//! | `failures/` | plugins and writes that fail, how that is reported and tried again |
//! | `fields/` | which fields of a child are written, and whose they are |
//! | `fleet/` | a host that follows `Plugin` objects |
//! | `host/` | the host as a process: restarts, configuration, ports, reports, timers |
//! | `hostile/` | a plugin that attacks, beside a healthy one |
//! | `languages.rs` | plugins in JavaScript and Python that validate, fill in defaults and convert |
//! | `lease/` | several hosts share the work |
//! | `memcached/` | what the Memcached plugin does, row by row |
//! | `memcached_versions.rs` | objects of each version of Memcached, and a host that comes after one of another version |
//! | `monitoring/` | what a real Prometheus sees of a host: metrics, alerts, the dashboard |
//! | `new.rs` | projects of `hotshoe new`, from nothing to Pods that run |
//! | `nginx.rs` | what the plugins of `NginxServer` do |
//! | `ownership/` | children of others, of a former parent and of a former plugin |
//! | `parents/` | kinds of parents: built-in, cluster-scoped, selected by labels; names, and many of them |
//! | `redis/` | what the Redis plugin does |
//! | `registry/` | components in a real registry, beside other clients of it |
//! | `release/` | what a release has, each part installed from its file and used |
//! | `report.rs` | `hotshoe report`: the page of a host, and how a browser shows it |
//! | `rights/` | what the accounts of host and plugins may do, and what a grant allows |
//! | `rollout/` | another component is activated, compared, or rolled back |
//! | `samples.rs` | what `hotshoe test` says of samples and of filled-in defaults |
//! | `scorecard.rs` | what the scorecard of the Operator SDK asks, of every plugin |
//! | `status/` | what a parent shows |
//! | `verdicts.rs` | what `hotshoe test` says of objects by their CRD, beside the API server |
//! | `waiting/` | an API server that keeps the host waiting |

mod admission;
mod admission_by_code;
mod admission_failing;
mod alone;
mod backup;
mod bundle;
mod certificates;
mod chart;
mod chosen_cluster;
mod closed_loop;
mod cluster_test;
mod conversion;
mod deletion;
mod dev;
mod docs;
mod examples;
mod explain;
mod failures;
mod fields;
mod fleet;
mod host;
mod hostile;
mod languages;
mod lease;
mod memcached;
mod memcached_versions;
mod monitoring;
mod new;
mod nginx;
mod ownership;
mod parents;
mod plan;
mod redis;
mod registry;
mod release;
mod report;
mod rights;
mod rollout;
mod samples;
mod scorecard;
mod simulated;
mod status;
mod verdicts;
mod waiting;
