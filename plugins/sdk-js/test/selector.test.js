import assert from "node:assert/strict";
import { test } from "node:test";

import { definePlugin, needs } from "@hotshoe/sdk";
import { reconcile } from "@hotshoe/sdk/testing";

const PODS = { key: "pods", apiVersion: "v1", kind: "Pod" };

function answer(selector) {
  const parent = { apiVersion: "example.com/v1", kind: "Shop" };
  const plugin = definePlugin({ name: "shop", version: "0.1.0", parent, reconcile: () => needs({ ...PODS, selector }) });
  return reconcile(plugin, { parent: { metadata: { name: "a" } } });
}

test("a selector of a spec is written as kubectl does", () => {
  for (const [selector, text] of [
    ["app=shop,!legacy", "app=shop,!legacy"],
    ["", ""],
    [{}, ""],
    [{ matchLabels: { b: "", a: "1" }, matchExpressions: null }, "a=1,b="],
    [
      {
        matchLabels: { "example.com/a": "x" },
        matchExpressions: [
          { key: "b", operator: "In", values: ["y", "z"] },
          { key: "c", operator: "NotIn", values: ["y"] },
          { key: "d", operator: "Exists" },
          { key: "e", operator: "DoesNotExist", values: [] },
        ],
      },
      "example.com/a=x,b in (y,z),c notin (y),d,!e",
    ],
  ]) {
    assert.deepEqual(answer(selector), { needs: [{ ...PODS, selector: text }] });
  }
});

test("what is no selector rejects the parent", () => {
  for (const selector of [
    null,
    ["app"],
    { matchLabel: {} },
    { matchLabels: { a: "b,c=d" } },
    { matchLabels: { a: 1 } },
    { matchExpressions: [{ key: "a", operator: "in", values: ["b"] }] },
    { matchExpressions: [{ key: "a", operator: "In" }] },
    { matchExpressions: [{ key: "a", operator: "In", values: ["b)"] }] },
    { matchExpressions: [{ key: "a", operator: "Exists", values: ["b"] }] },
  ]) {
    assert.ok(answer(selector).reject, JSON.stringify(selector));
  }
});

test("a requirement has a name or a selector", () => {
  const asked = (need) => {
    const parent = { apiVersion: "example.com/v1", kind: "Shop" };
    const plugin = definePlugin({ name: "shop", version: "0.1.0", parent, reconcile: () => needs(need) });
    return reconcile(plugin, { parent: { metadata: { name: "a" } } });
  };
  assert.throws(() => asked(PODS), /needs\[0\] has neither a name nor a selector/);
  assert.throws(() => asked({ ...PODS, name: "a", selector: "b" }), /needs\[0\] has a name and a selector/);
});
