// Kinds and references: `apiVersion` and `kind` for an author, group, version and kind for the host.

import { checkText, InvalidForm } from "./check.js";
import { parse, stringify } from "./json.js";

/** The kind that an object with `apiVersion` and `kind` names. */
export function kindOf(object, path) {
  const { apiVersion, kind } = object;
  checkText(apiVersion, path, "apiVersion");
  checkText(kind, path, "kind");
  const slash = apiVersion.indexOf("/");
  if (slash === -1) return { group: "", version: apiVersion, kind };
  if (slash === 0 || slash === apiVersion.length - 1 || slash !== apiVersion.lastIndexOf("/")) {
    throw new InvalidForm(`${path}.apiVersion is ${JSON.stringify(apiVersion)}; it is VERSION or GROUP/VERSION`);
  }
  return { group: apiVersion.slice(0, slash), version: apiVersion.slice(slash + 1), kind };
}

export function apiVersionOf({ group, version }) {
  return group === "" ? version : `${group}/${version}`;
}

/** The object of a reference and its JSON, as `kubectl get -o json` shows it. */
export function objectOf({ ref, json }) {
  return { apiVersion: apiVersionOf(ref.kind), kind: ref.kind.kind, ...parse(json) };
}

/** The reference of an object. */
export function referenceOf(object, path) {
  const kind = kindOf(object, path);
  const { name, namespace } = object.metadata ?? {};
  if (name === undefined && object.metadata?.generateName !== undefined) {
    throw new InvalidForm(`${path}.metadata.generateName would make another object at each decision; set metadata.name`);
  }
  checkText(name, path, "metadata.name");
  if (namespace !== undefined) checkText(namespace, path, "metadata.namespace");
  return { kind, namespace, name };
}

/** The reference and the JSON of an object. */
export function referenced(object, path) {
  return { ref: referenceOf(object, path), json: stringify(object) };
}
