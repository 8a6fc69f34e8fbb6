// What the API server asks before it stores a parent: whether it is valid, and what its author left out.
//
// An answer that was checked has the form of `expect` in a case file.

import { checkAnswer, checkJson, checkKeys, checkList, checkOneOf, checkText, checkTexts } from "./check.js";
import { answered } from "./failure.js";
import { parse } from "./json.js";
import { objectOf } from "./kind.js";

const PREFIX = "FieldValue";
const REASONS = ["Invalid", "Required", "Forbidden", "NotSupported", "Duplicate", "NotFound", "TooLong", "TooMany", "TypeInvalid"];

export function fieldError(field, reason, message) {
  return { field, reason: `${PREFIX}${reason}`, message };
}

/** What a plugin is shown of a proposed parent. */
export function proposalOf(object, old, { operation, config, dryRun, user }) {
  const [proposed, stored] = [objectOf(object), old == null ? undefined : objectOf(old)];
  return { operation, object: proposed, old: stored, config: parse(config), dryRun, user: user ?? undefined };
}

/** The answer of `validate`, checked. What it throws beyond `reject` and `retry` is thrown on. */
export function verdictOf(plugin, proposal) {
  return answered(() => plugin.validate(proposal), (answer) => ({ verdict: verdict(answer) }));
}

/** What `setDefaults` makes of the object, checked. What it throws beyond `reject` and `retry` is thrown on. */
export function defaultedOf(plugin, proposal) {
  return answered(() => plugin.setDefaults(proposal), (answer) => ({ defaulted: defaulted(answer, proposal.object) }));
}

/** No answer is one without errors and warnings. */
function verdict(answer = {}) {
  checkAnswer(answer, "validate", "{ errors, warnings }");
  checkKeys(answer, "answer", [], ["errors", "warnings"]);
  const { errors = [], warnings = [] } = answer;
  checkList(errors, "errors");
  errors.forEach((error, index) => checkError(error, `errors[${index}]`));
  checkTexts(warnings, "warnings");
  return { errors, warnings };
}

function checkError(error, path) {
  checkKeys(error, path, ["field", "reason", "message"]);
  for (const key of ["field", "message"]) checkText(error[key], path, key);
  checkOneOf(error.reason, `${path}.reason`, REASONS.map((reason) => `${PREFIX}${reason}`));
}

/** No answer is the object that was shown, with the defaults in it. */
function defaulted(answer, shown) {
  if (answer !== undefined) checkAnswer(answer, "setDefaults", "the object with its defaults, or nothing");
  const object = answer ?? shown;
  checkJson(object, "object");
  return object;
}
