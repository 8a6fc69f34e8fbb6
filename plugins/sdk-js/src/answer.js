// What a plugin answers: the words for an author, and the check of what came of them.
//
// An answer that was checked has the form of `expect` in a case file.

import { checkAnswer, checkJson, checkKeys, checkList, checkObject, checkOneOf, checkText, InvalidForm, milliseconds, wrong } from "./check.js";
import { answered } from "./failure.js";
import { kindOf, referenceOf } from "./kind.js";
import { selectorText } from "./selector.js";

const DECISION = ["status", "conditions", "events", "requeueAfterMs", "parentLabels", "parentAnnotations"];
const STATUSES = ["True", "False", "Unknown"];
const SEVERITIES = ["Normal", "Warning"];

export function condition(type, status, reason, message = "") {
  return { type, status: typeof status === "boolean" ? (status ? "True" : "False") : status, reason, message };
}

export function normal(reason, message) {
  return { severity: "Normal", reason, message };
}

export function warning(reason, message) {
  return { severity: "Warning", reason, message };
}

export function needs(...requirements) {
  return { needs: requirements.flat().map(selecting) };
}

/** The requirement with its selector, where it has one, as a text. */
function selecting(need) {
  return need?.selector === undefined ? need : { ...need, selector: selectorText(need.selector) };
}

export function waiting(decision) {
  return { waiting: decision };
}

export function done(decision = { children: "keep" }) {
  return { done: decision };
}

/** The answer of `reconcile` or `finalize`, checked. What it throws beyond `reject` and `retry` is thrown on. */
export function answerOf(plugin, call, request) {
  return answered(() => plugin[call](request), (answer) => checked(call, answer, request));
}

function checked(call, answer, request) {
  const expected = call === "reconcile" ? "a decision or needs(…)" : "waiting(…) or done(…)";
  checkAnswer(answer, call, expected);
  if (call === "reconcile") {
    return "needs" in answer ? { needs: required(answer) } : { decided: decided(answer, "answer", request) };
  }
  const tag = "done" in answer ? "done" : "waiting";
  if (!(tag in answer)) throw wrong(answer, `the answer of ${call}`, expected);
  checkKeys(answer, "answer", [tag]);
  return { [tag]: decided(answer[tag], tag, request) };
}

function required(answer) {
  checkKeys(answer, "answer", ["needs"]);
  checkList(answer.needs, "needs");
  answer.needs.forEach((need, index) => {
    const at = `needs[${index}]`;
    checkKeys(need, at, ["key", "apiVersion", "kind"], ["name", "selector", "namespace"]);
    kindOf(need, at);
    checkText(need.key, at, "key");
    checkSubject(need, at);
    if (need.namespace !== undefined) checkText(need.namespace, at, "namespace");
  });
  return answer.needs;
}

/** Throws unless a requirement names one object, or selects several. */
function checkSubject({ name, selector }, path) {
  if ((name === undefined) === (selector === undefined)) {
    throw new InvalidForm(`${path} has ${name === undefined ? "neither a name nor a selector" : "a name and a selector"}; give it one of them`);
  }
  if (name !== undefined) checkText(name, path, "name");
  if (selector !== undefined && typeof selector !== "string") throw wrong(selector, `${path}.selector`, "a text");
}

function decided(decision, path, request) {
  checkKeys(decision, path, ["children"], DECISION);
  const { children, status, conditions = [], events = [], requeueAfterMs } = decision;
  return {
    children: objects(children, ofParent(decision, request)),
    ...(status === undefined ? {} : { status: checkedStatus(status) }),
    conditions: each(conditions, "conditions", stated),
    events: each(events, "events", reported),
    ...(requeueAfterMs === undefined ? {} : { requeueAfterMs: milliseconds(requeueAfterMs, "requeueAfterMs") }),
  };
}

/** The desired objects, in the form of the contract: what is stated of the parent is one of them. */
function objects(children, stated) {
  if (children !== "keep") return { exactly: [...desired(children), ...stated] };
  if (stated.length === 0) return children;
  throw new InvalidForm("a decision that keeps the children cannot label or annotate the parent: name its children");
}

function ofParent({ parentLabels = {}, parentAnnotations = {} }, { name, namespace, parent: { apiVersion, kind } }) {
  const texts = { labels: textsOf(parentLabels, "parentLabels"), annotations: textsOf(parentAnnotations, "parentAnnotations") };
  const stated = Object.entries(texts).filter(([, members]) => Object.keys(members).length > 0);
  if (stated.length === 0) return [];
  const named = namespace === undefined ? { name } : { name, namespace };
  return [{ apiVersion, kind, metadata: { ...named, ...Object.fromEntries(stated) } }];
}

/** What is undefined is not there, as in JSON. */
function textsOf(members, path) {
  checkObject(members, path);
  const texts = Object.entries(members).filter(([, value]) => value !== undefined);
  for (const [key, value] of texts) if (typeof value !== "string") throw wrong(value, `${path}[${JSON.stringify(key)}]`, "a text");
  return Object.fromEntries(texts);
}

function desired(children) {
  if (!Array.isArray(children)) throw wrong(children, "children", 'a list of objects or "keep"');
  children.forEach((child, index) => {
    const path = `children[${index}]`;
    checkObject(child, path);
    checkJson(child, path);
    referenceOf(child, path);
  });
  return children;
}

function checkedStatus(status) {
  checkObject(status, "status");
  checkJson(status, "status");
  return status;
}

function each(list, path, check) {
  checkList(list, path);
  return list.map((item, index) => check(item, `${path}[${index}]`));
}

function stated(item, path) {
  checkKeys(item, path, ["type", "status", "reason"], ["message"]);
  checkText(item.type, path, "type");
  checkOneOf(item.status, `${path}.status`, STATUSES);
  checkText(item.reason, path, "reason");
  return { message: "", ...item };
}

function reported(item, path) {
  checkKeys(item, path, ["severity", "reason", "message"]);
  checkOneOf(item.severity, `${path}.severity`, SEVERITIES);
  for (const key of ["reason", "message"]) checkText(item[key], path, key);
  return item;
}
