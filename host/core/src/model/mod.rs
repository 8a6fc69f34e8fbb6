//! The data types of the host: objects, kinds, decisions, names, limits. This module depends on no other.

pub mod admission;
pub mod annotation_selector;
pub mod child;
pub mod decision;
pub mod digest;
pub mod digest_prefix;
pub mod field_path;
pub mod json_guard;
pub mod kind;
pub mod label_selector;
pub mod limits;
pub mod list_map;
pub mod managed_fields;
pub mod names;
pub mod object;
pub mod openapi;
pub mod parent_label;
pub mod predecessors;
pub mod projection;
pub mod quantity;
pub mod sanitize;
pub mod scheme_hint;
pub mod wanted;
pub mod watched_namespaces;
