import assert from "node:assert/strict";
import { test } from "node:test";

import { leave, recreate } from "@hotshoe/sdk";

test("a child that is made anew where it cannot change says so in an annotation, and stays as it was", () => {
  const child = { apiVersion: "batch/v1", kind: "Job", metadata: { name: "a", annotations: { note: "x" } } };
  const stated = { note: "x", "hotshoe.dev/update-strategy": "Recreate" };
  assert.deepEqual(recreate(child), { ...child, metadata: { name: "a", annotations: stated } });
  assert.deepEqual(child.metadata.annotations, { note: "x" });
  const both = leave(recreate({ metadata: { name: "a" } }), "spec.b").metadata.annotations;
  assert.deepEqual(both, { "hotshoe.dev/update-strategy": "Recreate", "hotshoe.dev/leave": "spec.b" });
});
