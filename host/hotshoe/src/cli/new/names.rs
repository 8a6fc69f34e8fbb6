//! The names of a new plugin and of its kind, and their checks against the rules of Kubernetes and of the languages.

use anyhow::{bail, ensure};

use hotshoe_cluster::discovery;
use hotshoe_core::check::parent_kind::ParentKind;
use hotshoe_core::model::kind::Kind;
use hotshoe_core::model::names;
use hotshoe_operator::config::RESERVED_NAMES;

/// The version of the kind, if none is given.
pub(super) const DEFAULT_VERSION: &str = "v1alpha1";
/// The domain of the API group, if none is given.
pub(super) const DEFAULT_DOMAIN: &str = "example.com";

/// API groups of Kubernetes that have no dot in their names.
const OF_KUBERNETES: [&str; 5] = ["apps", "autoscaling", "batch", "extensions", "policy"];

/// Names that a plugin cannot have, because a language, its tools or the SDK's own dependencies use them.
const RESERVED: &str = "abstract alloc and as assert async await become box break build case catch class const continue core crate \
    debugger def default del delete deps do dyn elif else enum eval except export extends extern false final finally fn for from \
    function gen global hotshoe-sdk if impl import in incremental instanceof interface is json lambda let loop macro match mod \
    move mut new node-modules none nonlocal not null or override package pass priv private proc-macro protected pub public pytest \
    raise ref return schemars self serde serde-json static std struct super switch test tests this throw trait true try type typeof \
    unsafe unsized use var virtual void where while wit wit-world with yield componentize-py";

/// The names of a new plugin and of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// The plugin: a DNS label.
    pub(super) plugin: String,
    /// The first part of the API group, as in Kubebuilder; of a kind that exists already, the plugin's name. Samples are
    /// named after it.
    pub(super) group: String,
    /// The whole API group; empty for the core group.
    pub(super) api_group: String,
    pub(super) version: String,
    pub(super) kind: String,
    /// The plural of the kind, which may differ from the derived one.
    pub(super) plural: String,
}

impl Names {
    /// Returns the names of a plugin whose parents are of a kind that exists already.
    pub(super) fn existing(plugin: &str, kind: &Kind) -> Self {
        Self {
            plugin: plugin.to_owned(),
            group: plugin.to_owned(),
            api_group: kind.group.to_string(),
            version: kind.version.to_string(),
            kind: kind.kind.to_string(),
            plural: discovery::conventional(kind).plural,
        }
    }

    pub(super) fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// Returns a note if the first part of the API group is a group of Kubernetes, which the whole is not.
    pub(super) fn note(&self) -> Option<String> {
        OF_KUBERNETES.contains(&self.group.as_str()).then(|| {
            format!(
                "note: {} is a new API group, and not Kubernetes' own {}; for a plugin whose parents are objects of \
                 Kubernetes itself, name their kind with --parent",
                self.api_group, self.group
            )
        })
    }

    /// Checks the names of a new kind together; each by itself is valid already.
    ///
    /// # Errors
    /// Why the API server or a host would refuse the kind.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let group = &self.api_group;
        ensure!(names::is_group(group), "the API group {group} has more than 253 characters; take a shorter one");
        let parent = ParentKind {
            group: group.clone(),
            kind: self.kind.clone(),
            selector: None,
            annotation_selector: None,
            namespaces: None,
        };
        if let Err(why) = parent.validate() {
            bail!("no plugin may serve {why}");
        }
        let is_protected =
            ["k8s.io", "kubernetes.io"].iter().any(|own| group == own || group.ends_with(&format!(".{own}")));
        ensure!(
            parent.is_custom() && !is_protected,
            "the API group {group} belongs to Kubernetes itself; take a domain of your own with --domain"
        );
        Ok(())
    }
}

pub(super) fn api_group(group: &str, domain: &str) -> String {
    if group.is_empty() { domain.to_owned() } else { format!("{group}.{domain}") }
}

/// Checks the name of a plugin. A folder, a crate or module, a ServiceAccount and a label have the same name.
pub(super) fn plugin(name: &str) -> Result<String, String> {
    if !names::is_label(name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Err(
            "a plugin's name is a DNS label that begins with a letter: at most 63 lower-case letters, digits and `-` \
                    between them, such as my-cache"
                .to_owned(),
        );
    }
    if RESERVED_NAMES.contains(&name) {
        return Err(format!("{name} is reserved for the host, which takes no plugin of this name; take another name"));
    }
    if RESERVED.split_whitespace().any(|word| word == name) {
        return Err(format!("{name} is a reserved word of a language or a tool; take another name"));
    }
    Ok(name.to_owned())
}

/// Checks the first part of an API group.
pub(super) fn group(group: &str) -> Result<String, String> {
    let is_valid = names::is_subdomain(group) && group.split('.').all(names::is_label);
    is_valid.then(|| group.to_owned()).ok_or_else(|| {
        "a group is a DNS name of lower-case letters, digits, `-` and `.`, such as cache; with the domain it makes the API group"
            .to_owned()
    })
}

/// Checks the rest of an API group.
pub(super) fn domain(domain: &str) -> Result<String, String> {
    let is_valid = names::is_subdomain(domain) && domain.split('.').all(names::is_label) && domain.contains('.');
    is_valid
        .then(|| domain.to_owned())
        .ok_or_else(|| "a domain is a DNS name with a dot in it, such as example.com".to_owned())
}

/// Checks a version, such as v1 or v2beta1.
pub(super) fn version(version: &str) -> Result<String, String> {
    let number =
        |text: &str| !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    let rest = version.strip_prefix('v').unwrap_or_default();
    let has_form = match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => number(major) && number(minor),
        None => number(rest),
    };
    let is_valid = has_form && names::is_version(version);
    is_valid.then(|| version.to_owned()).ok_or_else(|| "a version is one such as v1, v1alpha1 or v2beta1".to_owned())
}

