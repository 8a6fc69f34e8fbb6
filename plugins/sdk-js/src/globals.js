// What a plugin finds in its global scope: a console that is the host's log, and clear words where a clock, randomness
// or the network would be.

import { stringify } from "./json.js";
import { traced } from "./trace.js";

const LEVELS = { log: "info", info: "info", debug: "debug", trace: "trace", warn: "warn", error: "error" };

const NO_CLOCK = "a plugin has no clock: say `wantsNow: true` and read request.now, or answer requeueAfterMs";
const NO_CHANCE = "a plugin has no randomness: derive what differs from the parent's name or metadata.uid";
const NO_NETWORK = "a plugin has no network: declare what it reads in `reads`, or ask for it with needs(…)";
const NO_TIMERS = "a plugin answers at once and cannot wait: answer requeueAfterMs, and the host calls again";

const ABSENT = {
  fetch: NO_NETWORK,
  setTimeout: NO_TIMERS,
  setInterval: NO_TIMERS,
  setImmediate: NO_TIMERS,
  queueMicrotask: NO_TIMERS,
};

/** So many frames of a stack are kept: the author's are below those of the SDK. */
const FRAMES = 50;

/** Installs them; `log` takes a level and a line. */
export function installGlobals(log) {
  Error.stackTraceLimit = FRAMES;
  globalThis.console = consoleOf(log);
  for (const [name, why] of Object.entries(ABSENT)) globalThis[name] = absent(name, why);
  Math.random = absent("Math.random", NO_CHANCE);
  globalThis.performance = { now: absent("performance.now", NO_CLOCK) };
  globalThis.Date = dateWithoutClock(Date);
}

function consoleOf(log) {
  const methods = Object.entries(LEVELS).map(([name, level]) => [name, (...args) => log(level, args.map(shown).join(" "))]);
  return Object.fromEntries(methods);
}

function shown(value) {
  if (typeof value === "string") return value;
  if (value instanceof Error) return traced(value);
  try {
    return stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

function absent(name, why) {
  return () => {
    throw new Error(`${name} is not there: ${why}`);
  };
}

/** Dates that are given can be read and written; only the present one cannot. */
function dateWithoutClock(Native) {
  const now = absent("the present time", NO_CLOCK);
  function PluginDate(...parts) {
    if (new.target === undefined || parts.length === 0) now();
    return Reflect.construct(Native, parts, new.target === PluginDate ? Native : new.target);
  }
  PluginDate.prototype = Native.prototype;
  PluginDate.prototype.constructor = PluginDate;
  return Object.assign(PluginDate, { now, parse: Native.parse, UTC: Native.UTC });
}
