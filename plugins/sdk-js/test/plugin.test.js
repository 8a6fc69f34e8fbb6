import assert from "node:assert/strict";
import { test } from "node:test";

import { condition, definePlugin, done, needs, normal, reject, retry, waiting, warning } from "@hotshoe/sdk";
import { finalize, reconcile, request } from "@hotshoe/sdk/testing";

const DEFINITION = {
  name: "web",
  version: "1.0.0",
  parent: { apiVersion: "example.com/v1", kind: "Web", fields: ["metadata.annotations"] },
  owns: [{ apiVersion: "apps/v1", kind: "Deployment", verbs: ["create"], fields: ["status.readyReplicas"] }],
  reads: [{ key: "pods", apiVersion: "v1", kind: "Pod", parentLabel: "web" }],
  reconcile: () => ({ children: "keep" }),
};
const PARENT = { metadata: { name: "shop", namespace: "default" }, spec: { size: 2 } };
const CHILD = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "shop" } };

function plugin(changes) {
  return definePlugin({ ...DEFINITION, ...changes });
}

function answer(value, observation = { parent: PARENT }) {
  return reconcile(plugin({ reconcile: typeof value === "function" ? value : () => value }), observation);
}

test("a key with a dot or a slash is quoted in a path to a field", () => {
  const annotations = { "example.com/size": "3", "example.com/other": "4" };
  const parent = { ...PARENT, metadata: { ...PARENT.metadata, annotations } };
  const fields = ["metadata.annotations['example.com/size']"];
  const shown = request(plugin({ parent: { ...DEFINITION.parent, fields } }), { parent }).parent;
  assert.deepEqual(shown.metadata.annotations, { "example.com/size": "3" });
});

test("a condition that was written before is shown, and can be stated again", () => {
  const written = { type: "Complete", status: "True", reason: "All", message: "3 of 3", lastTransitionTime: "2026-01-01T00:00:00Z" };
  const stating = plugin({
    parent: { ...DEFINITION.parent, fields: ["status.conditions"] },
    reconcile: (request) => ({ children: "keep", conditions: [request.condition("Complete")].filter(Boolean) }),
  });
  const answered = (status) => reconcile(stating, { parent: { ...PARENT, status } }).decided.conditions;
  const { lastTransitionTime, ...stated } = written;
  assert.deepEqual(answered({ conditions: [{ ...written, type: "Ready" }, written] }), [stated]);
  for (const status of [undefined, {}, { conditions: [] }]) assert.deepEqual(answered(status), []);
});

test("a definition is turned into what the contract asks for", () => {
  const { descriptor } = plugin({ wantsNow: true, configSchema: { type: "object" } });
  assert.deepEqual(descriptor, {
    name: "web",
    version: "1.0.0",
    parent: { group: "example.com", version: "v1", kind: "Web" },
    parentFields: ["metadata.annotations"],
    owns: [{ kind: { group: "apps", version: "v1", kind: "Deployment" }, verbs: ["create"], fields: ["status.readyReplicas"] }],
    reads: [{ key: "pods", kind: { group: "", version: "v1", kind: "Pod" }, selector: "", match: { tag: "parent-label", val: "web" }, fields: [] }],
    finalizer: undefined,
    wantsNow: true,
    wantsAttempt: false,
    configSchema: '{"type":"object"}',
  });
});

test("a definition with a mistake names the key at fault", () => {
  const [owned] = DEFINITION.owns;
  const [read] = DEFINITION.reads;
  for (const [changes, said] of [
    [{ nmae: "x" }, "definePlugin.nmae is no known key"],
    [{ name: undefined }, "definePlugin.name is missing"],
    [{ name: 7 }, "name is 7; a text is expected"],
    [{ parent: { apiVersion: "a/b/c", kind: "Web" } }, 'parent.apiVersion is "a/b/c"'],
    [{ parent: { kind: "Web" } }, "parent.apiVersion is missing"],
    [{ owns: [{ ...owned, verbs: ["updates"] }] }, 'owns[0].verbs[0] is "updates"; one of create, update, delete'],
    [{ owns: [{ ...owned, fields: "status" }] }, 'owns[0].fields is "status"; a list'],
    [{ owns: {} }, "owns is an object; a list"],
    [{ reads: [{ ...read, parentField: "spec.pod" }] }, "reads[0] takes one of parentLabel"],
    [{ reads: [{ ...read, parentLabel: undefined }] }, "reads[0] takes one of parentLabel"],
    [{ reconcile: {} }, "reconcile is an object; a function"],
    [{ finalizer: "example.com/f" }, "finalizer and finalize belong together"],
    [{ finalize() {} }, "finalizer and finalize belong together"],
    [{ wantsNow: "yes" }, 'wantsNow is "yes"; true or false'],
  ]) {
    assert.throws(() => plugin(changes), (error) => error.message.includes(said) || assert.fail(`${error.message}\nhas not: ${said}`));
  }
});

