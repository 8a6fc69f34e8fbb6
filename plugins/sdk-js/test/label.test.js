import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { parentLabel } from "@hotshoe/sdk";

test("a label is what the host compares with", () => {
  // The host is held to the same file.
  const vectors = JSON.parse(readFileSync(new URL("../../../tests/vectors/parent-label.json", import.meta.url), "utf8"));
  assert.ok(vectors.length > 0);
  for (const [name, label] of vectors) assert.equal(parentLabel(name), label, name);
});
