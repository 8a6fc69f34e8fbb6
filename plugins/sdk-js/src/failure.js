// The two ways of an author to say that there is no answer.

import { checkText, milliseconds } from "./check.js";

/** The parent cannot be served as it is. */
export class Rejection extends Error {
  constructor(message, field) {
    super(message);
    this.field = field;
  }

  get name() {
    return "Rejection";
  }
}

/** Something that passes stands in the way. */
export class RetryRequest extends Error {
  constructor(message, afterMs) {
    super(message);
    this.afterMs = afterMs;
  }

  get name() {
    return "RetryRequest";
  }
}

export function reject(message, field) {
  return new Rejection(message, field);
}

export function retry(message, afterMs) {
  return new RetryRequest(message, afterMs);
}

/**
 * What a function of the plugin answers, checked, or the failure that it throws or returns. What it throws beyond that is
 * thrown on.
 */
export function answered(call, check) {
  let answer;
  try {
    answer = call();
  } catch (thrown) {
    if (!isFailure(thrown)) throw thrown;
    answer = thrown;
  }
  return isFailure(answer) ? failed(answer) : check(answer);
}

export function isFailure(value) {
  return value instanceof Rejection || value instanceof RetryRequest;
}

function failed(failure) {
  checkText(failure.message, "the message of reject or retry");
  if (failure instanceof RetryRequest) {
    const { message, afterMs } = failure;
    return { retry: afterMs === undefined ? { message } : { message, afterMs: milliseconds(afterMs, "retry's afterMs") } };
  }
  const { message, field } = failure;
  if (field === undefined) return { reject: { message } };
  checkText(field, "reject's field");
  return { reject: { message, field } };
}
