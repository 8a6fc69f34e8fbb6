//! CustomResourceDefinitions made from types.
#![allow(dead_code, reason = "types whose schema alone is looked at")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::*;

/// The desired state.
#[derive(Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct CacheSpec {
    /// The number of servers.
    size: i32,
    /// May be left out.
    class: Option<String>,
    /// Key and value,
    /// on two lines.
    labels: BTreeMap<String, String>,
    /// Which one.
    mode: Mode,
    /// Perhaps.
    other_mode: Option<Mode>,
    plain_mode: Option<PlainMode>,
    /// Where to.
    target: Target,
    /// Where else to.
    more: Vec<Place>,
    /// A port.
    port: u16,
    /// A share.
    #[schemars(range(min = 0.0, max = 1.0))]
    share: f64,
    /// Anything.
    anything: serde_json::Value,
}

/// A mode.
#[derive(Default, Deserialize, JsonSchema, Serialize)]
enum Mode {
    /// With a comment.
    #[default]
    Fast,
    /// With another.
    Slow,
}

#[derive(Deserialize, JsonSchema, Serialize)]
enum PlainMode {
    On,
    Off,
}

#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
enum Target {
    File { path: String },
    Bucket { url: String, region: Option<String> },
}

impl Default for Target {
    fn default() -> Self {
        Self::File { path: String::new() }
    }
}

#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(tag = "kind")]
enum Place {
    Near { metres: u32 },
    Far { light_years: u64, label: String },
}

#[derive(JsonSchema)]
struct CacheStatus {
    ready: i32,
}

fn caches(version: Version) -> CustomResource {
    CustomResource::new("example.com", "Cache").version(version)
}

fn definition<Spec: JsonSchema>() -> Result<Value, Error> {
    caches(Version::of::<Spec, CacheStatus>("v1")).definition()
}

fn schema(definition: &Value, pointer: &str) -> Value {
    let root = "/spec/versions/0/schema/openAPIV3Schema/properties";
    definition.pointer(&format!("{root}{pointer}")).cloned().unwrap_or_default()
}

fn field(name: &str) -> Value {
    schema(&definition::<CacheSpec>().unwrap(), &format!("/spec/properties/{name}"))
}

#[test]
fn names_are_derived_from_the_kind_by_the_same_rule_as_in_the_host() {
    for (kind, plural) in [
        ("Memcached", "memcacheds"),
        ("NetworkPolicy", "networkpolicies"),
        ("Gateway", "gateways"),
        ("Ingress", "ingresses"),
        ("Box", "boxes"),
    ] {
        let version = Version::of::<CacheSpec, ()>("v1");
        let definition = CustomResource::new("example.com", kind).version(version).definition().unwrap();
        assert_eq!(definition["metadata"]["name"], format!("{plural}.example.com"));
        assert_eq!(definition["spec"]["names"]["listKind"], format!("{kind}List"));
    }
}

#[test]
fn a_definition_has_all_that_its_builder_was_given() {
    let version = Version::of::<CacheSpec, CacheStatus>("v1")
        .columns([Column::integer("Size", ".spec.size").wide(), Column::condition("Available"), Column::age()])
        .scale(Scale::new(".spec.size", ".status.ready").selector(".status.selector"))
        .deprecated("use v2");
    let resource = caches(version).plural("cachen").singular("ca").short_names(["c"]).categories(["all"]);
    let definition = resource.cluster_scoped().description("A cache.").definition().unwrap();
    let spec = &definition["spec"];
    assert_eq!(spec["scope"], "Cluster");
    assert_eq!(
        spec["names"],
        json!({ "kind": "Cache", "listKind": "CacheList", "plural": "cachen", "singular": "ca", "shortNames": ["c"], "categories": ["all"] })
    );
    let version = &spec["versions"][0];
    assert_eq!(version["additionalPrinterColumns"][0]["priority"], 1);
    assert_eq!(
        version["additionalPrinterColumns"][1]["jsonPath"],
        r#".status.conditions[?(@.type=="Available")].status"#
    );
    assert_eq!(version["subresources"]["scale"]["labelSelectorPath"], ".status.selector");
    assert_eq!((&version["deprecated"], &version["deprecationWarning"]), (&json!(true), &json!("use v2")));
    assert_eq!(version["schema"]["openAPIV3Schema"]["description"], "A cache.");
}

#[test]
fn the_first_version_is_stored_unless_another_is() {
    let version = |name| Version::of::<CacheSpec, ()>(name);
    let stored = |resource: &CustomResource| -> Vec<Value> {
        let definition = resource.definition().unwrap();
        definition["spec"]["versions"].as_array().unwrap().iter().map(|version| version["storage"].clone()).collect()
    };
    assert_eq!(stored(&caches(version("v1")).version(version("v2"))), [true, false]);
    assert_eq!(stored(&caches(version("v1").not_served()).version(version("v2").stored())), [false, true]);
}

