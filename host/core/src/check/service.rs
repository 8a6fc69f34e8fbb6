//! Checks that a Service asks only for an address inside the cluster, unless the grant allows more. Annotations for
//! load balancers and name servers are checked as well. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check::glob;
use crate::check::json_cursor::Cursor;
use crate::check::pod::addresses_a_program;
use crate::check::violation::{Checked, all};
use crate::model::kind::Kind;

/// What Services may ask for beyond an address inside the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct Services {
    /// Types beside `ClusterIP`: `NodePort`, `LoadBalancer`, `ExternalName`.
    pub types: Vec<String>,
    /// Addresses outside of the cluster, whose traffic the Service would draw to itself.
    #[serde(rename = "externalIPs")]
    pub external_ips: bool,
    /// The address or the class of a load balancer.
    pub load_balancer: bool,
    /// A certain address inside the cluster, rather than a free one.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: bool,
    /// Annotations whose key has a dot or a slash, such as `service.beta.kubernetes.io/*`: those mean something to
    /// another component, which may do for them what is denied here. One `*` in each.
    pub annotations: Vec<String>,
}

impl Services {
    /// Checks that the types of Services exist, and that the patterns of annotations are valid.
    ///
    /// # Errors
    /// When one is not; the message is for the administrator.
    pub fn validate(&self) -> Result<(), String> {
        if let Some(kind) = self.types.iter().find(|kind| !TYPES.contains(&kind.as_str())) {
            return Err(format!("services.types has {kind:?}; there are {}", TYPES.join(", ")));
        }
        glob::validate("services.annotations", &self.annotations)
    }
}

/// The types of Services.
const TYPES: [&str; 4] = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];

/// Fields of a Service's spec that are known to be harmless: none of them reaches out of the cluster.
const HARMLESS_FIELDS: [&str; 12] = [
    "allocateLoadBalancerNodePorts",
    "externalTrafficPolicy",
    "healthCheckNodePort",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "ports",
    "publishNotReadyAddresses",
    "selector",
    "sessionAffinity",
    "sessionAffinityConfig",
    "trafficDistribution",
];

/// Returns whether the kind is Service.
pub fn is_service(kind: &Kind) -> bool {
    kind.is("", "Service")
}

/// Checks that a Service asks for no more than the grant allows (`open`). Other kinds pass.
///
/// # Errors
/// When a field is not allowed. Lists these fields by their paths.
pub fn check(kind: &Kind, body: &Value, open: &Services) -> Checked {
    if !is_service(kind) {
        return Ok(());
    }
    let root = Cursor::root(body);
    let annotations = root.child("metadata")?.map_or(Ok(()), |metadata| check_annotations(&metadata, open));
    let Some(spec) = root.child("spec")? else { return annotations };
    let fields = all(spec.members()?.map(|(field, value)| check_field(field, &value, open)));
    all([annotations, fields])
}

fn check_annotations(metadata: &Cursor<'_>, open: &Services) -> Checked {
    let Some(annotations) = metadata.child("annotations")? else { return Ok(()) };
    all(annotations.members()?.map(|(key, value)| {
        let granted = !addresses_a_program(key) || glob::matches_any(&open.annotations, key);
        value.ensure_listed(granted, "service-annotation", "services.annotations", key)
    }))
}

fn check_field(field: &str, value: &Cursor<'_>, open: &Services) -> Checked {
    match field {
        "type" => {
            let wanted = value.text()?;
            let granted = wanted == "ClusterIP" || open.types.iter().any(|kind| kind == wanted);
            value.ensure_listed(granted, "service-type", "services.types", wanted)
        }
        "externalName" => {
            let granted = open.types.iter().any(|kind| kind == "ExternalName");
            value.ensure_listed(granted, "service-type", "services.types", "ExternalName")
        }
        "externalIPs" => value.ensure(open.external_ips, "service-external-ips", "services.externalIPs"),
        "loadBalancerIP" | "loadBalancerClass" | "loadBalancerSourceRanges" => {
            value.ensure(open.load_balancer, "service-load-balancer", "services.loadBalancer")
        }
        "clusterIP" => {
            value.ensure(is_unspecific(value.text()?) || open.cluster_ip, "service-cluster-ip", "services.clusterIP")
        }
        "clusterIPs" => all(value.elements()?.map(|element| {
            element.ensure(
                is_unspecific(element.text()?) || open.cluster_ip,
                "service-cluster-ip",
                "services.clusterIP",
            )
        })),
        field if HARMLESS_FIELDS.contains(&field) => Ok(()),
        _ => Err(value.unknown()),
    }
}

