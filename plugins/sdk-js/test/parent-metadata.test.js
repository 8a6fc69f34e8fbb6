import assert from "node:assert/strict";
import { test } from "node:test";

import { definePlugin } from "@hotshoe/sdk";
import { reconcile } from "@hotshoe/sdk/testing";

const PARENT = { metadata: { name: "shop", namespace: "n" }, spec: {} };

function answered(decision) {
  const parent = { apiVersion: "example.com/v1", kind: "Shop" };
  return reconcile(definePlugin({ name: "demo", version: "1", parent, reconcile: () => decision }), { parent: PARENT });
}

test("what is stated of the parent is one of the desired objects, without what is undefined", () => {
  const { decided } = answered({
    children: [],
    parentLabels: { "e.com/tier": "gold", "e.com/none": undefined },
    parentAnnotations: { "e.com/note": "a b" },
  });
  const metadata = { name: "shop", namespace: "n", labels: { "e.com/tier": "gold" }, annotations: { "e.com/note": "a b" } };
  assert.deepEqual(decided.children, { exactly: [{ apiVersion: "example.com/v1", kind: "Shop", metadata }] });
});

test("a decision that states nothing of the parent has its children alone", () => {
  assert.deepEqual(answered({ children: [], parentLabels: {} }).decided.children, { exactly: [] });
  assert.equal(answered({ children: "keep", parentAnnotations: {} }).decided.children, "keep");
});

test("what cannot be stated is said with its place", () => {
  const fails = (decision, message) => assert.throws(() => answered(decision), message);
  fails({ children: "keep", parentLabels: { "e.com/a": "1" } }, /keeps the children cannot label/);
  fails({ children: [], parentLabels: { "e.com/a": 1 } }, /parentLabels\["e.com\/a"\] is 1; a text is expected/);
  fails({ children: [], parentAnnotations: ["a"] }, /parentAnnotations is a list; an object is expected/);
});
