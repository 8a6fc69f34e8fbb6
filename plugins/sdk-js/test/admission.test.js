import assert from "node:assert/strict";
import { test } from "node:test";

import { definePlugin, fieldError, reject, retry } from "@hotshoe/sdk";
import { checkCase, setDefaults, validate } from "@hotshoe/sdk/testing";

const DEFINITION = {
  name: "cache",
  version: "1.0.0",
  parent: { apiVersion: "example.com/v1", kind: "Cache" },
  reconcile: () => ({ children: "keep" }),
};
const OBJECT = { metadata: { name: "shop", namespace: "default", managedFields: [{ manager: "kubectl" }] }, spec: { size: 2 } };

function plugin(changes) {
  return definePlugin({ ...DEFINITION, ...changes });
}

function judged(value, proposed = { object: OBJECT }) {
  return validate(plugin({ validate: typeof value === "function" ? value : () => value }), proposed);
}

function defaulted(value, proposed = { object: OBJECT }) {
  return setDefaults(plugin({ setDefaults: typeof value === "function" ? value : () => value }), proposed);
}

function assertThrows(call, said) {
  assert.throws(call, (error) => error.message.includes(said) || assert.fail(`${error.message}\nhas not: ${said}`));
}

test("a proposed parent is shown whole, with the stored one, the configuration and what is done to it", () => {
  let shown;
  const see = (proposal) => {
    shown = proposal;
  };
  judged(see);
  const metadata = { name: "shop", namespace: "default" };
  const object = { apiVersion: "example.com/v1", kind: "Cache", metadata, spec: { size: 2 } };
  assert.deepEqual(shown, { operation: "create", object, old: undefined, config: {}, dryRun: false, user: undefined });
  judged(see, { object: OBJECT, old: { ...OBJECT, spec: { size: 9007199254740993n } }, config: { least: 2 }, dryRun: true });
  const old = { ...object, spec: { size: 9007199254740993n } };
  assert.deepEqual(shown, { operation: "update", object, old, config: { least: 2 }, dryRun: true, user: undefined });
});

test("a plugin is shown who writes a parent if the host says it", () => {
  const by = (user) => judged(({ user }) => ({ warnings: [JSON.stringify(user)] }), { object: OBJECT, user }).verdict.warnings[0];
  assert.equal(by({ username: "alice", groups: ["dev"] }), '{"groups":["dev"],"username":"alice"}');
  assert.equal(by({ username: "alice", uid: "u" }), '{"uid":"u","groups":[],"username":"alice"}');
  assertThrows(() => by({ username: "alice", group: ["dev"] }), "group is no known key");
});

test("each wrong field has a path, a reason of metav1 and a message", () => {
  const error = fieldError("spec.size", "NotSupported", "write 1 or 3");
  assert.deepEqual(judged({ errors: [error], warnings: ["it is small"] }), {
    verdict: { errors: [{ field: "spec.size", reason: "FieldValueNotSupported", message: "write 1 or 3" }], warnings: ["it is small"] },
  });
  for (const nothing of [undefined, {}, { errors: [] }]) assert.deepEqual(judged(nothing), { verdict: { errors: [], warnings: [] } });
});

test("reject and retry may be thrown or returned instead", () => {
  const rejected = { reject: { message: "too large", field: "spec.size" } };
  for (const call of [judged, defaulted]) {
    assert.deepEqual(call(reject("too large", "spec.size")), rejected);
    assert.deepEqual(call(() => { throw reject("too large", "spec.size"); }), rejected);
    assert.deepEqual(call(retry("later")), { retry: { message: "later" } });
    assert.throws(() => call(({ object }) => object.spec.owner.name), TypeError);
  }
});

