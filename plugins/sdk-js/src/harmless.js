// Pod templates of users, without what a host denies unless it is granted.
//
// The rules name what may stay. A rule is "any"; "false", "zero" or "empty" for that value alone; ["in", …] for these
// texts; an object of rules for fields, of which `a*` are those that begin with `a`, and `^/` those without any of the
// characters that follow; ["each", rule] for the elements of a list; ["whole", rule] for what obeys the rule altogether,
// since its rest would mean something else; or the name of another rule.

import { reject } from "./failure.js";
import { RULES } from "./harmless-rules.js";

const VALUES = { false: false, zero: 0, empty: "" };

/** A Pod template as a host admits it without any grant for Pods, and the paths of what was removed for that. */
export function harmless(template) {
  const removed = [];
  const kept = allowed("template", template, "", removed) ?? {};
  if (kept.spec !== undefined) {
    kept.spec.automountServiceAccountToken = false;
    const left = names(kept.spec.volumes);
    const gone = names(template.spec.volumes).filter((name) => !left.includes(name));
    for (const container of [...(kept.spec.containers ?? []), ...(kept.spec.initContainers ?? [])]) {
      container.securityContext = { ...container.securityContext, allowPrivilegeEscalation: false };
      for (const list of ["volumeMounts", "volumeDevices"]) {
        if (!Array.isArray(container[list])) continue;
        container[list] = container[list].filter((mount) => !gone.includes(mount?.name));
      }
    }
  }
  return { template: kept, removed };
}

/** A Pod template from which nothing has to be removed. */
export function requireHarmless(template, field) {
  const { template: kept, removed } = harmless(template);
  if (removed.length > 0) throw reject(`remove ${removed.join(", ")}`, field);
  return kept;
}

/** What may stay of a value; undefined if nothing. */
function allowed(rule, value, path, removed) {
  if (typeof rule === "string" && rule in RULES) return allowed(RULES[rule], value, path, removed);
  const [word, inner] = Array.isArray(rule) ? rule : [];
  if (word === "whole") {
    const before = removed.length;
    const kept = allowed(inner, value, path, removed);
    return removed.length === before ? kept : undefined;
  }
  if (word === "each" && Array.isArray(value)) {
    const elements = value.map((one, at) => allowed(inner, one, `${path}[${at}]`, removed));
    return elements.filter((one) => one !== undefined);
  }
  if (word === undefined && typeof rule === "object" && isObject(value)) return members(rule, value, path, removed);
  const stays = word === "in" ? rule.slice(1).includes(value) : rule === "any" || VALUES[rule] === value;
  if (stays) return value;
  removed.push(path);
  return undefined;
}

function members(rules, object, path, removed) {
  const all = {};
  for (const [key, value] of Object.entries(object)) {
    // The API server takes null for a field that is not there.
    if (value === null || value === undefined) continue;
    const at = path === "" ? key : `${path}.${key}`;
    const pattern = Object.keys(rules).find((one) => matches(one, key));
    if (pattern === undefined) {
      removed.push(at);
      continue;
    }
    const kept = allowed(rules[pattern], value, at, removed);
    if (kept !== undefined) all[key] = kept;
  }
  return all;
}

function matches(pattern, key) {
  if (pattern.startsWith("^")) return ![...pattern.slice(1)].some((letter) => key.includes(letter));
  return pattern.endsWith("*") ? key.startsWith(pattern.slice(0, -1)) : key === pattern;
}

function names(list) {
  return Array.isArray(list) ? list.map((one) => one?.name).filter((name) => name !== undefined) : [];
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
