//! What a plugin is shown, and typed access to it.

use std::fmt;

use serde::{Deserialize, de::DeserializeOwned};

use crate::{Condition, Failure, Metadata, Object, ObjectRef, Reconciler, Resource, Status, Time, object};

/// What the host shows for one call, before it is decoded. Tests build one themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// The object to decide about.
    pub parent: Object,
    /// The parent's children, sorted by kind, namespace and name.
    pub children: Vec<Object>,
    /// One entry for each declared read and each requirement.
    pub related: Vec<Related>,
    /// Children whose last write the API server refused.
    pub refusals: Vec<Refusal>,
    /// The plugin's configuration, a JSON object.
    pub config: String,
    /// Milliseconds since the Unix epoch; only where `describe` asked for it.
    pub now: Option<u64>,
    /// Tries since the last success; only where `describe` asked for it.
    pub attempt: Option<u32>,
}

/// Related objects, found for one declared read or one requirement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Related {
    /// The key of the read or requirement.
    pub key: String,
    /// Sorted by namespace and name.
    pub objects: Vec<Object>,
}

/// A child whose last write the API server refused. The refusal is shown until a write succeeds or
/// the desired child changes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Refusal {
    /// Which child.
    pub reference: ObjectRef,
    /// The HTTP status code.
    pub code: u32,
    /// The reason that the API server gave, for example `Forbidden`.
    pub reason: String,
    /// The message of the API server.
    pub message: String,
}

impl Refusal {
    /// Whether the refused child is of this kind.
    pub fn concerns<K: Resource>(&self) -> bool {
        self.reference.kind.is::<K>()
    }
}

/// What a plugin is shown, decoded: the parent and the configuration at once, everything else
/// when it is asked for.
pub struct Request<R: Reconciler> {
    /// The parent as the plugin reads it.
    pub parent: R::Parent,
    /// The plugin's configuration.
    pub config: R::Config,
    /// Children whose last write the API server refused.
    pub refusals: Vec<Refusal>,
    /// Milliseconds since the Unix epoch; only where `describe` asked for it.
    pub now: Option<u64>,
    /// How often the parent was tried since its last success; only where asked for.
    pub attempt: Option<u32>,
    shown: Object,
    children: Vec<Object>,
    related: Vec<Related>,
    is_in_clean_up: bool,
}

/// Reads the configuration.
///
/// # Errors
///
/// `Failure::Reject` where it does not parse as the plugin's type: a retry would not help.
pub(crate) fn read_config<C: DeserializeOwned>(config: &str) -> Result<C, Failure> {
    parse_config(config).map_err(|cause| {
        Failure::reject(format!(
            "the plugin's configuration is not what this plugin reads: {}; correct it",
            object::without_position(&cause)
        ))
    })
}

/// Parses the configuration. That of a plugin without one is `{}`, which `()` reads as `null`.
fn parse_config<C: DeserializeOwned>(config: &str) -> Result<C, serde_json::Error> {
    serde_json::from_str(config).or_else(|cause| match config.trim() {
        "{}" => serde_json::from_str("null").map_err(|_| cause),
        _ => Err(cause),
    })
}

impl<R: Reconciler> Request<R> {
    /// Decodes an observation.
    ///
    /// # Errors
    ///
    /// `Failure::Reject` where the parent or the configuration does not parse as the plugin's type:
    /// a retry would not help.
    pub fn read(observation: Observation) -> Result<Self, Failure> {
        let parent = read_parent(&observation.parent)?;
        let config = read_config(&observation.config)?;
        Ok(Self {
            parent,
            config,
            refusals: observation.refusals,
            now: observation.now,
            attempt: observation.attempt,
            shown: observation.parent,
            children: observation.children,
            related: observation.related,
            is_in_clean_up: false,
        })
    }

    /// Makes this a request of a clean-up, which shows the parent's conditions in any case.
    pub(crate) fn in_clean_up(self) -> Self {
        Self { is_in_clean_up: true, ..self }
    }

    /// The parent's name.
    pub fn name(&self) -> &str {
        &self.shown.reference.name
    }

    /// The parent's namespace; empty where it is cluster-scoped.
    pub fn namespace(&self) -> &str {
        self.shown.reference.namespace.as_deref().unwrap_or_default()
    }

