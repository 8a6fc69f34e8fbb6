// Children that are deleted and made anew where they cannot change.

const UPDATE_STRATEGY = "hotshoe.dev/update-strategy";

/** The desired child, which is deleted and made anew where the API server does not let a field change. */
export function recreate(child) {
  const annotations = { ...child.metadata?.annotations, [UPDATE_STRATEGY]: "Recreate" };
  return { ...child, metadata: { ...child.metadata, annotations } };
}
