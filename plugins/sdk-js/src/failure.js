// The two ways of an author to say that there is no decision.

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
