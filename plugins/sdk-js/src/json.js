// JSON whose integers stay as they are. Kubernetes has integers of 64 bits, and a JavaScript number holds those up to
// 2^53 exactly: `JSON.parse` rounds the others without a word. Here they are read as a BigInt, and written as it.

const LEAST = -(2n ** 63n);
const MOST = 2n ** 63n - 1n;
/** No shorter text has an integer that a number cannot hold. */
const MAY_BE_LARGE = /\d{16}/;
const INTEGER = /^-?\d+$/;
const TOKENS = /"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g;

/** Whether it is an integer that Kubernetes can store; a larger one is no integer there either. */
export function isStorable(integer) {
  return integer >= LEAST && integer <= MOST;
}

/** The value of a JSON text. Integers that a number cannot hold are of the type `bigint`. */
export function parse(text) {
  const value = JSON.parse(text);
  return MAY_BE_LARGE.test(text) ? new Reader(text).value() : value;
}

/** The JSON text of a value that has been checked. */
export function stringify(value) {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (!hasBigInt(value)) throw error;
    return written(value);
  }
}

/** Reads a text that is valid JSON. */
class Reader {
  #tokens;
  #at = 0;

  constructor(text) {
    this.#tokens = text.match(TOKENS);
  }

  value() {
    const token = this.#next();
    if (token === "{") return this.#object();
    if (token === "[") return this.#list();
    return scalar(token);
  }

  #next() {
    this.#at += 1;
    return this.#tokens[this.#at - 1];
  }

  #object() {
    const members = {};
    for (let token = this.#next(); token !== "}"; token = this.#next()) {
      const key = JSON.parse(token === "," ? this.#next() : token);
      this.#next();
      // As JSON.parse does: an assignment to __proto__ would make no member.
      Object.defineProperty(members, key, { value: this.value(), writable: true, enumerable: true, configurable: true });
    }
    return members;
  }

  #list() {
    const items = [];
    if (this.#tokens[this.#at] === "]") {
      this.#at += 1;
      return items;
    }
    do items.push(this.value());
    while (this.#next() === ",");
    return items;
  }
}

function scalar(token) {
  const value = JSON.parse(token);
  if (typeof value !== "number" || Number.isSafeInteger(value) || !INTEGER.test(token)) return value;
  const exact = BigInt(token);
  return isStorable(exact) ? exact : value;
}

function hasBigInt(value) {
  if (typeof value === "bigint") return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasBigInt);
}

function written(value) {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return `[${value.map((item) => written(item) ?? "null").join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${written(member)}`).join(",")}}`;
}
