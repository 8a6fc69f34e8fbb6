// Tests of a plugin's logic in Node, without Wasm: a request from plain objects or from a case file, and the answer as
// a host reads it.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { defaultedOf, proposalOf, verdictOf } from "./admission.js";
import { answerOf } from "./answer.js";
import { checkKeys, InvalidForm } from "./check.js";
import { conversionOf } from "./conversion.js";
import { parse, stringify } from "./json.js";
import { apiVersionOf, kindOf, objectOf, referenced } from "./kind.js";
import { isPlugin } from "./plugin.js";
import { projected } from "./projection.js";
import { Request } from "./request.js";
import { explained } from "./trace.js";

export { closedLoop, componentCases } from "./testing-component.js";

const OBSERVED = ["children", "related", "refusals", "config", "now", "attempt"];

export function reconcile(plugin, observation) {
  return answerOf(plugin, "reconcile", request(plugin, observation));
}

export function finalize(plugin, observation) {
  return answerOf(plugin, "finalize", request(plugin, observation, "finalize"));
}

export function validate(plugin, proposed) {
  checkDefines(plugin, "validate");
  return verdictOf(plugin, proposal(plugin, proposed));
}

export function setDefaults(plugin, proposed) {
  checkDefines(plugin, "setDefaults");
  return defaultedOf(plugin, proposal(plugin, proposed));
}

export function convert(plugin, object, toVersion) {
  checkDefines(plugin, "conversions");
  const answer = conversionOf(plugin, [objectOf(referenced(object, "the object"))], toVersion);
  return answer.converted === undefined ? answer : { converted: answer.converted[0] };
}

export function request(plugin, observation, call = "reconcile") {
  checkPlugin(plugin);
  checkKeys(observation, "the observation", ["parent"], OBSERVED);
  const { descriptor } = plugin;
  const { parent, children = [], refusals = [], config = {}, now, attempt = 0 } = observation;
  if (descriptor.wantsNow && now === undefined) throw new InvalidForm("the plugin wants `now`: give it, in milliseconds since 1970");
  const shownOfParent = ["spec", ...descriptor.parentFields, ...(call === "finalize" ? ["status.conditions"] : [])];
  return new Request({
    parent: shown(ofKind(parent, descriptor.parent), "parent", shownOfParent),
    children: children.map((child, index) => ownedChild(descriptor, child, `children[${index}]`)).sort(byReference),
    related: related(descriptor, observation.related ?? {}),
    refusals: refusals.map((refusal, index) => refused(refusal, `refusals[${index}]`)),
    config: stringify(config),
    now: descriptor.wantsNow ? now : undefined,
    attempt: descriptor.wantsAttempt ? attempt : undefined,
  });
}

/** What a host would show of a proposed parent: the whole of it. */
function proposal({ descriptor }, proposed) {
  checkKeys(proposed, "the proposal", ["object"], ["old", "config", "dryRun", "user"]);
  const { object, old, config = {}, dryRun = false, user } = proposed;
  const [given, stored] = [object, old].map((object) => object && whole(ofKind(object, descriptor.parent)));
  const operation = old === undefined ? "create" : "update";
  return proposalOf(given, stored, { operation, config: stringify(config), dryRun, user: user && written(user) });
}

/** Who writes the parent; as in a case file, what there is none of may be left out. */
function written(user) {
  checkKeys(user, "the user", ["username"], ["uid", "groups"]);
  return { uid: undefined, groups: [], ...user };
}

/** One that is to be created may have no name yet. */
function whole(object) {
  const { managedFields, ...metadata } = object.metadata ?? {};
  return { ref: { kind: kindOf(object, "the object") }, json: stringify({ ...object, metadata }) };
}

function checkDefines(plugin, name) {
  checkPlugin(plugin);
  if (plugin[name] === undefined) throw new InvalidForm(`the plugin has no ${name}: give definePlugin one`);
}

function checkPlugin(plugin) {
  if (!isPlugin(plugin)) throw new InvalidForm("the first argument is no plugin: it is what definePlugin returns");
}

export function casesIn(folder, parse) {
  const path = typeof folder === "string" ? folder : fileURLToPath(folder);
  const files = readdirSync(path).filter((file) => /^[^.].*\.ya?ml$/.test(file)).sort();
  return files.map((file) => ({ file, ...parse(readFileSync(`${path}/${file}`, "utf8")) }));
}