/// Returns whether a Service asks for no particular address: `None` makes it headless, and an empty string asks for a
/// free address.
fn is_unspecific(address: &str) -> bool {
    address.is_empty() || address == "None"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn broken(spec: &Value, open: &Value) -> Option<&'static str> {
        let open: Services = serde_json::from_value(open.clone()).unwrap();
        let service = Kind::new("", "v1", "Service");
        check(&service, &json!({ "spec": spec }), &open).err().map(|denial| denial.rule())
    }

    #[test]
    fn a_field_that_reaches_out_of_the_cluster_needs_its_own_item() {
        for (spec, rule, open) in [
            (json!({ "type": "NodePort" }), "service-type", json!({ "types": ["NodePort"] })),
            (json!({ "type": "LoadBalancer" }), "service-type", json!({ "types": ["NodePort", "LoadBalancer"] })),
            (json!({ "type": "ExternalName" }), "service-type", json!({ "types": ["ExternalName"] })),
            (json!({ "externalName": "x" }), "service-type", json!({ "types": ["ExternalName"] })),
            (json!({ "externalIPs": ["1.2.3.4"] }), "service-external-ips", json!({ "externalIPs": true })),
            (json!({ "loadBalancerIP": "1.2.3.4" }), "service-load-balancer", json!({ "loadBalancer": true })),
            (json!({ "loadBalancerClass": "x" }), "service-load-balancer", json!({ "loadBalancer": true })),
            (json!({ "loadBalancerSourceRanges": [] }), "service-load-balancer", json!({ "loadBalancer": true })),
            (json!({ "clusterIP": "10.0.0.10" }), "service-cluster-ip", json!({ "clusterIP": true })),
            (json!({ "clusterIPs": ["None", "10.0.0.10"] }), "service-cluster-ip", json!({ "clusterIP": true })),
        ] {
            assert_eq!(broken(&spec, &json!({})), Some(rule), "{spec}");
            assert_eq!(broken(&spec, &open), None, "{spec}");
            let mut others =
                json!({ "types": ["Other"], "externalIPs": true, "loadBalancer": true, "clusterIP": true });
            for item in open.as_object().unwrap().keys() {
                others.as_object_mut().unwrap().remove(item);
            }
            assert_eq!(broken(&spec, &others), Some(rule), "{spec} with all else open");
        }
    }

    #[test]
    fn an_annotation_that_other_controllers_act_on_is_opened_by_its_own_item() {
        let with = |metadata: Value, open: Services| {
            let service = Kind::new("", "v1", "Service");
            check(&service, &json!({ "metadata": metadata }), &open).err().map(|denial| denial.rule())
        };
        let annotated = |key: &str, open: Services| with(json!({ "annotations": { key: "x" } }), open);
        let opened = |pattern: &str| Services { annotations: vec![pattern.to_owned()], ..Services::default() };
        let everything_else = Services {
            types: vec!["LoadBalancer".into()],
            external_ips: true,
            load_balancer: true,
            cluster_ip: true,
            annotations: vec!["other/*".into()],
        };
        for key in [
            "metallb.universe.tf/loadBalancerIPs",
            "service.beta.kubernetes.io/aws-load-balancer-internal",
            "external-dns.alpha.kubernetes.io/hostname",
        ] {
            assert_eq!(annotated(key, Services::default()), Some("service-annotation"), "{key}");
            assert_eq!(annotated(key, everything_else.clone()), Some("service-annotation"), "{key}");
            assert_eq!(annotated(key, opened(key)), None, "{key}");
            assert_eq!(annotated(key, opened(&format!("{}/*", key.split_once('/').unwrap().0))), None, "{key}");
        }
        assert_eq!(annotated("note", Services::default()), None);
        assert_eq!(annotated("io.kubernetes.cri-o.Devices", Services::default()), Some("service-annotation"));
        assert_eq!(annotated("hotshoe.dev/applied", Services::default()), None, "it is the host that set it");
        assert_eq!(with(json!({ "labels": { "a.io/b": "c" } }), Services::default()), None);
        assert_eq!(with(json!("x"), Services::default()), Some("field-shape"));
        assert_eq!(with(json!({ "annotations": [] }), Services::default()), Some("field-shape"));
        assert_eq!(with(json!({ "Annotations": {} }), Services::default()), Some("field-unknown"));
        let error = opened("**").validate().unwrap_err();
        assert!(error.starts_with("services.annotations has"), "{error}");
        assert_eq!(opened("a/*").validate(), Ok(()));
    }

    #[test]
    fn an_ordinary_service_passes() {
        for spec in [
            json!({ "type": "ClusterIP", "selector": { "a": "b" }, "ports": [{ "port": 1 }], "sessionAffinity": "None" }),
            json!({ "clusterIP": "None", "clusterIPs": ["None"] }),
            json!({ "clusterIP": "", "clusterIPs": [""] }),
        ] {
            assert_eq!(broken(&spec, &json!({})), None, "{spec}");
        }
        for field in HARMLESS_FIELDS {
            assert_eq!(broken(&json!({ field: 1 }), &json!({})), None, "{field}");
        }
        let nothing = check(&Kind::new("", "v1", "Service"), &json!({}), &Services::default());
        assert!(nothing.is_ok());
    }

    #[test]
    fn unknown_fields_and_wrong_types_are_refused_by_name() {
        assert_eq!(broken(&json!({ "ExternalIPs": [] }), &json!({ "externalIPs": true })), Some("field-unknown"));
        assert_eq!(broken(&json!({ "type": 1 }), &json!({})), Some("field-shape"));
        assert_eq!(broken(&json!({ "clusterIP": null }), &json!({})), Some("field-shape"));
        assert_eq!(broken(&json!([]), &json!({})), Some("field-shape"));
        let misspelt = check(&Kind::new("", "v1", "Service"), &json!({ "SPEC": {} }), &Services::default());
        assert_eq!(misspelt.unwrap_err().rule(), "field-unknown");
    }

    #[test]
    fn other_kinds_are_no_services() {
        let body = json!({ "spec": { "type": "NodePort" } });
        for (group, kind) in [("serving.example.com", "Service"), ("", "ConfigMap")] {
            assert!(check(&Kind::new(group, "v1", kind), &body, &Services::default()).is_ok());
        }
    }
}
