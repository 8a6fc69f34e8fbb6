// A BlueGreenDeployment becomes a ReplicaSet and a Service. A new template gets a ReplicaSet of the other colour, and
// the Service moves to that once all its Pods are available; then the first one goes.

import { condition, definePlugin, harmless, parentLabel } from "@hotshoe/sdk";

const INSTANCE = "app.kubernetes.io/instance";
const COLOR = "apps.example.com/color";
/** The annotation of a ReplicaSet with the template that it was made of, as its author wrote it. */
const TEMPLATE = "apps.example.com/template";

export default definePlugin({
  name: "bluegreen",
  version: "0.1.0",
  parent: { apiVersion: "apps.example.com/v1", kind: "BlueGreenDeployment" },
  owns: [
    {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      verbs: ["create", "update", "delete"],
      fields: [`metadata.annotations['${TEMPLATE}']`, "status.availableReplicas"],
    },
    { apiVersion: "v1", kind: "Service", verbs: ["create", "update"], fields: ["spec.selector"] },
  ],

  reconcile(request) {
    const { name, parent } = request;
    const { replicas = 1, minReadySeconds = 0, template, ports } = parent.spec;
    const wanted = canonical(template);
    const serving = request.child("Service")?.spec?.selector?.[COLOR] === "green" ? "green" : "blue";
    const active = observed(request, serving);
    const idle = observed(request, other(serving));
    const { color, sets } = next({ serving, active, idle, wanted, replicas });
    return {
      children: [
        service(name, color, ports),
        ...sets.map(([of, made]) => replicaSet(name, of, made, { replicas, minReadySeconds })),
      ],
      status: { activeColor: serving, availableReplicas: active?.available ?? 0 },
      conditions: conditions({ active, idle, wanted, replicas, removed: harmless(template).removed }),
    };
  },
});

/**
 * The colour that the Service is to select, and the ReplicaSets that are to exist: the colour of each, and its template.
 */
function next({ serving, active, idle, wanted, replicas }) {
  if (active?.template === wanted || (!active && !idle)) return { color: serving, sets: [[serving, wanted]] };
  const present = active ? [[serving, active.template]] : [];
  // It has a template that was given up: it goes, and is made anew once it is gone.
  if (idle && idle.template !== wanted) return { color: serving, sets: present };
  const isReady = idle && idle.available >= replicas;
  return { color: isReady ? other(serving) : serving, sets: [...present, [other(serving), wanted]] };
}

/** A template as text, the same for equal ones. */
function canonical(template) {
  const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  return JSON.stringify(template, (_, value) => (isObject(value) ? Object.fromEntries(Object.entries(value).sort()) : value));
}

function other(color) {
  return color === "blue" ? "green" : "blue";
}

/** What is seen of the ReplicaSet of a colour, if it exists. */
function observed(request, color) {
  const found = request.child("ReplicaSet", `${request.name}-${color}`);
  return found && { template: found.metadata.annotations?.[TEMPLATE], available: found.status?.availableReplicas ?? 0 };
}

function conditions({ active, idle, wanted, replicas, removed }) {
  const available = active?.available ?? 0;
  const isAvailable = available >= replicas;
  const moving = progress({ active, idle, wanted, replicas });
  return [
    condition("Available", isAvailable, isAvailable ? "PodsAvailable" : "PodsUnavailable", `${available} of ${replicas} Pods are available`),
    condition("Progressing", Boolean(moving), moving ? "Moving" : "Settled", moving ?? "the template is served"),
    condition("TemplateAccepted", removed.length === 0, removed.length ? "FieldsRemoved" : "Accepted", removed.join(", ")),
  ];
}

/** What is under way, if anything is. */
function progress({ active, idle, wanted, replicas }) {
  if (active?.template === wanted) return idle && "the old ReplicaSet goes";
  if (!idle) return "a ReplicaSet is created";
  return idle.template === wanted ? `${idle.available} of ${replicas} new Pods are available` : "a ReplicaSet goes whose template was given up";
}

function labels(name, color) {
  return { [INSTANCE]: parentLabel(name), [COLOR]: color };
}

function replicaSet(name, color, made, { replicas, minReadySeconds }) {
  const { template } = harmless(JSON.parse(made));
  const all = { ...template.metadata?.labels, ...labels(name, color) };
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name: `${name}-${color}`, labels: labels(name, color), annotations: { [TEMPLATE]: made } },
    spec: {
      replicas,
      minReadySeconds,
      selector: { matchLabels: labels(name, color) },
      template: { ...template, metadata: { ...template.metadata, labels: all } },
    },
  };
}

function service(name, color, ports) {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    // The protocol is part of the key of a port, so it is said although it is the default.
    spec: { selector: labels(name, color), ports: ports.map((port) => ({ protocol: "TCP", ...port })) },
  };
}
