// What is asked of the program, and what its answers become; a script stands in for it.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { closedLoop, componentCases } from "../src/testing.js";

/** The folder of a plugin with two cases, and of the answers of the program to each verb; removed after the test. */
function plugin(context) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "hotshoe-")));
  context.after(() => rmSync(folder, { recursive: true }));
  const script = `#!${process.execPath}
const fs = require("node:fs");
fs.appendFileSync("${folder}/calls", JSON.stringify([process.argv.slice(2), fs.readFileSync(0, "utf8")]) + "\\n");
const answer = fs.readFileSync("${folder}/" + process.argv[2], "utf8");
console[answer.startsWith("error") ? "error" : "log"](answer);
`;
  writeFileSync(join(folder, "hotshoe"), script, { mode: 0o755 });
  process.env.HOTSHOE = join(folder, "hotshoe");
  mkdirSync(join(folder, "cases"));
  for (const file of ["resize.yaml", "created.yml"]) writeFileSync(join(folder, "cases", file), "");
  return folder;
}

function calls(folder) {
  return readFileSync(join(folder, "calls"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
}

test("each case fails by itself, and what must hold besides is one more", (context) => {
  const folder = plugin(context);
  const record = (name, passed, more) => ({ name, file: join(folder, "cases", name), passed, microseconds: 1, ...more });
  const records = [
    record("created.yml", true),
    record("resize.yaml", false, { difference: "- 1\n+ 2", logs: [{ message: "seen" }] }),
    { name: "a sample", file: "crds/samples/a.yaml", passed: false, error: "no size" },
    { name: "the loop", file: join(folder, "cases/created.yml"), passed: true, error: null },
  ];
  writeFileSync(join(folder, "test"), JSON.stringify(records));
  const [created, resize, besides] = componentCases(folder);
  assert.deepEqual([created, resize, besides].map(({ name }) => name), ["created", "resize", "what must hold besides"]);
  created.check();
  assert.throws(() => resize.check(), /resize\.yaml:\n- 1\n\+ 2\n +log: seen/);
  assert.throws(() => besides.check(), /a sample:\nno size/);
  assert.deepEqual(calls(folder).map(([words]) => words), [["test", folder, "--build", "--output", "json"]]);
});

test("a program that fails or is missing is the failure of each case, and asked once", (context) => {
  const folder = plugin(context);
  writeFileSync(join(folder, "test"), "error: it does not compile");
  for (const one of componentCases(folder)) assert.throws(() => one.check(), /hotshoe test .*: error: it does not compile/);
  assert.equal(calls(folder).length, 1);
  process.env.HOTSHOE = "/nowhere/hotshoe";
  assert.throws(() => closedLoop(folder, { parent: {} }), /put it on PATH, or name it by the variable HOTSHOE/);
});

test("a closed loop begins with what is given, and ends or fails", (context) => {
  const folder = plugin(context);
  const child = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "a" } };
  const end = { settled: true, why: null, decisions: [], parent: { status: { ready: 1 } }, children: [child] };
  writeFileSync(join(folder, "simulate"), JSON.stringify(end));
  const { settled, why, ...rest } = end;
  assert.deepEqual(closedLoop(folder, { parent: { kind: "Web" }, children: [child], now: 5, within: 3 }), rest);
  const [[words, input]] = calls(folder);
  assert.deepEqual(words, ["simulate", folder, "--build", "--output", "json", "--filename", "-"]);
  const given = { name: "closed loop", call: "reconcile", parent: { kind: "Web" }, children: [child], related: {}, now: 5, steady: { within: 3 } };
  assert.deepEqual(JSON.parse(input), given);
  writeFileSync(join(folder, "simulate"), JSON.stringify({ ...end, settled: false, why: "after 4 decisions" }));
  assert.throws(() => closedLoop(folder, { parent: { kind: "Web" } }), /does not settle: after 4 decisions/);
});