test("a verdict of a wrong form names the value at fault", () => {
  for (const [value, said] of [
    [null, "the answer of validate is null; { errors, warnings } is expected"],
    [Promise.resolve({}), "the answer of validate is a Promise (a plugin answers at once: without `async`)"],
    [[], "the answer of validate is a list"],
    ["wrong", 'the answer of validate is "wrong"'],
    [{ error: [] }, "answer.error is no known key; answer has errors, warnings"],
    [{ errors: "no" }, 'errors is "no"; a list'],
    [{ errors: ["no"] }, 'errors[0] is "no"; an object'],
    [{ errors: [{ field: "spec", message: "no" }] }, "errors[0].reason is missing"],
    [{ errors: [fieldError("spec", "Wrong", "no")] }, 'errors[0].reason is "FieldValueWrong"; one of FieldValueInvalid,'],
    [{ errors: [fieldError(undefined, "Invalid", "no")] }, "errors[0].field is missing"],
    [{ errors: [fieldError("spec", "Invalid", 5)] }, "errors[0].message is 5; a text"],
    [{ warnings: [5] }, "warnings[0] is 5; a text"],
  ]) {
    assertThrows(() => judged(value), said);
  }
});

test("defaults are filled into the object that was shown, or into another one that is returned", () => {
  const expected = { apiVersion: "example.com/v1", kind: "Cache", metadata: { name: "shop", namespace: "default" }, spec: { size: 2, tier: "small" } };
  const config = { tier: "small" };
  const fill = ({ object, config }) => {
    object.spec.tier ??= config.tier;
  };
  assert.deepEqual(defaulted(fill, { object: OBJECT, config }), { defaulted: expected });
  const filled = ({ object, config }) => ({ ...object, spec: { ...object.spec, ...config } });
  assert.deepEqual(defaulted(filled, { object: OBJECT, config }), { defaulted: expected });
});

test("an object may have no name yet", () => {
  const { defaulted: object } = defaulted(undefined, { object: { metadata: { generateName: "shop-" } } });
  assert.deepEqual(object.metadata, { generateName: "shop-" });
});

test("an object of a wrong form names the value at fault", () => {
  for (const [value, said] of [
    [Promise.resolve(), "the answer of setDefaults is a Promise"],
    [null, "the answer of setDefaults is null; the object with its defaults, or nothing"],
    ["small", 'the answer of setDefaults is "small"'],
    [({ object }) => void (object.spec.size = NaN), "object.spec.size is NaN; a value that JSON has"],
  ]) {
    assertThrows(() => defaulted(value), said);
  }
});

test("cases of validate and default are checked, and one of what a plugin has not says so", () => {
  const parent = { apiVersion: "example.com/v1", kind: "Cache", ...OBJECT };
  const shrinks = ({ object, old }) => (old?.spec.size > object.spec.size ? { warnings: ["it shrinks"] } : {});
  const old = { ...parent, spec: { size: 3 } };
  const validates = plugin({ validate: shrinks });
  checkCase(validates, { file: "a.yaml", name: "a", call: "validate", parent, old, expect: { verdict: { warnings: ["it shrinks"] } } });
  checkCase(validates, { file: "a.yaml", name: "a", call: "validate", parent, expect: { verdict: {} } });
  const expect = { defaulted: { ...parent, metadata: { name: "shop", namespace: "default" }, spec: { size: 2 } } };
  const fills = plugin({ setDefaults: ({ object }) => void (object.spec.old = null) });
  checkCase(fills, { file: "b.yaml", name: "b", call: "default", parent, expect });
  assert.throws(() => checkCase(validates, { file: "b.yaml", name: "b", call: "default", parent, expect }), /the plugin has no setDefaults/);
  checkCase(validates, { file: "c.yaml", name: "c", call: "validate", parent, valid: false, expect: { verdict: {} } });
  checkCase(validates, { file: "d.yaml", name: "d", parent, expect: { refused: [{ field: "spec.size" }] } });
  assert.throws(() => validate(fills, { object: parent }), /the plugin has no validate: give definePlugin one/);
});