test("what is read belongs to a parent by a label, a field or the namespace", () => {
  const of = (rule) => plugin({ reads: [{ key: "pods", apiVersion: "v1", kind: "Pod", ...rule }] }).descriptor.reads[0].match;
  assert.deepEqual(of({ parentLabel: "web" }), { tag: "parent-label", val: "web" });
  assert.deepEqual(of({ parentField: "spec.pod" }), { tag: "parent-field", val: "spec.pod" });
  assert.deepEqual(of({ sameNamespace: true }), { tag: "parent-label", val: "" });
  assert.throws(() => of({ parentLabel: "" }), /reads\[0\].parentLabel is ""; a text is expected/);
});

test("an answer comes as a case file has it", () => {
  const decision = {
    children: [CHILD],
    status: { ready: 1 },
    conditions: [condition("Ready", true, "Here", "all of it"), condition("Late", "Unknown", "NotSeen")],
    events: [normal("Made", "a"), warning("Odd", "b")],
    requeueAfterMs: 1500.2,
  };
  assert.deepEqual(answer(decision), {
    decided: {
      children: { exactly: [CHILD] },
      status: { ready: 1 },
      conditions: [
        { type: "Ready", status: "True", reason: "Here", message: "all of it" },
        { type: "Late", status: "Unknown", reason: "NotSeen", message: "" },
      ],
      events: [{ severity: "Normal", reason: "Made", message: "a" }, { severity: "Warning", reason: "Odd", message: "b" }],
      requeueAfterMs: 1501,
    },
  });
  const need = { key: "settings", apiVersion: "v1", kind: "ConfigMap", name: "shared" };
  assert.deepEqual(answer(needs(need)), { needs: [need] });
});

test("reject and retry may be thrown, from anywhere, or returned", () => {
  const rejected = { reject: { message: "too large", field: "spec.size" } };
  assert.deepEqual(answer(reject("too large", "spec.size")), rejected);
  assert.deepEqual(answer(() => [1].map(() => { throw reject("too large", "spec.size"); })), rejected);
  assert.deepEqual(answer(reject("no")), { reject: { message: "no" } });
  assert.deepEqual(answer(() => { throw retry("later", 1000); }), { retry: { message: "later", afterMs: 1000 } });
  assert.deepEqual(answer(retry("later")), { retry: { message: "later" } });
});

test("an answer of a wrong form names the value at fault", () => {
  const loop = { ...CHILD };
  loop.spec = loop;
  for (const [value, said] of [
    [undefined, "the answer of reconcile is undefined; a decision or needs(…) is expected"],
    [Promise.resolve({}), "the answer of reconcile is a Promise (a plugin answers at once: without `async`)"],
    [[CHILD], "the answer of reconcile is a list"],
    [{}, "answer.children is missing"],
    [{ child: [] }, "answer.child is no known key; answer has children, status"],
    [{ children: CHILD }, 'children is an object; a list of objects or "keep" is expected'],
    [{ children: [null] }, "children[0] is null; an object"],
    [{ children: [{ ...CHILD, apiVersion: undefined }] }, "children[0].apiVersion is undefined; a text"],
    [{ children: [{ ...CHILD, metadata: {} }] }, "children[0].metadata.name is undefined; a text"],
    [{ children: [{ ...CHILD, metadata: { generateName: "a-" } }] }, "children[0].metadata.generateName would make another object"],
    [{ children: [{ ...CHILD, spec: { replicas: NaN } }] }, "children[0].spec.replicas is NaN; a value that JSON has"],
    [{ children: [{ ...CHILD, spec: { at: new Date(0) } }] }, "children[0].spec.at is a Date"],
    [{ children: [{ ...CHILD, spec: { size: 2n ** 63n } }] }, "children[0].spec.size is 9223372036854775808"],
    [{ children: [{ ...CHILD, spec: { list: [undefined] } }] }, "children[0].spec.list[0] is undefined"],
    [{ children: [loop] }, "contains itself"],
    [{ children: "keep", status: "up" }, 'status is "up"; an object'],
    [{ children: "keep", status: { ready() {} } }, "status.ready is a function"],
    [{ children: "keep", conditions: {} }, "conditions is an object; a list"],
    [{ children: "keep", conditions: [condition("Ready", 1, "Here")] }, "conditions[0].status is 1; one of True, False, Unknown"],
    [{ children: "keep", conditions: [condition("Ready", true)] }, "conditions[0].reason is missing"],
    [{ children: "keep", events: [{ type: "Normal" }] }, "events[0].type is no known key"],
    [{ children: "keep", requeueAfterMs: -5 }, "requeueAfterMs is -5; a number of milliseconds, 0 or more"],
    [{ children: "keep", requeueAfterMs: "5s" }, 'requeueAfterMs is "5s"'],
    [needs({ key: "a", apiVersion: "v1", kind: "Secret" }), "needs[0] has neither a name nor a selector"],
    [done(), "answer.done is no known key"],
    [retry("later", "soon"), 'retry\'s afterMs is "soon"'],
  ]) {
    assert.throws(() => answer(value), (error) => error.message.includes(said) || assert.fail(`${error.message}\nhas not: ${said}`));
  }
});