#[test]
fn a_version_that_the_plugin_converts_is_not_served_before_a_host_is_there() {
    let version = |name| Version::of::<CacheSpec, ()>(name);
    let same = caches(version("v1")).version(version("v1alpha1")).definition().unwrap();
    assert_eq!(same["spec"]["conversion"], json!({ "strategy": "None" }));
    assert_eq!(same["metadata"]["annotations"], Value::Null);
    let others = caches(version("v1")).version(version("v2").converted()).version(version("v3").converted());
    let others = others.definition().unwrap();
    assert_eq!(others["metadata"]["annotations"], json!({ "hotshoe.dev/served-by-conversion": "v2,v3" }));
    assert_eq!(others["spec"]["conversion"], Value::Null, "an apply leaves what a host has set");
    let served: Vec<_> = others["spec"]["versions"].as_array().unwrap().iter().map(|one| &one["served"]).collect();
    assert_eq!(served, [&json!(true), &json!(false), &json!(false)]);
}

#[test]
fn names_and_versions_that_the_api_server_would_refuse_are_named() {
    let version = || Version::of::<CacheSpec, ()>("v1");
    let resource = |group: &str, kind: &str| CustomResource::new(group, kind).version(version());
    for (resource, words) in [
        (resource("example", "Cache"), "the group name \"example\""),
        (resource("Example.com", "Cache"), "the group name"),
        (resource("example.com", "cache"), "the kind name \"cache\""),
        (resource("example.com", "Ca-che"), "the kind name"),
        (resource("example.com", "Cache").plural("Caches"), "the plural name"),
        (resource("example.com", "Cache").short_names(["C"]), "the short name"),
        (CustomResource::new("example.com", "Cache"), "there is no version"),
        (resource("example.com", "Cache").version(version()), "the version v1 is there twice"),
        (caches(Version::of::<CacheSpec, ()>("V1")), "the version name"),
        (caches(version().stored()).version(Version::of::<CacheSpec, ()>("v2").stored()), "both stored"),
        (caches(version().converted()), "the version v1 is stored"),
    ] {
        let error = resource.definition().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn optional_and_commented_fields_keep_one_type() {
    assert_eq!(field("class"), json!({ "type": "string", "nullable": true, "description": "May be left out." }));
    assert_eq!(field("mode")["type"], "string");
    assert_eq!(field("mode")["enum"], json!(["Fast", "Slow"]));
    assert_eq!(field("mode")["oneOf"], Value::Null);
    let optional = field("otherMode");
    assert_eq!((&optional["type"], &optional["nullable"]), (&json!("string"), &json!(true)), "{optional:#}");
    assert_eq!(optional["enum"], json!(["Fast", "Slow"]));
    assert_eq!(field("plainMode"), json!({ "type": "string", "enum": ["On", "Off"], "nullable": true }));
    assert_eq!(field("labels")["additionalProperties"], json!({ "type": "string" }));
    assert_eq!(field("labels")["description"], "Key and value, on two lines.");
}

#[test]
fn enums_with_data_have_the_fields_of_all_variants() {
    let target = field("target");
    assert_eq!(target["type"], "object");
    assert_eq!(target["properties"]["file"]["properties"]["path"]["type"], "string");
    assert_eq!(target["properties"]["bucket"]["required"], json!(["url"]));
    assert_eq!(target["oneOf"], json!([{ "required": ["file"] }, { "required": ["bucket"] }]));
    let place = field("more")["items"].clone();
    assert_eq!(place["properties"]["kind"]["enum"], json!(["Near", "Far"]));
    assert_eq!(place["oneOf"][0]["properties"], json!({ "kind": { "enum": ["Near"] } }));
    assert_eq!(place["oneOf"][0]["required"], json!(["kind", "metres"]));
}

#[test]
fn numbers_are_whole_and_their_formats_known() {
    assert_eq!(field("port")["format"], "int32");
    assert_eq!((&field("port")["minimum"], &field("port")["maximum"]), (&json!(0), &json!(65535)));
    assert_eq!((&field("share")["minimum"], &field("share")["maximum"]), (&json!(0), &json!(1)));
    assert_eq!(field("more")["items"]["properties"]["light_years"]["format"], "int64");
    assert_eq!(field("size")["format"], "int32");
}

#[test]
fn a_field_of_any_type_keeps_unknown_fields() {
    let anything = field("anything");
    assert_eq!(anything["x-kubernetes-preserve-unknown-fields"], true);
    assert_eq!(anything["default"], Value::Null, "null is no default");
}

#[test]
fn a_spec_whose_fields_all_have_defaults_may_be_left_out() {
    #[derive(JsonSchema)]
    struct Strict {
        size: i32,
    }
    let (lax, strict) = (definition::<CacheSpec>().unwrap(), definition::<Strict>().unwrap());
    let required = "/spec/versions/0/schema/openAPIV3Schema/required";
    assert_eq!(schema(&lax, "/spec/default"), json!({}));
    assert_eq!(lax.pointer(required), None);
    assert_eq!(schema(&strict, "/spec/default"), Value::Null);
    assert_eq!(strict.pointer(required), Some(&json!(["spec"])));
}

#[test]
fn a_status_requires_nothing_and_has_conditions_as_a_map() {
    for definition in [definition::<CacheSpec>(), caches(Version::of::<CacheSpec, ()>("v1")).definition()] {
        let status = schema(&definition.unwrap(), "/status");
        assert_eq!((&status["type"], &status["required"]), (&json!("object"), &Value::Null));
        assert_eq!(status["properties"]["conditions"]["x-kubernetes-list-map-keys"], json!(["type"]));
        assert_eq!(status["properties"]["observedGeneration"]["format"], "int64");
        assert_eq!(status["default"], json!({ "observedGeneration": -1 }), "nothing was decided about it yet");
    }
}

#[test]
fn a_status_keeps_what_its_type_says_of_the_observed_generation() {
    /// The observed state.
    #[derive(JsonSchema)]
    #[schemars(rename_all = "camelCase", extend("default" = { "word": "new" }))]
    struct Described {
        /// The generation that the word is about.
        #[schemars(range(min = -1))]
        observed_generation: i64,
        word: String,
    }
    #[derive(JsonSchema)]
    #[schemars(rename_all = "camelCase", extend("default" = { "observedGeneration": 0 }))]
    struct Plain {
        observed_generation: i64,
    }
    let status = |version| schema(&caches(version).definition().unwrap(), "/status");
    let described = status(Version::of::<CacheSpec, Described>("v1"));
    let own = "The generation that the word is about.";
    assert_eq!(
        described["properties"]["observedGeneration"],
        json!({ "type": "integer", "format": "int64", "minimum": -1, "description": own })
    );
    assert_eq!(described["default"], json!({ "word": "new", "observedGeneration": -1 }));
    let plain = status(Version::of::<CacheSpec, Plain>("v1"));
    let filled_in = "The metadata.generation that was decided about last.";
    assert_eq!(
        plain["properties"]["observedGeneration"],
        json!({ "type": "integer", "format": "int64", "description": filled_in })
    );
    assert_eq!(plain["default"], json!({ "observedGeneration": 0 }));
}

#[test]
fn rules_and_overlays_are_added_at_their_path() {
    let version = Version::of::<CacheSpec, CacheStatus>("v1")
        .rule("", Rule::new("has(self.spec)"))
        .rule("spec.size", Rule::new("self > 0").message("too small").field(".size"))
        .rule("spec.size", Rule::new("self < 9").message_expression("string(self)"))
        .overlay("spec.more[].metres", json!({ "maximum": 5 }));
    let definition = caches(version).definition().unwrap();
    let rules = schema(&definition, "/spec/properties/size/x-kubernetes-validations");
    assert_eq!(
        rules,
        json!([
            { "rule": "self > 0", "message": "too small", "fieldPath": ".size" },
            { "rule": "self < 9", "messageExpression": "string(self)" },
        ])
    );
    assert_eq!(schema(&definition, "/spec/properties/more/items/properties/metres/maximum"), json!(5));
    let whole = definition.pointer("/spec/versions/0/schema/openAPIV3Schema/x-kubernetes-validations");
    assert_eq!(whole, Some(&json!([{ "rule": "has(self.spec)" }])));
    let wrong = caches(Version::of::<CacheSpec, ()>("v1").rule("spec.sice", Rule::new("true"))).definition();
    assert!(wrong.unwrap_err().to_string().starts_with("spec.sice: there is no such field"));
}

#[test]
fn types_without_a_structural_schema_are_named_with_their_path() {
    #[derive(JsonSchema)]
    struct Recursive {
        next: Vec<Recursive>,
    }
    #[derive(JsonSchema)]
    struct Tuple {
        pair: Option<(i32, String)>,
    }
    #[derive(JsonSchema)]
    struct Mixed {
        mixed: MixedEnum,
    }
    #[derive(JsonSchema)]
    enum MixedEnum {
        Plain,
        Data { text: String },
    }
    #[derive(JsonSchema)]
    struct Unknown {
        #[schemars(extend("patternProperties" = {"a": {}}))]
        odd: i32,
    }
    for (made, words) in [
        (definition::<Recursive>(), "spec.next[]: its type contains itself"),
        (definition::<Tuple>(), "spec.pair: it is a tuple"),
        (definition::<Mixed>(), "spec.mixed: its type is sometimes an object"),
        (definition::<Unknown>(), "spec.odd: its schema says `patternProperties`"),
    ] {
        let error = made.unwrap_err().to_string();
        assert!(error.starts_with(words), "{error}");
    }
}