    /// The parent's condition of this type, as it was written last, where it has one: to know what was decided before, such
    /// as that everything is complete, and to state it again. `describe` has to ask for `status.conditions`; to `finalize`
    /// they are shown in any case.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where `describe` does not ask for them, or they are no conditions.
    pub fn condition(&self, name: &str) -> Result<Option<Condition>, Failure> {
        let Shown { status } = self.shown.read()?;
        let conditions = status.and_then(|status| status.conditions);
        let is_asked =
            || R::describe().parent_fields.iter().any(|path| path == "status" || path == "status.conditions");
        if conditions.is_none() && !self.is_in_clean_up && !is_asked() {
            return Err(Failure::other(
                "the host shows no conditions of the parent; ask for them in describe with \
                 `parent_fields(&[\"status.conditions\"])`",
            ));
        }
        let found = conditions.into_iter().flatten().find(|condition| condition.name == name);
        Ok(found.map(|StoredCondition { name, status, reason, message }| {
            let status = match status.as_str() {
                "True" => Status::True,
                "False" => Status::False,
                _ => Status::Unknown,
            };
            Condition { name, status, reason, message }
        }))
    }

    /// The time of the call.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where `describe` does not ask for it.
    pub fn time(&self) -> Result<Time, Failure> {
        let asks = || Failure::other("the host shows no time; ask for it in describe with `wants_now`");
        self.now.map(Time::from_unix_millis).ok_or_else(asks)
    }

    /// The parent's children of one kind, sorted by namespace and name.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where one of them does not parse.
    pub fn children<K: Resource + DeserializeOwned>(&self) -> Result<Vec<K>, Failure> {
        self.children_as::<K, K>()
    }

    /// The parent's children of kind `K`, read as `View`: a type of the plugin's own with just
    /// the fields that it asked for. A component with such views is a quarter of the size of one with
    /// the full type of a Deployment, or a good half where it also builds typed Deployments.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where one of them does not parse.
    pub fn children_as<K: Resource, View: DeserializeOwned>(&self) -> Result<Vec<View>, Failure> {
        self.children_of::<K>().map(Object::read).collect()
    }

    /// The parent's child of this kind and name, where it has one.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where it does not parse.
    pub fn child<K: Resource + DeserializeOwned>(&self, name: &str) -> Result<Option<K>, Failure> {
        self.child_as::<K, K>(name)
    }

    /// The parent's child of kind `K` and this name, read as `View`.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where it does not parse.
    pub fn child_as<K: Resource, View: DeserializeOwned>(&self, name: &str) -> Result<Option<View>, Failure> {
        self.child_object::<K>(name).map(Object::read).transpose()
    }

    /// Whether the parent has a child of this kind and name. Cheaper than [`Request::child`].
    pub fn has_child<K: Resource>(&self, name: &str) -> bool {
        self.child_object::<K>(name).is_some()
    }

    /// The objects found for a declared read or a requirement, sorted by namespace and name, read
    /// as a typed object or as a view of the plugin's own.
    ///
    /// # Errors
    ///
    /// `Failure::Other` where one of them does not parse, or where no read or requirement has this
    /// key.
    pub fn related<K: DeserializeOwned>(&self, key: &str) -> Result<Vec<K>, Failure> {
        let Some(related) = self.related.iter().find(|related| related.key == key) else {
            return Err(Failure::other(format!(
                "nothing is read under the key {key}; declare it in describe or require it"
            )));
        };
        related.objects.iter().map(Object::read).collect()
    }

    /// The names of the objects found for a declared read or a requirement, in the order of
    /// [`Request::related`], without those that are being deleted.
    ///
    /// # Errors
    ///
    /// As [`Request::related`].
    pub fn related_names(&self, key: &str) -> Result<Vec<String>, Failure> {
        let related = self.related::<Named>(key)?.into_iter().map(|object| object.metadata);
        let staying = related.filter(|metadata| metadata.deletion_timestamp.is_none());
        Ok(staying.map(|metadata| metadata.name).collect())
    }

    fn children_of<K: Resource>(&self) -> impl Iterator<Item = &Object> {
        self.children.iter().filter(|child| child.reference.kind.is::<K>())
    }

    /// Compares the names first: there are more of them than kinds.
    fn child_object<K: Resource>(&self, name: &str) -> Option<&Object> {
        self.children.iter().find(|child| child.reference.name == name && child.reference.kind.is::<K>())
    }
}