test("finalize waits or is done", () => {
  const cleaning = (value) => finalize(plugin({ finalizer: "example.com/f", finalize: () => value }), { parent: PARENT });
  assert.deepEqual(cleaning(done()), { done: { children: "keep", conditions: [], events: [] } });
  assert.deepEqual(cleaning(waiting({ children: [] })), { waiting: { children: { exactly: [] }, conditions: [], events: [] } });
  assert.throws(() => cleaning({ children: [] }), /the answer of finalize is an object; waiting\(…\) or done\(…\) is expected/);
  assert.throws(() => cleaning(undefined), /the answer of finalize is undefined/);
});

test("what a plugin throws is thrown on, so that a test shows where", () => {
  assert.throws(() => answer(({ parent }) => parent.spec.owner.name), /owner|undefined/);
});

test("a request shows the fields that were asked for, and no other", () => {
  const parent = { metadata: { ...PARENT.metadata, annotations: { a: "b" }, labels: { c: "d" } }, spec: PARENT.spec, status: { ready: 1 } };
  const child = { ...CHILD, metadata: { name: "shop", labels: { c: "d" } }, spec: { replicas: 1 }, status: { readyReplicas: 1, replicas: 2 } };
  const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "shop-1" }, status: { phase: "Running" } };
  const shown = request(plugin(), { parent, children: [child], related: { pods: [pod] }, config: { image: "a" }, now: 5, attempt: 5 });
  assert.deepEqual(shown.parent, {
    apiVersion: "example.com/v1",
    kind: "Web",
    metadata: { name: "shop", namespace: "default", annotations: { a: "b" } },
    spec: { size: 2 },
  });
  const observed = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "shop" }, status: { readyReplicas: 1 } };
  assert.deepEqual([shown.child("Deployment"), shown.children], [observed, [observed]]);
  assert.equal(shown.child("Deployment", "other"), undefined);
  assert.deepEqual(shown.related("pods"), [{ apiVersion: "v1", kind: "Pod", metadata: { name: "shop-1" } }]);
  assert.deepEqual([shown.name, shown.namespace, shown.config], ["shop", "default", { image: "a" }]);
  assert.deepEqual([shown.now, shown.attempt], [undefined, undefined]);
  assert.throws(() => shown.related("settings"), /nothing is read under the key "settings"/);
  assert.deepEqual([shown.has("pods"), shown.has("settings")], [true, false]);
});

test("a request has the time and the attempt where they were asked for", () => {
  const asks = plugin({ wantsNow: true, wantsAttempt: true });
  assert.deepEqual((({ now, attempt }) => [now, attempt])(request(asks, { parent: PARENT, now: 5 })), [5, 0]);
  assert.throws(() => request(asks, { parent: PARENT }), /wants `now`/);
});

test("an observation with a mistake is no request", () => {
  assert.throws(() => request(plugin(), { parent: PARENT, childen: [] }), /childen is no known key/);
  const other = { apiVersion: "v1", kind: "Service", metadata: { name: "a" } };
  assert.throws(() => request(plugin(), { parent: PARENT, children: [other] }), /children\[0\] is a Service, which the plugin does not own/);
});

test("refusals are shown as they were", () => {
  const refused = { group: "apps", version: "v1", kind: "Deployment", name: "shop", code: 403, reason: "Forbidden", message: "exceeded quota" };
  const [shown] = request(plugin(), { parent: PARENT, refusals: [refused] }).refusals;
  assert.deepEqual(shown, { apiVersion: "apps/v1", kind: "Deployment", namespace: undefined, name: "shop", code: 403, reason: "Forbidden", message: "exceeded quota" });
});
