import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { harmless } from "@hotshoe/sdk";

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
