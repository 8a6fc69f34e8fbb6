// What an author imports. Each name is documented in index.d.ts.

export { fieldError } from "./admission.js";
export { condition, done, needs, normal, waiting, warning } from "./answer.js";
export { reject, Rejection, retry, RetryRequest } from "./failure.js";
export { harmless, requireHarmless } from "./harmless.js";
export { parentLabel } from "./label.js";
export { leave } from "./leave.js";
export { recreate } from "./recreate.js";
export { definePlugin } from "./plugin.js";
