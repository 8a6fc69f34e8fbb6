import assert from "node:assert/strict";
import { test } from "node:test";

import { installGlobals } from "../src/globals.js";

test("a plugin has a log, and no clock, randomness, network or timers", () => {
  // The globals of this process stay as they are.
  const globals = ["console", "fetch", "setTimeout", "setInterval", "setImmediate", "queueMicrotask", "performance", "Date"];
  const before = [Math.random, Date.prototype.constructor, ...globals.map((name) => Object.getOwnPropertyDescriptor(globalThis, name))];
  const lines = [];
  try {
    installGlobals((level, line) => lines.push([level, line]));
    for (const [forbidden, said] of [
      [() => Date.now(), "a plugin has no clock: say `wantsNow: true`"],
      [() => new Date(), "a plugin has no clock"],
      [() => Date(), "a plugin has no clock"],
      [() => performance.now(), "a plugin has no clock"],
      [() => Math.random(), "Math.random is not there: a plugin has no randomness"],
      [() => fetch("https://example.com"), "fetch is not there: a plugin has no network"],
      [() => setTimeout(() => {}, 10), "setTimeout is not there: a plugin answers at once"],
    ]) {
      assert.throws(forbidden, (error) => error.message.includes(said));
    }
    assert.equal(new Date(Date.UTC(2026, 0, 2)).toISOString(), "2026-01-02T00:00:00.000Z");
    assert.ok(new Date("2026-01-02") instanceof Date);
    assert.equal(new Date(5).constructor, Date);
    class Day extends Date {}
    assert.ok(new Day(0) instanceof Day);
    console.log("a", { b: 1 }, undefined);
    console.warn(new Map());
    console.error("c");
  } finally {
    Math.random = before[0];
    globals.forEach((name, index) => Object.defineProperty(globalThis, name, before[index + 2]));
    Date.prototype.constructor = before[1];
  }
  assert.deepEqual(lines, [["info", 'a {"b":1} undefined'], ["warn", "{}"], ["error", "c"]]);
});
