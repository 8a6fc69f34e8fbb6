import assert from "node:assert/strict";
import { test } from "node:test";

import { definePlugin, reject } from "@hotshoe/sdk";
import { convert } from "@hotshoe/sdk/testing";

/** The rest of a division, which v1 cannot say. */
const REST = "example.com/rest";

/** v1alpha1 ⇄ v1beta1 ⇄ v1, which counts in pairs. */
const CONVERSIONS = {
  v1alpha1: { v1beta1: ({ size }) => ({ replicas: size }) },
  v1beta1: {
    v1alpha1: ({ replicas }) => ({ size: replicas }),
    v1({ replicas }, annotations) {
      if (replicas % 2 === 1) annotations[REST] = "1";
      return { pairs: Math.floor(replicas / 2) };
    },
  },
  v1: {
    v1beta1({ pairs, metadata: { annotations, ...metadata } }) {
      const { [REST]: rest, ...others } = annotations;
      return { replicas: 2 * pairs + (rest === undefined ? 0 : 1), metadata: { ...metadata, annotations: others } };
    },
  },
};

function plugin(conversions) {
  return definePlugin({
    name: "test",
    version: "1.0.0",
    parent: { apiVersion: "example.com/v1", kind: "Test" },
    reconcile: () => ({ children: "keep" }),
    conversions,
  });
}

function object(version, fields) {
  const metadata = { name: "a", namespace: "shop", uid: "1", labels: { app: "web" }, ...fields.metadata };
  return { apiVersion: `example.com/${version}`, kind: "Test", ...fields, metadata };
}

/** One function between two versions, in the direction that is tried. */
function tried(answer) {
  const forth = typeof answer === "function" ? answer : () => answer;
  return convert(plugin({ v1: { v2: forth }, v2: { v1: (same) => same } }), object("v1", { size: 1 }), "v2");
}

test("an object is converted over a version in the middle and back without loss", () => {
  const old = object("v1alpha1", { size: 5 });
  const { converted } = convert(plugin(CONVERSIONS), old, "v1");
  assert.deepEqual(converted, object("v1", { pairs: 2, metadata: { annotations: { [REST]: "1" } } }));
  assert.deepEqual(convert(plugin(CONVERSIONS), converted, "v1alpha1"), { converted: old });
});

test("an object that has the version stays as it is", () => {
  const same = object("v1", { pairs: 2, unknown: 1 });
  assert.deepEqual(convert(plugin(CONVERSIONS), same, "v1"), { converted: same });
});

test("what is not returned of apiVersion, kind and metadata stays, and annotations that are removed are gone", () => {
  const { converted } = tried((same) => same);
  assert.deepEqual(converted, object("v2", { size: 1 }));
  const noted = object("v1", { metadata: { annotations: { note: "x" } } });
  const forget = (_, annotations) => {
    annotations.note = undefined;
    return {};
  };
  const forgetting = plugin({ v1: { v2: forget }, v2: { v1: (same) => same } });
  assert.deepEqual(convert(forgetting, noted, "v2"), { converted: object("v2", {}) });
  assert.equal(noted.metadata.annotations.note, "x", "the object that was given is not changed");
});

test("what the host denies is left to it, and not lost on the way", () => {
  const renamed = tried(({ metadata }) => ({ metadata: { ...metadata, name: "b" } })).converted;
  assert.equal(renamed.metadata.name, "b");
});

test("an object that cannot be converted is rejected, by a throw or an answer", () => {
  const rejected = { reject: { message: "none", field: "size" } };
  assert.deepEqual(tried(reject("none", "size")), rejected);
  assert.deepEqual(tried(() => { throw reject("none", "size"); }), rejected);
});

test("an answer of a wrong form names the function", () => {
  for (const [answer, said] of [
    [undefined, "the answer of conversions.v1.v2 is undefined; the object as it is in v2 is expected"],
    [Promise.resolve({}), "the answer of conversions.v1.v2 is a Promise"],
    [[], "the answer of conversions.v1.v2 is a list"],
    [{ size: NaN }, "the answer of conversions.v1.v2.size is NaN"],
    [{ metadata: "none" }, 'metadata after conversions.v1.v2 is "none"; an object'],
    [(_, annotations) => ({ ports: (annotations.ports = [1]) }), "the annotation ports after conversions.v1.v2 is a list; a text"],
  ]) {
    assert.throws(() => tried(answer), (error) => error.message.includes(said) || assert.fail(`${error.message}\nhas not: ${said}`));
  }
});

test("a version without a function is named, with what to define", () => {
  const same = (object) => object;
  for (const [conversions, said] of [
    [{}, "conversions has no function: leave it out where no version differs"],
    [{ v1: { v2: "same" } }, 'conversions.v1.v2 is "same"; a function is expected'],
    [{ v1: same }, "conversions.v1 is a function; an object"],
    [{ v1: { v2: same } }, "no conversion leads from v2 to v1: define conversions.v2.v1"],
    [{ v2: { v3: same }, v3: { v2: same } }, "no conversion leads from v1 to v2: define conversions.v1.v2"],
  ]) {
    assert.throws(() => plugin(conversions), (error) => error.message.includes(said) || assert.fail(`${error.message}\nhas not: ${said}`));
  }
  const unknown = () => convert(plugin(CONVERSIONS), object("v1", {}), "v2");
  assert.throws(unknown, /no conversion leads from v1 to v2: define conversions.v1.v2, or others that lead there/);
});