/// What is read of a parent for its conditions.
#[derive(Deserialize)]
struct Shown {
    status: Option<ShownStatus>,
}

#[derive(Deserialize)]
struct ShownStatus {
    conditions: Option<Vec<StoredCondition>>,
}

#[derive(Deserialize)]
struct StoredCondition {
    #[serde(rename = "type")]
    name: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Named {
    metadata: Metadata,
}

/// Prints the parent's name only: the rest may hold secrets, which do not belong in a log.
impl<R: Reconciler> fmt::Debug for Request<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Request({} {})", self.shown.reference.kind.kind, self.name())
    }
}

/// Reads a parent.
///
/// # Errors
///
/// `Failure::Reject` where it does not parse as the plugin's type, with the field at fault.
pub(crate) fn read_parent<T: DeserializeOwned>(parent: &Object) -> Result<T, Failure> {
    serde_json::from_str(&parent.json).map_err(|cause| Failure::Reject {
        message: format!(
            "{} {} is not what this plugin reads: {}; correct it, or use a plugin that reads it",
            parent.reference.kind.kind,
            parent.reference.name,
            object::without_position(&cause)
        ),
        field: field_at_fault::<T>(&parent.json),
    })
}

/// Returns the path of the first field that does not parse as part of a `T`. It parses the text a second time, which
/// only a failure pays for.
fn field_at_fault<T: DeserializeOwned>(json: &str) -> Option<String> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let error = serde_path_to_error::deserialize::<_, T>(&mut reader).err()?;
    Some(error.path().to_string()).filter(|path| !path.contains('?') && path != ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_configuration_reads_as_the_unit_type_only() {
        #[derive(serde::Deserialize)]
        struct Image {
            image: String,
        }
        assert!(parse_config::<()>("{}").is_ok() && parse_config::<()>(r#"{"image":"a"}"#).is_err());
        assert_eq!(parse_config::<Image>(r#"{"image":"a"}"#).unwrap().image, "a");
        let error = parse_config::<Image>("{}").map(|config| config.image).unwrap_err();
        assert!(error.to_string().contains("missing field `image`"), "{error}");
    }

    /// A plugin that asks for its conditions, or does not.
    struct Stating<const ASKS: bool>;

    impl<const ASKS: bool> Reconciler for Stating<ASKS> {
        type Parent = serde_json::Value;
        type Config = ();

        fn describe() -> crate::Descriptor {
            let kind = crate::ResourceKind::new("example.com", "v1", "A");
            let descriptor = crate::Descriptor::new("a", "0.1.0", kind);
            if ASKS { descriptor.parent_fields(&["status.conditions"]) } else { descriptor }
        }

        fn reconcile(request: &Request<Self>) -> Result<crate::Answer, Failure> {
            let stated = request.condition("Complete")?;
            Ok(crate::Decision::keep().conditions(stated).into())
        }
    }

    fn stated<const ASKS: bool>(json: &str) -> Result<Vec<Condition>, Failure> {
        let parent = Object { json: json.to_owned(), ..Object::default() };
        let observation = Observation { parent, config: "{}".to_owned(), ..Observation::default() };
        match crate::reconcile::<Stating<ASKS>>(observation)? {
            crate::Answer::Decided(decision) => Ok(decision.conditions),
            crate::Answer::Needs(needs) => panic!("{needs:?}"),
        }
    }

    #[test]
    fn a_condition_that_was_written_before_is_shown_and_can_be_stated_again() {
        let json = r#"{"status":{"conditions":[
            {"type":"Ready","status":"False","reason":"A","message":"b"},
            {"type":"Complete","status":"True","reason":"All","message":"3 of 3","lastTransitionTime":"2026-01-01T00:00:00Z"}
        ]}}"#;
        let complete = Condition::new("Complete", Status::True, "All", "3 of 3");
        assert_eq!(stated::<true>(json).unwrap(), [complete]);
        for none in ["{}", r#"{"status":null}"#, r#"{"status":{"conditions":null}}"#, r#"{"status":{"conditions":[]}}"#]
        {
            assert_eq!(stated::<true>(none).unwrap(), [], "{none}");
        }
    }

    #[test]
    fn a_condition_that_describe_does_not_ask_for_is_an_error_and_not_absent() {
        let error = stated::<false>("{}").unwrap_err().to_string();
        assert!(error.contains("parent_fields(&[\"status.conditions\"])"), "{error}");
    }
}
