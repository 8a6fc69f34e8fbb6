import assert from "node:assert/strict";
import { test } from "node:test";

import { condition, definePlugin } from "@hotshoe/sdk";
import { reconcile } from "@hotshoe/sdk/testing";

import { parse, stringify } from "../src/json.js";

const PASSING = definePlugin({
  name: "echo",
  version: "1.0.0",
  parent: { apiVersion: "example.com/v1", kind: "Echo" },
  reconcile: ({ parent }) => ({ children: "keep", status: { big: parent.spec.big }, conditions: [condition("Ready", true, "Passed")] }),
});

test("integers of 64 bits are the same when they are written again", () => {
  for (const integer of ["9007199254740991", "9007199254740993", "-9007199254740993", "9223372036854775807", "-9223372036854775808"]) {
    const text = `{"spec":{"big":${integer},"list":[1,${integer},[],{}],"text":"${integer}"}}`;
    assert.equal(stringify(parse(text)), text);
  }
});

test("an integer that a number holds is a number, and so is what is no integer of Kubernetes", () => {
  const text = '{"a":9007199254740991,"b":9007199254740993,"c":9223372036854775808,"d":1e300,"e":0.12345678901234567}';
  assert.deepEqual(parse(text), { a: 9007199254740991, b: 9007199254740993n, c: 2 ** 63, d: 1e300, e: 0.12345678901234567 });
});

test("beside a large integer everything is read as ever", () => {
  const text = ' { "é\\"\\\\,:[{" : [ null , true,false,-0.5e-3, "1234567890123456789" , [ ] , { } ], "__proto__": {"x":1}, "n": 12345678901234567890123, "last" : 9007199254740993 } ';
  const value = parse(text);
  assert.equal(value.last, 9007199254740993n);
  delete value.last;
  const plain = JSON.parse(text);
  delete plain.last;
  assert.deepEqual(value, plain);
  assert.ok(Object.hasOwn(value, "__proto__") && Object.getPrototypeOf(value) === Object.prototype);
  assert.equal(parse("9007199254740993"), 9007199254740993n);
});

test("what is undefined is left out beside a large integer too", () => {
  assert.equal(stringify({ a: undefined, b: 2n ** 60n, c: [undefined] }), '{"b":1152921504606846976,"c":[null]}');
  const circle = {};
  circle.circle = circle;
  assert.throws(() => stringify(circle));
});

test("a plugin passes a large integer on exactly, and one that Kubernetes cannot hold is refused", () => {
  const answer = (big) => reconcile(PASSING, { parent: { metadata: { name: "a" }, spec: { big } } });
  assert.equal(stringify(answer(9007199254740993n).decided.status), '{"big":9007199254740993}');
  const tooLarge = definePlugin({ ...DEFINITION, reconcile: () => ({ children: "keep", status: { big: 2n ** 63n } }) });
  assert.throws(() => reconcile(tooLarge, { parent: { metadata: { name: "a" } } }), /status\.big is 9223372036854775808/);
});

const DEFINITION = { name: "echo", version: "1.0.0", parent: { apiVersion: "example.com/v1", kind: "Echo" } };
