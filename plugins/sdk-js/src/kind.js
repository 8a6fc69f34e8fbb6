// Kinds and references: `apiVersion` and `kind` for an author, group, version and kind for the host.

import { checkText, InvalidForm } from "./check.js";

/** The kind that an object with `apiVersion` and `kind` names. */
export function kindOf(object, path) {
  checkText(object.apiVersion, `${path}.apiVersion`);
  checkText(object.kind, `${path}.kind`);
  const parts = object.apiVersion.split("/");
  if (parts.length > 2 || parts.includes("")) {
    throw new InvalidForm(`${path}.apiVersion is ${JSON.stringify(object.apiVersion)}; it is VERSION or GROUP/VERSION`);
  }
  const [group, version] = parts.length === 2 ? parts : ["", parts[0]];
  return { group, version, kind: object.kind };
}

export function apiVersionOf({ group, version }) {
  return group === "" ? version : `${group}/${version}`;
}

/** The object of a reference and its JSON, as `kubectl get -o json` shows it. */
export function objectOf({ ref, json }) {
  return { apiVersion: apiVersionOf(ref.kind), kind: ref.kind.kind, ...JSON.parse(json) };
}

/** The reference and the JSON of an object. */
export function referenced(object, path) {
  const kind = kindOf(object, path);
  const { name, namespace } = object.metadata ?? {};
  checkText(name, `${path}.metadata.name`);
  if (namespace !== undefined) checkText(namespace, `${path}.metadata.namespace`);
  return { ref: { kind, namespace, name }, json: JSON.stringify(object) };
}
