import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { harmless, requireHarmless } from "@hotshoe/sdk";

import { RULES } from "../src/harmless-rules.js";

const read = (path) => JSON.parse(readFileSync(new URL(`../../sdk/${path}`, import.meta.url), "utf8"));

for (const { name, template, harmless: expected = template, removed } of read("tests/harmless.json")) {
  test(name, () => {
    const before = structuredClone(template);
    assert.deepEqual(harmless(template), { template: expected, removed });
    assert.deepEqual(template, before, "the template of the user stays as it was");
    assert.deepEqual(harmless(expected), { template: expected, removed: [] });
  });
}

test("the rules are those of each SDK", () => assert.deepEqual(RULES, read("src/harmless.json")));

test("a template from which something has to be removed rejects the parent, with its field", () => {
  const containers = [{ name: "a", image: "b" }];
  const closed = { automountServiceAccountToken: false, containers: [{ ...containers[0], securityContext: { allowPrivilegeEscalation: false } }] };
  assert.deepEqual(requireHarmless({ spec: { containers } }, "spec.template"), { spec: closed });
  const open = { spec: { containers, hostNetwork: true, hostPID: true } };
  assert.throws(() => requireHarmless(open, "spec.template"), { message: "remove spec.hostNetwork, spec.hostPID", field: "spec.template" });
});
