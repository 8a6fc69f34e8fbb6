//! A version of a custom resource: the schema of its types, and how `kubectl` shows and scales it.

use schemars::JsonSchema;
use schemars::generate::Contract;
use serde_json::{Map, Value, json};

use super::members::insert;
use super::{Column, Error, conditions, schema};

/// A version of a custom resource.
#[derive(Clone, Debug)]
#[must_use]
pub struct Version {
    pub(super) name: String,
    pub(super) is_stored: bool,
    is_served: bool,
    pub(super) is_converted: bool,
    deprecation: Option<String>,
    spec: Value,
    status: Value,
    conditions: String,
    columns: Vec<Column>,
    scale: Option<Scale>,
    changes: Vec<(String, Change)>,
}

/// What is added to the schema at a path.
#[derive(Clone, Debug)]
enum Change {
    Overlay(Value),
    Rule(Rule),
}

impl Version {
    /// Builds a version with the schemas of these types for `spec` and `status`; a status without fields of the
    /// plugin's own is `()`. `kubectl explain` shows their doc comments. A list of conditions and, unless the type has
    /// it, the observed generation are added to the status.
    pub fn of<Spec: JsonSchema, Status: JsonSchema>(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            is_stored: false,
            is_served: true,
            is_converted: false,
            deprecation: None,
            spec: schema::of::<Spec>(Contract::Deserialize),
            status: schema::of::<Status>(Contract::Serialize),
            conditions: "What was found when the object was last decided about.".to_owned(),
            columns: Vec::new(),
            scale: None,
            changes: Vec::new(),
        }
    }

    /// Makes this the version in which objects are stored. Where no version is marked, the first one is it.
    pub fn stored(mut self) -> Self {
        self.is_stored = true;
        self
    }

    /// Makes the API server no longer serve this version.
    pub fn not_served(mut self) -> Self {
        self.is_served = false;
        self
    }

    /// Says that the fields of this version differ from those of the stored one, so that the plugin converts it. The
    /// definition does not have it served: as long as no host is registered for the conversion, the API server would
    /// drop each field that the stored version does not have, and say nothing. A host has it served once it converts.
    pub fn converted(mut self) -> Self {
        self.is_converted = true;
        self
    }

    /// Makes the API server warn clients that use this version, with this text.
    pub fn deprecated(mut self, warning: &str) -> Self {
        self.deprecation = Some(warning.to_owned());
        self
    }

    /// Adds columns of `kubectl get`.
    pub fn columns(mut self, columns: impl IntoIterator<Item = Column>) -> Self {
        self.columns.extend(columns);
        self
    }

    /// Adds the scale subresource, by which `kubectl scale` and autoscalers set the number of replicas.
    pub fn scale(mut self, scale: Scale) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Sets the description of the list of conditions.
    pub fn conditions(mut self, description: &str) -> Self {
        description.clone_into(&mut self.conditions);
        self
    }

    /// Adds a validation rule at this path, such as `spec.size`, `spec.ports[]` for the items of a list, or an empty
    /// one for the whole object.
    pub fn rule(mut self, path: &str, rule: Rule) -> Self {
        self.changes.push((path.to_owned(), Change::Rule(rule)));
        self
    }

    /// Merges a piece of schema into the one at this path: what no attribute of `schemars` can express, or what differs
    /// in this version.
    pub fn overlay(mut self, path: &str, schema: Value) -> Self {
        self.changes.push((path.to_owned(), Change::Overlay(schema)));
        self
    }

    pub(super) fn definition(&self, kind: &str, description: Option<&str>, stored: &str) -> Result<Value, Error> {
        let mut version = json!({
            "name": self.name,
            "served": self.is_served && !self.is_converted,
            "storage": self.name == stored,
            "schema": { "openAPIV3Schema": self.schema(kind, description)? },
            "subresources": self.subresources(),
        });
        if let Some(warning) = &self.deprecation {
            insert(&mut version, "deprecated", json!(true));
            insert(&mut version, "deprecationWarning", json!(warning));
        }
        if !self.columns.is_empty() {
            let columns: Vec<_> = self.columns.iter().map(Column::definition).collect();
            insert(&mut version, "additionalPrinterColumns", json!(columns));
        }
        Ok(version)
    }

    fn subresources(&self) -> Value {
        let mut subresources = json!({ "status": {} });
        if let Some(scale) = &self.scale {
            insert(&mut subresources, "scale", scale.definition());
        }
        subresources
    }

    fn schema(&self, kind: &str, description: Option<&str>) -> Result<Value, Error> {
        let mut spec = self.spec.clone();
        schema::make_structural(&mut spec, "spec")?;
        let is_required = spec.get("required").is_some();
        if !is_required {
            // The defaults of its fields apply only where the spec exists.
            insert(&mut spec, "default", json!({}));
        }
        let mut schema = json!({
            "type": "object",
            "properties": {
                "apiVersion": {
                    "type": "string",
                    "description": "The version of the schema that this object is written in.",
                },
                "kind": { "type": "string", "description": format!("The kind of this object: {kind}.") },
                // The API server describes the metadata itself, and allows nothing else here.
                "metadata": { "type": "object" },
                "spec": spec,
                "status": self.status()?,
            },
        });
        if is_required {
            insert(&mut schema, "required", json!(["spec"]));
        }
        if let Some(description) = description {
            insert(&mut schema, "description", json!(description));
        }
        for (path, change) in &self.changes {
            change.make(schema::at(&mut schema, path)?);
        }
        schema::check(&schema, "")?;
        Ok(schema)
    }

    fn status(&self) -> Result<Value, Error> {
        let mut status = self.status.clone();
        if status.get("properties").is_none() {
            status = json!({ "type": "object", "description": "The observed state.", "properties": {} });
        }
        schema::make_structural(&mut status, "status")?;
        if let Value::Object(status) = &mut status {
            // The host may write conditions before the plugin has written its status.
            status.remove("required");
            let properties = status.entry("properties").or_insert_with(|| Map::new().into());
            insert(properties, "conditions", conditions::schema(&self.conditions));
            add_observed_generation(properties);
            // Of an object that no host has seen yet: tools that wait for it must not take it for one that is as desired.
            let default = status.entry("default").or_insert_with(|| Map::new().into());
            insert_absent(default, "observedGeneration", json!(-1));
        }
        Ok(status)
    }
}