export function checkCase(plugin, { file, name, call = "reconcile", expect, valid, ...observation }) {
  assert.ok(expect, `${file}: nothing is expected yet; \`hotshoe test --accept\` writes down what the component answers`);
  // The API server refuses the object, and asks no plugin: `hotshoe test` checks that.
  if (expect.refused) return;
  assert.deepEqual(comparable(answered(plugin, call, observation)), comparable(expect), `${file}: ${name}`);
}

/** What a host would be answered, an author's throw included. */
function answered(plugin, call, observation) {
  const answer = asked(plugin, call, observation);
  try {
    return answer();
  } catch (error) {
    return { other: explained(error) };
  }
}

function asked(plugin, call, observation) {
  if (call !== "validate" && call !== "default") {
    const given = request(plugin, observation, call);
    return () => answerOf(plugin, call, given);
  }
  const { parent, ...others } = observation;
  const given = proposal(plugin, { object: parent, ...others });
  checkDefines(plugin, call === "validate" ? call : "setDefaults");
  return () => (call === "validate" ? verdictOf(plugin, given) : defaultedOf(plugin, given));
}

/** The parent may leave out what the plugin says of it. */
function ofKind(parent, kind) {
  return { apiVersion: apiVersionOf(kind), kind: kind.kind, ...parent };
}

/** An object as the host shows it: the fields that were asked for. */
function shown(object, path, fields) {
  const { ref } = referenced(object, path);
  return { ref, json: stringify(projected(object, fields)) };
}

function ownedChild({ owns }, child, path) {
  const kind = kindOf(child, path);
  const owned = owns.find((owned) => JSON.stringify(owned.kind) === JSON.stringify(kind));
  if (owned === undefined) throw new InvalidForm(`${path} is a ${kind.kind}, which the plugin does not own`);
  return shown(child, path, owned.fields);
}

/** An entry for each declared read, and for each other key, which is a requirement's and shown whole. */
function related({ reads }, found) {
  const keys = new Set([...reads.map(({ key }) => key), ...Object.keys(found)]);
  return Array.from(keys, (key) => {
    const read = reads.find((read) => read.key === key);
    const objects = (found[key] ?? []).map((object, index) => {
      const path = `related.${key}[${index}]`;
      return read === undefined ? referenced(object, path) : shown(object, path, read.fields);
    });
    return { key, objects: objects.sort(byReference) };
  });
}

function refused(refusal, path) {
  checkKeys(refusal, path, ["version", "kind", "name", "code", "reason", "message"], ["group", "namespace"]);
  const { group = "", version, kind, namespace, name, code, reason, message } = refusal;
  return { ref: { kind: { group, version, kind }, namespace, name }, code, reason, message };
}

function byReference(a, b) {
  const place = ({ ref: { kind, namespace = "", name } }) => [kind.group, kind.version, kind.kind, namespace, name].join("\0");
  return place(a) < place(b) ? -1 : 1;
}

/** Without what means the same: the order of children and conditions, what is empty, and what is null in an object. */
function comparable(answer) {
  const [[tag, value]] = Object.entries(parse(stringify(answer)));
  switch (tag) {
    case "decided":
    case "waiting":
    case "done":
      return { [tag]: comparableDecision(value) };
    case "verdict":
      return { [tag]: { errors: value.errors ?? [], warnings: value.warnings ?? [] } };
    case "defaulted":
      return { [tag]: withoutNulls(value) };
    default:
      return { [tag]: value };
  }
}

function comparableDecision({ children, status = null, conditions = [], events = [], requeueAfterMs = null }) {
  const sorted = children === "keep" ? children : children.exactly.toSorted((a, b) => (identity(a) < identity(b) ? -1 : 1));
  conditions.sort((a, b) => (a.type < b.type ? -1 : 1));
  return { children: sorted, status, conditions, events, requeueAfterMs };
}

function withoutNulls(value) {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(members.map(([key, member]) => [key, withoutNulls(member)]));
}

function identity({ apiVersion, kind, metadata }) {
  return [kind, apiVersion, metadata?.namespace ?? "", metadata?.name].join("\0");
}
