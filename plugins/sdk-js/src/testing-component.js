// A plugin's component in the real sandbox, under its grant and limits, which the program `hotshoe` runs.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, realpathSync } from "node:fs";
import { join, parse as partsOf } from "node:path";
import { fileURLToPath } from "node:url";

/** The variable that names the program. Without it, it is the `hotshoe` on `PATH`. */
const PROGRAM = "HOTSHOE";
const MAX_OUTPUT_BYTES = 256 << 20;

/** What `hotshoe test` said, or why it could not, by folder. */
const tested = new Map();

export function componentCases(plugin) {
  const folder = realpathSync(pathOf(plugin));
  const cases = realpathSync(join(folder, "cases"));
  const files = readdirSync(cases).filter((file) => /^[^.].*\.ya?ml$/.test(file)).sort();
  assert.notEqual(files.length, 0, `${cases} has no cases, which are files *.yaml`);
  const each = files.map((file) => {
    const path = join(cases, file);
    return { name: partsOf(file).name, check: () => check(folder, `${path} was not run`, (record) => pathOfCase(record) === path) };
  });
  const besides = { name: "what must hold besides", check: () => check(folder, "", (record) => pathOfCase(record) === undefined) };
  return [...each, besides];
}

export function closedLoop(plugin, start) {
  const { parent, children = [], related = {}, config, now, finalize = false, within } = start;
  const call = finalize ? "finalize" : "reconcile";
  const steady = within === undefined ? undefined : { within };
  const given = { name: "closed loop", call, parent, children, related, config, now, steady };
  const end = asked("simulate", pathOf(plugin), ["--filename", "-"], JSON.stringify(given));
  assert.ok(end.settled, `the closed loop does not settle: ${end.why}`);
  return { decisions: end.decisions, parent: end.parent, children: end.children };
}

/** Fails where one of the records that are chosen does not pass. */
function check(folder, missing, isChosen) {
  if (!tested.has(folder)) tested.set(folder, attempt(() => asked("test", folder)));
  const { records, error } = tested.get(folder);
  if (error) assert.fail(error);
  const chosen = records.filter(isChosen);
  if (missing && chosen.length === 0) assert.fail(missing);
  const failed = chosen.filter((record) => !record.passed);
  if (failed.length > 0) assert.fail(failed.map((record) => `${record.name}:\n${said(record)}`).join("\n"));
}

/** Also an error is kept, so that what cannot be run is not run for each case. */
function attempt(ask) {
  try {
    return { records: ask() };
  } catch (error) {
    return { error: error.message };
  }
}

/** What must hold besides is no call, so that it has no time. */
function pathOfCase({ file, microseconds }) {
  return microseconds === undefined ? undefined : realpathSync(file);
}

function said({ error, difference, logs = [] }) {
  return [error, difference, ...logs.map(({ message }) => `     log: ${message}`)].filter(Boolean).join("\n");
}

/** Runs a verb of the program for a plugin, and reads what it prints. */
function asked(verb, folder, options = [], input = "") {
  const program = process.env[PROGRAM] || "hotshoe";
  const all = [verb, folder, "--build", "--output", "json", ...options];
  const { error, stdout, stderr } = spawnSync(program, all, { input, encoding: "utf8", maxBuffer: MAX_OUTPUT_BYTES });
  if (error?.code === "ENOENT" || error?.code === "EACCES") {
    assert.fail(
      `the program hotshoe cannot be run: ${error.message}; put it on PATH, or name it by the variable ${PROGRAM}. ` +
        "`./justw build` in the repository of Hotshoe makes it",
    );
  }
  try {
    return JSON.parse(stdout);
  } catch {
    assert.fail(`hotshoe ${verb} ${folder}: ${error?.message ?? stderr}`);
  }
}

function pathOf(folder) {
  return typeof folder === "string" ? folder : fileURLToPath(folder);
}
