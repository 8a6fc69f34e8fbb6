import assert from "node:assert/strict";
import { test } from "node:test";

import { leave } from "@hotshoe/sdk";

test("fields that are left are named in an annotation, and the child stays as it was", () => {
  const child = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a", annotations: { note: "x" } } };
  const left = leave(child, "data.theirs", "metadata.labels['example.com/size']");
  const fields = "data.theirs,metadata.labels['example.com/size']";
  assert.deepEqual(left.metadata, { name: "a", annotations: { note: "x", "hotshoe.dev/leave": fields } });
  assert.deepEqual(child.metadata.annotations, { note: "x" });
  assert.deepEqual(leave({ metadata: { name: "a" } }, "data.b").metadata.annotations, { "hotshoe.dev/leave": "data.b" });
});
