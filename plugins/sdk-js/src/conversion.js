// Versions of a kind: functions from the form of one version to that of another.

import { checkAnswer, checkJson, checkObject, InvalidForm, wrong } from "./check.js";
import { answered, isFailure } from "./failure.js";
import { apiVersionOf, kindOf } from "./kind.js";

/** Checks a table of functions, `conversions[from][to]`: from each version a way leads to each other one. */
export function checkConversions(conversions, watched) {
  checkObject(conversions, "conversions");
  for (const [from, others] of Object.entries(conversions)) {
    checkObject(others, `conversions.${from}`);
    for (const [to, convert] of Object.entries(others)) {
      if (typeof convert !== "function") throw wrong(convert, `conversions.${from}.${to}`, "a function");
    }
  }
  const versions = versionsOf(conversions, watched);
  if (versions.length < 2) throw new InvalidForm("conversions has no function: leave it out where no version differs");
  for (const from of versions) for (const to of versions) wayBetween(conversions, from, to);
}

function versionsOf(conversions, watched) {
  const named = Object.entries(conversions).flatMap(([from, others]) => [from, ...Object.keys(others)]);
  return Array.from(new Set([watched, ...named]));
}

/** Objects as they are in another version. What a function throws beyond `reject` and `retry` is thrown on. */
export function conversionOf({ conversions }, objects, toVersion) {
  return answered(() => objects.map((object) => converted(conversions, object, toVersion)), (all) => ({ converted: all }));
}

function converted(conversions, object, toVersion) {
  const way = wayBetween(conversions, kindOf(object, "object").version, toVersion);
  return way.reduce((at, [from, to]) => step(at, to, conversions[from][to], `conversions.${from}.${to}`), object);
}

/** The fewest steps that lead from one version to another. */
function wayBetween(conversions, from, to) {
  const seen = new Set([from]);
  const ways = [{ at: from, steps: [] }];
  // It grows while it is walked.
  for (const { at, steps } of ways) {
    if (at === to) return steps;
    for (const next of Object.keys(conversions[at] ?? {})) {
      if (!seen.has(next)) ways.push({ at: next, steps: [...steps, [at, next]] });
      seen.add(next);
    }
  }
  throw new InvalidForm(`no conversion leads from ${from} to ${to}: define conversions.${from}.${to}, or others that lead there`);
}

function step(object, to, convert, name) {
  const { group } = kindOf(object, "object");
  const { kind, metadata } = object;
  const shown = { ...object, metadata: { ...metadata, annotations: { ...metadata.annotations } } };
  const answer = convert(shown, shown.metadata.annotations);
  if (isFailure(answer)) throw answer;
  checkAnswer(answer, name, `the object as it is in ${to}`);
  checkJson(answer, `the answer of ${name}`);
  return { ...answer, apiVersion: apiVersionOf({ group, version: to }), kind, metadata: kept(answer.metadata ?? shown.metadata, name) };
}

/** The metadata, without annotations if there are none. */
function kept(metadata, name) {
  checkObject(metadata, `metadata after ${name}`);
  const { annotations = {}, ...others } = metadata;
  checkObject(annotations, `metadata.annotations after ${name}`);
  const texts = Object.entries(annotations).filter(([, value]) => value !== undefined);
  for (const [key, value] of texts) {
    if (typeof value !== "string") throw wrong(value, `the annotation ${key} after ${name}`, "a text");
  }
  return texts.length === 0 ? others : { ...others, annotations: Object.fromEntries(texts) };
}