/// Returns the version that usually follows: v1beta1 after v1alpha1, v1 after that, and v2 after that.
pub(super) fn next_version(version: &str) -> String {
    let major = |text: &str| text.trim_start_matches('v').parse::<u64>().unwrap_or(1);
    match (version.split_once("alpha"), version.split_once("beta")) {
        (Some((major, _)), _) => format!("{major}beta1"),
        (None, Some((major, _))) => major.to_owned(),
        (None, None) => format!("v{}", major(version).saturating_add(1)),
    }
}

/// Checks a kind.
pub(super) fn kind(kind: &str) -> Result<String, String> {
    // Its list is a kind too, with `List` appended, and a kind has 63 characters at most.
    let is_valid = names::is_kind(kind) && kind.len() <= 59;
    is_valid.then(|| kind.to_owned()).ok_or_else(|| {
        "a kind begins with a capital letter and has letters and digits only, such as MyCache".to_owned()
    })
}

/// Checks the plural of a kind.
pub(super) fn plural(plural: &str) -> Result<String, String> {
    let is_valid = names::is_label(plural) && plural.starts_with(|first: char| first.is_ascii_lowercase());
    is_valid
        .then(|| plural.to_owned())
        .ok_or_else(|| "a plural has lower-case letters, digits and `-` between them, such as caches".to_owned())
}

/// Derives a kind from a plugin's name: my-cache becomes MyCache.
pub(super) fn kind_of(plugin: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        format!("{}{rest}", first.to_ascii_uppercase())
    };
    plugin.split('-').map(capital).collect()
}

/// Derives the plural of a kind, by the same rule as hosts that cannot ask a cluster.
pub(super) fn plural_of(kind: &str) -> String {
    discovery::conventional(&Kind::new("example.com", "v1", kind)).plural
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_followed_by_a_more_stable_one() {
        for (version, next) in [("v1alpha1", "v1beta1"), ("v2alpha3", "v2beta1"), ("v1beta2", "v1"), ("v9", "v10")] {
            assert_eq!(next_version(version), next);
            assert_eq!(self::version(next).as_deref(), Ok(next));
        }
    }

    fn names(group: &str, domain: &str) -> Names {
        Names {
            plugin: "cache".into(),
            group: group.into(),
            api_group: api_group(group, domain),
            version: DEFAULT_VERSION.into(),
            kind: "Cache".into(),
            plural: "caches".into(),
        }
    }

    #[test]
    fn a_group_that_is_called_like_one_of_kubernetes_is_noted_as_another_one() {
        assert!(names("apps", "example.com").note().unwrap().contains("apps.example.com is a new API group"));
        assert_eq!(names("cache", "example.com").note(), None);
    }

    #[test]
    fn the_name_of_a_plugin_is_a_label_and_no_reserved_word() {
        for good in ["a", "my-cache", "nginx2", &"a".repeat(63)] {
            assert_eq!(plugin(good), Ok(good.to_owned()));
        }
        for bad in ["", "My-Cache", "my_cache", "2cache", "-a", "a-", "a.b", "a/b", "../a", "ä", &"a".repeat(64)] {
            assert!(plugin(bad).unwrap_err().contains("DNS label"), "{bad}");
        }
        for reserved in ["self", "class", "import", "serde-json", "test", "hotshoe-sdk", "yield", "componentize-py"] {
            assert!(plugin(reserved).unwrap_err().contains("reserved word"), "{reserved}");
        }
        for reserved in RESERVED_NAMES {
            assert!(plugin(reserved).unwrap_err().contains("reserved for the host"), "{reserved}");
        }
    }

    #[test]
    fn kinds_groups_domains_and_versions_are_those_of_kubernetes() {
        assert!(kind("MyCache2").is_ok() && group("cache").is_ok() && group("a.b").is_ok() && plural("caches").is_ok());
        for bad in ["cache", "", "My-Cache", "MyCäche", "2Cache", &"A".repeat(60)] {
            assert!(kind(bad).is_err(), "{bad}");
        }
        for bad in ["", "Cache", "a..b", "-a", "a_b", &"a".repeat(64)] {
            assert!(group(bad).is_err() && plural(bad).is_err(), "{bad}");
        }
        assert!(domain("example.com").is_ok());
        for bad in ["com", "", "Example.com", "example.com.", "*.example.com"] {
            assert!(domain(bad).is_err(), "{bad}");
        }
        for good in ["v1", "v10", "v1alpha1", "v2beta3"] {
            assert!(version(good).is_ok(), "{good}");
        }
        for bad in ["", "1", "v", "v0", "v1alpha", "v1gamma1", "V1", "v1alpha1beta1", "v1.2"] {
            assert!(version(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn groups_of_kubernetes_and_of_the_host_are_refused() {
        assert!(names("cache", "example.com").check().is_ok());
        for (group, domain, words) in [
            ("apps", "k8s.io", "belongs to Kubernetes itself"),
            ("a", "kubernetes.io", "belongs to Kubernetes itself"),
            ("", "hotshoe.dev", "no plugin may serve"),
            (&*"a.".repeat(124), "example.com", "more than 253 characters"),
        ] {
            let error = names(group.trim_end_matches('.'), domain).check().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_kind_and_its_plural_are_derived() {
        assert_eq!((kind_of("my-cache").as_str(), kind_of("nginx").as_str()), ("MyCache", "Nginx"));
        assert_eq!((plural_of("MyCache").as_str(), plural_of("Gateway").as_str()), ("mycaches", "gateways"));
    }
}