/// Adds the generation that the status is about, which the host states. Of a field that the type has, only a missing
/// description is filled in.
fn add_observed_generation(properties: &mut Value) {
    const NAME: &str = "observedGeneration";
    insert_absent(properties, NAME, json!({ "type": "integer", "format": "int64" }));
    if let Some(field) = properties.get_mut(NAME) {
        insert_absent(field, "description", json!("The metadata.generation that was decided about last."));
    }
}

/// Sets a member of a JSON object that it does not have.
fn insert_absent(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(members) = object {
        members.entry(key).or_insert(value);
    }
}

impl Change {
    fn make(&self, schema: &mut Value) {
        match self {
            Self::Overlay(over) => schema::lay_over(schema, over.clone()),
            Self::Rule(rule) => {
                if let Value::Object(members) = schema {
                    let rules = members.entry("x-kubernetes-validations").or_insert_with(|| json!([]));
                    if let Value::Array(rules) = rules {
                        rules.push(rule.definition());
                    }
                }
            }
        }
    }
}

/// A validation rule in the Common Expression Language.
#[derive(Clone, Debug)]
#[must_use]
pub struct Rule {
    expression: String,
    message: Option<String>,
    message_expression: Option<String>,
    field: Option<String>,
}

impl Rule {
    /// Requires that this expression is true; `self` is the value, `oldSelf` the previous one.
    pub fn new(expression: &str) -> Self {
        Self { expression: expression.to_owned(), message: None, message_expression: None, field: None }
    }

    /// Sets the message for objects that break the rule.
    pub fn message(mut self, message: &str) -> Self {
        self.message = Some(message.to_owned());
        self
    }

    /// Sets an expression whose value is the message for objects that break the rule.
    pub fn message_expression(mut self, expression: &str) -> Self {
        self.message_expression = Some(expression.to_owned());
        self
    }

    /// Names the field at fault, relative to where the rule is, such as `.size`.
    pub fn field(mut self, path: &str) -> Self {
        self.field = Some(path.to_owned());
        self
    }

    fn definition(&self) -> Value {
        let mut rule = json!({ "rule": self.expression });
        let more =
            [("message", &self.message), ("messageExpression", &self.message_expression), ("fieldPath", &self.field)];
        for (key, value) in more {
            if let Some(value) = value {
                insert(&mut rule, key, json!(value));
            }
        }
        rule
    }
}

/// The paths that the scale subresource reads and writes.
#[derive(Clone, Debug)]
#[must_use]
pub struct Scale {
    desired: String,
    observed: String,
    selector: Option<String>,
}

impl Scale {
    /// Sets the path of the desired number of replicas, such as `.spec.size`, and that of the observed one, such as
    /// `.status.readyReplicas`.
    pub fn new(desired: &str, observed: &str) -> Self {
        Self { desired: desired.to_owned(), observed: observed.to_owned(), selector: None }
    }

    /// Sets the path of the label selector of the Pods, as text, such as `.status.selector`. Autoscalers need it.
    pub fn selector(mut self, path: &str) -> Self {
        self.selector = Some(path.to_owned());
        self
    }

    fn definition(&self) -> Value {
        let mut scale = json!({ "specReplicasPath": self.desired, "statusReplicasPath": self.observed });
        if let Some(selector) = &self.selector {
            insert(&mut scale, "labelSelectorPath", json!(selector));
        }
        scale
    }
}
