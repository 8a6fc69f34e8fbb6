//! Why a definition could not be made.

use std::fmt;

/// Why the definition of a custom resource could not be made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Error {
    /// Kubernetes would refuse a name.
    Name {
        /// Which name, for example `plural`.
        what: &'static str,
        /// The name.
        name: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// The versions do not fit together.
    Versions(String),
    /// A type has no schema that the API server accepts.
    Schema {
        /// The field, for example `spec.size`.
        path: String,
        /// What is wrong with it, and what to do.
        message: String,
    },
}

impl Error {
    pub(super) fn name(what: &'static str, name: &str, wanted: &'static str) -> Self {
        Self::Name { what, name: name.to_owned(), wanted }
    }

    pub(super) fn schema(path: &str, message: impl Into<String>) -> Self {
        Self::Schema { path: path.to_owned(), message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { what, name, wanted } => write!(formatter, "the {what} name {name:?} is not {wanted}"),
            Self::Versions(message) => formatter.write_str(message),
            Self::Schema { path, message } => write!(formatter, "{path}: {message}"),
        }
    }
}

impl std::error::Error for Error {}
