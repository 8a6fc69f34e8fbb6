// The component around a plugin: the only file that knows the contract's form. `hotshoe build` imports it before the
// author's modules, so that they find these globals.

import log from "hotshoe:reconciler/log@0.1.0";

import { answerOf } from "./answer.js";
import { installGlobals } from "./globals.js";
import { stringify } from "./json.js";
import { kindOf, referenced } from "./kind.js";
import { isPlugin } from "./plugin.js";
import { Request } from "./request.js";
import { explained, traced } from "./trace.js";

let isBuilt = false;
installGlobals((level, message) => {
  // While a component is built its modules are run, and there is no host yet.
  if (isBuilt) log.log(level, message);
});

/** What the component exports for a plugin. */
export function exported(plugin) {
  if (!isPlugin(plugin)) throw new TypeError("the module has no plugin: say `export default definePlugin({ … })`");
  return {
    describe: () => plugin.descriptor,
    reconcile: (request) => called(plugin, "reconcile", request),
    finalize: (request) => called(plugin, "finalize", request),
  };
}

function called(plugin, call, request) {
  isBuilt = true;
  let answer;
  try {
    answer = answerOf(plugin, call, new Request(request));
  } catch (error) {
    log.log("error", traced(error));
    answer = { other: explained(error) };
  }
  const { tag, val, failed } = typed(answer);
  if (failed) throw { tag, val };
  return { tag, val };
}

/** An answer in the form of the contract, by the only key that it has. */
function typed(answer) {
  const [[tag, val]] = Object.entries(answer);
  switch (tag) {
    case "needs":
      return { tag, val: val.map((need) => ({ ...need, kind: kindOf(need, "needs") })) };
    case "retry":
      return { tag, val: { message: val.message, after: val.afterMs }, failed: true };
    case "reject":
    case "other":
      return { tag, val, failed: true };
    default:
      return { tag, val: decision(val) };
  }
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
