// The component around a plugin: the only file that knows the contract's form. `hotshoe build` imports it before the
// author's modules, so that they find these globals.

import log from "hotshoe:reconciler/log@0.1.0";

import { defaultedOf, proposalOf, verdictOf } from "./admission.js";
import { answerOf } from "./answer.js";
import { conversionOf } from "./conversion.js";
import { installGlobals } from "./globals.js";
import { stringify } from "./json.js";
import { kindOf, objectOf, referenced } from "./kind.js";
import { isPlugin } from "./plugin.js";
import { Request } from "./request.js";
import { explained, traced } from "./trace.js";

let isBuilt = false;
installGlobals((level, message) => {
  // While a component is built its modules are run, and there is no host yet.
  if (isBuilt) log.log(level, message);
});

/** What the component exports for a plugin: `reconciler`, and of the optional interfaces those that it has functions for. */
export function exported(plugin) {
  if (!isPlugin(plugin)) throw new TypeError("the module has no plugin: say `export default definePlugin({ … })`");
  const { descriptor, validate, setDefaults, conversions } = plugin;
  return {
    reconciler: {
      describe: () => descriptor,
      reconcile: (request) => called(() => answerOf(plugin, "reconcile", new Request(request)), typed),
      finalize: (request) => called(() => answerOf(plugin, "finalize", new Request(request)), typed),
    },
    ...(validate && { validation: { validate: (...shown) => called(() => verdictOf(plugin, proposalOf(...shown)), judged) } }),
    ...(setDefaults && { defaulting: { default: (object, context) => filledIn(plugin, object, context) } }),
    ...(conversions && { conversion: { convert: (objects, toVersion) => converted(plugin, objects, toVersion) } }),
  };
}

/** Has the plugin answer, and writes its answer in the form of the contract. */
function called(answer, written) {
  isBuilt = true;
  const answered = attempted(answer);
  const failure = failureOf(answered);
  if (failure !== undefined) throw failure;
  return written(answered);
}

function attempted(answer) {
  try {
    return answer();
  } catch (error) {
    log.log("error", traced(error));
    return { other: explained(error) };
  }
}

function failureOf({ retry, reject, other }) {
  if (retry !== undefined) return { tag: "retry", val: { message: retry.message, after: retry.afterMs } };
  if (reject !== undefined) return { tag: "reject", val: reject };
  return other === undefined ? undefined : { tag: "other", val: other };
}

function typed(answer) {
  const [[tag, value]] = Object.entries(answer);
  if (tag === "needs") return { tag, val: value.map(requirement) };
  return { tag, val: decision(value) };
}

/** A requirement as it crosses, where `?` before a name makes a selector of it. */
function requirement({ selector, ...need }) {
  return { ...need, kind: kindOf(need, "needs"), name: need.name ?? `?${selector}` };
}

function decision({ children, status, conditions, events, requeueAfterMs }) {
  return {
    children: children === "keep" ? { tag: "keep" } : { tag: "exactly", val: children.exactly.map(referenced) },
    status: status && stringify(status),
    conditions: conditions.map(({ type, status, reason, message }) => ({ name: type, status: status.toLowerCase(), reason, message })),
    events: events.map(({ severity, reason, message }) => ({ severity: severity.toLowerCase(), reason, message })),
    requeueAfter: requeueAfterMs,
  };
}

function judged({ verdict: { errors, warnings } }) {
  return { errors: errors.map(({ field, reason, message }) => ({ field, reason: word(reason), message })), warnings };
}

/** `FieldValueNotSupported` is `not-supported`. */
function word(reason) {
  return reason.replace("FieldValue", "").replace(/\B[A-Z]/g, "-$&").toLowerCase();
}

function filledIn(plugin, object, context) {
  // It may have no name yet, so it keeps the reference with which it came.
  const written = ({ defaulted }) => ({ ref: object.ref, json: json(defaulted) });
  return called(() => defaultedOf(plugin, proposalOf(object, undefined, context)), written);
}

function converted(plugin, objects, toVersion) {
  // What else a function changes of the metadata stands in the JSON, where the host denies it.
  const ref = ({ ref }) => ({ ...ref, kind: { ...ref.kind, version: toVersion } });
  const written = ({ converted }) => converted.map((object, index) => ({ ref: ref(objects[index]), json: json(object) }));
  return called(() => conversionOf(plugin, objects.map(objectOf), toVersion), written);
}

/** An object without what its reference has. */
function json({ apiVersion, kind, ...fields }) {
  return stringify(fields);
}
