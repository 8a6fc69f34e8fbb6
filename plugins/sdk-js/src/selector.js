// Label selectors, as a requirement carries them.

import { checkKeys, checkList, checkObject, InvalidForm } from "./check.js";
import { reject } from "./failure.js";

const LABEL_WORD = /^[-A-Za-z0-9_./]*$/;

/** A selector as kubectl writes it: a text as it is, or what a `LabelSelector` of Kubernetes says. */
export function selectorText(selector) {
  if (typeof selector === "string") return selector;
  try {
    checkKeys(selector, "the selector", [], ["matchLabels", "matchExpressions"]);
    return [...labels(selector.matchLabels ?? {}), ...expressions(selector.matchExpressions ?? [])].join(",");
  } catch (error) {
    // It is mostly a part of the parent's spec.
    throw error instanceof InvalidForm ? reject(error.message) : error;
  }
}

function labels(matchLabels) {
  checkObject(matchLabels, "matchLabels");
  return Object.keys(matchLabels).sort().map((key) => `${word(key)}=${word(matchLabels[key])}`);
}

function expressions(matchExpressions) {
  checkList(matchExpressions, "matchExpressions");
  return matchExpressions.map((expression, index) => {
    const at = `matchExpressions[${index}]`;
    checkKeys(expression, at, ["key", "operator"], ["values"]);
    const key = word(expression.key);
    const values = expression.values ?? [];
    checkList(values, `${at}.values`);
    const written = { In: `${key} in `, NotIn: `${key} notin `, Exists: key, DoesNotExist: `!${key}` }[expression.operator];
    if (written === undefined) throw new InvalidForm(`${at}.operator is none of In, NotIn, Exists, DoesNotExist`);
    const takesValues = written.endsWith(" ");
    if (takesValues !== values.length > 0) {
      throw new InvalidForm(`${at}.values ${takesValues ? "is empty; name some" : `has some, which ${expression.operator} does not take`}`);
    }
    return takesValues ? `${written}(${values.map(word).join(",")})` : written;
  });
}

/** A key or a value that cannot be mistaken for more than one. Whether it is valid, the host says. */
function word(text) {
  if (typeof text === "string" && LABEL_WORD.test(text)) return text;
  throw new InvalidForm(`the selector has ${JSON.stringify(text)}, which is no key and no value of a label`);
}
