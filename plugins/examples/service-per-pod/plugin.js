// A Service for each Pod of a StatefulSet that names ports in an annotation.

import { definePlugin, reject } from "@hotshoe/sdk";

/** The annotation of a StatefulSet that takes part: its ports, each as PORT:TARGET, with commas between them. */
const PORTS = "example.com/service-per-pod-ports";
const PORTS_FIELD = `metadata.annotations['${PORTS}']`;
/** The label with its name that each Pod of a StatefulSet has from Kubernetes. */
const POD_NAME = "statefulset.kubernetes.io/pod-name";

export default definePlugin({
  name: "service-per-pod",
  version: "0.1.0",
  parent: { apiVersion: "apps/v1", kind: "StatefulSet", fields: [PORTS_FIELD] },
  owns: [{ apiVersion: "v1", kind: "Service", verbs: ["create", "update", "delete"] }],

  reconcile({ name, parent }) {
    const listed = parent.metadata.annotations?.[PORTS];
    if (listed === undefined) return { children: [] };
    const { replicas = 1, ordinals } = parent.spec;
    const [ports, first] = [listed.split(",").map(port), ordinals?.start ?? 0];
    return { children: Array.from({ length: replicas }, (_, index) => service(`${name}-${first + index}`, ports)) };
  },
});

/** The Service of a Pod, which has the Pod's name. */
function service(pod, ports) {
  return { apiVersion: "v1", kind: "Service", metadata: { name: pod }, spec: { selector: { [POD_NAME]: pod }, ports } };
}

function port(text) {
  const [, port, targetPort] = /^\s*(\d{1,5}):(\d{1,5})\s*$/.exec(text)?.map(Number) ?? [];
  if (port === undefined) throw reject(`${JSON.stringify(text)} names no port; write it as 80:8080`, PORTS_FIELD);
  return { name: `port-${port}`, port, targetPort, protocol: "TCP" };
}
