// What a plugin is shown.

import { InvalidForm } from "./check.js";
import { parse } from "./json.js";
import { apiVersionOf, objectOf } from "./kind.js";

/** Reads each object when it is first looked at: a decision that looks at few is quick. */
export class Request {
  #children;
  #related;

  constructor({ parent, children, related, refusals, config, now, attempt }) {
    this.name = parent.ref.name;
    this.namespace = parent.ref.namespace ?? undefined;
    this.parent = objectOf(parent);
    this.config = parse(config);
    this.refusals = refusals.map(refusal);
    this.now = now ?? undefined;
    this.attempt = attempt ?? undefined;
    this.#children = children;
    this.#related = related;
  }

  condition(type) {
    const written = this.parent.status?.conditions?.find((condition) => condition.type === type);
    // The times and generations are the host's.
    return written && { type, status: written.status, reason: written.reason, message: written.message ?? "" };
  }

  get children() {
    return this.#children.map(objectOf);
  }

  child(kind, name = this.name) {
    const found = this.#children.find(({ ref }) => ref.kind.kind === kind && ref.name === name);
    return found && objectOf(found);
  }

  related(key) {
    const found = this.#related.find((related) => related.key === key);
    if (found === undefined) {
      throw new InvalidForm(`nothing is read under the key ${JSON.stringify(key)}; declare it in \`reads\`, or ask for it with needs(…)`);
    }
    return found.objects.map(objectOf);
  }

  has(key) {
    return this.#related.some((related) => related.key === key);
  }
}

function refusal({ ref, code, reason, message }) {
  const { kind, namespace, name } = ref;
  return { apiVersion: apiVersionOf(kind), kind: kind.kind, namespace: namespace ?? undefined, name, code, reason, message };
}
