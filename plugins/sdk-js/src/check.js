// Whether what an author wrote has the form that the host reads: each error names the value at fault by its path.

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

export function checkList(value, path) {
  if (!Array.isArray(value)) throw wrong(value, path, "a list");
}

export function checkText(value, path) {
  if (typeof value !== "string" || value === "") throw wrong(value, path, "a text");
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
export function checkJson(value, path, depth = 0) {
  switch (typeof value) {
    case "string":
    case "boolean":
      return;
    case "number":
      if (Number.isFinite(value)) return;
      break;
    case "object":
      if (value === null) return;
      if (depth > JSON_DEPTH) throw new InvalidForm(`${path} is nested more than ${JSON_DEPTH} deep, or contains itself`);
      if (Array.isArray(value)) {
        for (let index = 0; index < value.length; index += 1) checkJson(value[index], `${path}[${index}]`, depth + 1);
        return;
      }
      if (!isPlain(value)) break;
      for (const key of Object.keys(value)) {
        // As in JSON.stringify, what is undefined is not there.
        if (value[key] !== undefined) checkJson(value[key], `${path}.${key}`, depth + 1);
      }
      return;
  }
  throw wrong(value, path, "a value that JSON has");
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
