// An NginxServer becomes a Deployment of nginx, and its status names the Pods.

import { condition, definePlugin, fieldError, parentLabel } from "@hotshoe/sdk";

/** The label that carries the name of the NginxServer. */
const INSTANCE = "app.kubernetes.io/instance";

const NO_IMAGE = "it is no image; write one such as nginx:1.27";
const NO_VERSION = "spec.image: it names no version, so servers that start later may run another; write a tag";

export default definePlugin({
  name: "nginx-js",
  version: "0.1.0",
  parent: { apiVersion: "web.example.com/v1", kind: "NginxServer" },
  owns: [{ apiVersion: "apps/v1", kind: "Deployment", verbs: ["create", "update"], fields: ["status.availableReplicas"] }],
  reads: [{ key: "pods", apiVersion: "v1", kind: "Pod", selector: "app=nginx", parentLabel: INSTANCE }],

  reconcile(request) {
    // The API server fills the defaults in; they stand here for objects that were stored before a default existed.
    const { replicas = 1, image = "nginx:latest" } = request.parent.spec ?? {};
    const available = request.child("Deployment")?.status?.availableReplicas ?? 0;
    const availability = availabilityOf(available, replicas);
    return {
      children: [deployment(request.name, replicas, image)],
      status: { availableReplicas: available, podNames: podNames(request) },
      // Tools that wait for objects read Ready.
      conditions: [availability, { ...availability, type: "Ready" }],
    };
  },

  /** Checks an image that is new: one that is stored already keeps no other field from being changed. */
  validate({ object, old, config }) {
    const { image = "" } = object.spec ?? {};
    if (!config.validation || image === old?.spec?.image) return {};
    const { repository, tag, digest } = parsed(image);
    if (!/^[a-z0-9._/:-]+$/.test(repository)) return { errors: [fieldError("spec.image", "Invalid", NO_IMAGE)] };
    return { warnings: digest || (tag && tag !== "latest") ? [] : [NO_VERSION] };
  },

  /** Fills in the tag of an image that has none. */
  setDefaults({ object: { spec = {} }, config }) {
    const { tag, digest } = parsed(spec.image ?? "");
    if (config.defaultTag && spec.image !== undefined && tag === undefined && !digest) spec.image += `:${config.defaultTag}`;
  },
});

/** The parts of the name of an image; a colon before the last slash is that of a port. */
function parsed(image) {
  const [tagged, digest] = image.split("@");
  const [, repository, tag] = /^(.*?)(?::([^/:]*))?$/s.exec(tagged);
  return { repository, tag, digest };
}

/** The Pods that run, not those that are being deleted. */
function podNames(request) {
  const pods = request.related("pods").filter((pod) => pod.metadata.deletionTimestamp === undefined);
  return pods.map((pod) => pod.metadata.name);
}

function availabilityOf(available, replicas) {
  const isAvailable = available >= replicas;
  const reason = isAvailable ? "PodsAvailable" : "PodsUnavailable";
  return condition("Available", isAvailable, reason, `${available} of ${replicas} Pods are available`);
}

function deployment(name, replicas, image) {
  const labels = { app: "nginx", [INSTANCE]: parentLabel(name) };
  const container = {
    name: "nginx",
    image,
    // The protocol is part of the key of a port, so it stands here although it is the default.
    ports: [{ containerPort: 80, protocol: "TCP" }],
    securityContext: { allowPrivilegeEscalation: false },
  };
  // No runAsNonRoot: the stock image starts as root, and its workers run as another user.
  const pod = { automountServiceAccountToken: false, containers: [container] };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, labels },
    spec: { replicas, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: pod } },
  };
}
