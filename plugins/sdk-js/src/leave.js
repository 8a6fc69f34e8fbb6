// Fields that a plugin leaves to others.

const LEAVE = "hotshoe.dev/leave";

/** The desired child, with the fields that it leaves to others. */
export function leave(child, ...fields) {
  const annotations = { ...child.metadata?.annotations, [LEAVE]: fields.join(",") };
  return { ...child, metadata: { ...child.metadata, annotations } };
}
