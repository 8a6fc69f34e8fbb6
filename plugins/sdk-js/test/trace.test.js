import assert from "node:assert/strict";
import { test } from "node:test";

import { explained, traced } from "../src/trace.js";

class QuotaError extends Error {}

test("an error is explained by its type, its message and its line", () => {
  const error = new TypeError("no such thing");
  error.stack = "    at podNames (componentize-qjs:user.js:7:12)\n    at reconcile (componentize-qjs:user.js:3:5)\n";
  assert.equal(explained(error), "TypeError: no such thing (componentize-qjs:user.js:7)");
});

test("lines are those of the author's files", () => {
  globalThis[Symbol.for("hotshoe.sources")] = {
    files: ["node_modules/left-pad/index.js", "plugin.js", "names.js"],
    places: "2,0,0,9;3,0,1,40;3,20,1,42;7,0,2,3",
  };
  const error = new QuotaError("used up");
  error.stack = [
    "    at QuotaError (componentize-qjs:user.js:7:30)",
    "    at leftPad (componentize-qjs:user.js:2:4)",
    "    at podNames (componentize-qjs:user.js:7:12)",
    "    at reconcile (componentize-qjs:user.js:3:25)",
    "    at answerOf (componentize-qjs:user.js:100:5)",
    "    at <anonymous> (native)",
  ].join("\n");
  try {
    assert.equal(explained(error), "QuotaError: used up (names.js:3)");
    const stack = "QuotaError: used up\n    at leftPad (node_modules/left-pad/index.js:9)\n    at podNames (names.js:3)\n    at reconcile (plugin.js:42)";
    assert.equal(traced(error), stack);
  } finally {
    delete globalThis[Symbol.for("hotshoe.sources")];
  }
});

test("causes are explained too, three of them", () => {
  let error = new Error("0");
  for (const message of ["1", "2", "3", "4"]) error = Object.assign(new Error(message, { cause: error }), { stack: "" });
  assert.equal(explained(error), "Error: 4, caused by Error: 3, caused by Error: 2, caused by Error: 1");
});

test("what is no Error is shown as it is", () => {
  assert.equal(explained("help"), 'a value that is no Error was thrown: "help"');
  assert.equal(explained({ code: 7 }), 'a value that is no Error was thrown: {"code":7}');
  assert.equal(explained(undefined), "a value that is no Error was thrown: undefined");
});
