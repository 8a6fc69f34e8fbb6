// Whether what an author wrote has the form that the host reads: each error names the value at fault by its path.

import { isStorable } from "./json.js";

const JSON_DEPTH = 64;

/** What an author's definition or answer does wrong. */
export class InvalidForm extends TypeError {
  get name() {
    return "InvalidForm";
  }
}

/** Throws unless the value is an object with these keys and no other; `required` ones must be there. */
export function checkKeys(value, path, required, optional = []) {
  checkObject(value, path);
  for (const key of Object.keys(value)) {
    if (!required.includes(key) && !optional.includes(key)) {
      throw new InvalidForm(`${below(path, key)} is no known key; ${here(path)} has ${[...required, ...optional].join(", ")}`);
    }
  }
  for (const key of required) {
    if (value[key] === undefined) throw new InvalidForm(`${below(path, key)} is missing`);
  }
}

export function checkObject(value, path) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw wrong(value, path, "an object");
}

/** Throws unless what a function of the author's answered is an object, and no Promise of one. */
export function checkAnswer(value, name, expected) {
  if (typeof value !== "object" || value === null || Array.isArray(value) || typeof value.then === "function") {
    throw wrong(value, `the answer of ${name}`, expected);
  }
}

export function checkList(value, path) {
  if (!Array.isArray(value)) throw wrong(value, path, "a list");
}

/** The value is that of the key, if one is given, of what is at the path. */
export function checkText(value, path, key) {
  if (typeof value !== "string" || value === "") throw wrong(value, key === undefined ? path : below(path, key), "a text");
}

export function checkTexts(value, path) {
  checkList(value, path);
  value.forEach((text, index) => checkText(text, `${path}[${index}]`));
}

export function checkOneOf(value, path, choices) {
  if (!choices.includes(value)) throw wrong(value, path, `one of ${choices.join(", ")}`);
}

/** A span of time, in whole milliseconds. */
export function milliseconds(value, path) {
  if (!Number.isFinite(value) || value < 0 || value > Number.MAX_SAFE_INTEGER) {
    throw wrong(value, path, "a number of milliseconds, 0 or more");
  }
  return Math.ceil(value);
}

/** Throws where JSON would drop or change a value: NaN, functions, dates, gaps in lists, what contains itself. */
export function checkJson(value, path) {
  // Nearly every value is well, and paths cost more than the look.
  if (!isJson(value, 0)) throw faultIn(value, path, 0);
}

function isJson(value, depth) {
  switch (typeof value) {
    case "string":
    case "boolean":
      return true;
    case "number":
      return Number.isFinite(value);
    case "bigint":
      return isStorable(value);
    case "object":
      if (value === null) return true;
      if (depth > JSON_DEPTH) return false;
      if (Array.isArray(value)) {
        for (let index = 0; index < value.length; index += 1) if (!isJson(value[index], depth + 1)) return false;
        return true;
      }
      if (!isPlain(value)) return false;
      for (const key in value) {
        // As in JSON.stringify, what is undefined is not there.
        const member = value[key];
        if (member !== undefined && !isJson(member, depth + 1)) return false;
      }
      return true;
    default:
      return false;
  }
}

/** The error that names the first value in it that JSON has not. */
function faultIn(value, path, depth) {
  if (depth > JSON_DEPTH) return new InvalidForm(`${path} is nested more than ${JSON_DEPTH} deep, or contains itself`);
  if (typeof value !== "object" || value === null || !(Array.isArray(value) || isPlain(value))) {
    return wrong(value, path, "a value that JSON has");
  }
  for (const [key, member] of Object.entries(Array.isArray(value) ? Array.from(value) : value)) {
    const isThere = member !== undefined || Array.isArray(value);
    if (isThere && !isJson(member, depth + 1)) {
      return faultIn(member, Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`, depth + 1);
    }
  }
  return wrong(value, path, "a value that JSON has");
}

function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

export function wrong(value, path, expected) {
  return new InvalidForm(`${here(path)} is ${shown(value)}; ${expected} is expected`);
}

/** The value in a few words, as an author knows it. */
function shown(value) {
  switch (typeof value) {
    case "string":
      return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
    case "function":
      return "a function";
    case "object":
      if (value === null) return "null";
      if (typeof value.then === "function") return "a Promise (a plugin answers at once: without `async`)";
      return Array.isArray(value) ? "a list" : isPlain(value) ? "an object" : `a ${value.constructor?.name ?? "value"}`;
    default:
      return String(value);
  }
}

function below(path, key) {
  return path === "" ? key : `${path}.${key}`;
}

function here(path) {
  return path === "" ? "it" : path;
}
