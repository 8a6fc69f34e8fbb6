// Which fields of an object a plugin is shown. The host does this in production; tests do it here, so that logic that
// reads a field it did not ask for fails in them too.

const ALWAYS = ["name", "namespace", "uid", "generation", "deletionTimestamp"].map((field) => `metadata.${field}`);

/** The part of an object at these paths; a path through a list means every element of it. */
export function projected(object, fields) {
  return kept(object, tree([...ALWAYS, ...fields])) ?? {};
}

/** `true` where everything below is shown. */
function tree(paths) {
  const root = {};
  for (const path of paths) {
    const keys = keysOf(path);
    const last = keys.pop();
    let node = root;
    for (const key of keys) {
      if (node === true) break;
      node = node[key] ??= {};
    }
    if (node !== true) node[last] = true;
  }
  return root;
}

/** The keys of a path: those between dots, and those in brackets and quotes. */
function keysOf(path) {
  return Array.from(path.matchAll(/\['([^']+)'\]|([^.[]+)/g), ([, quoted, plain]) => quoted ?? plain);
}

function kept(value, node) {
  if (node === true) return value;
  if (Array.isArray(value)) return value.map((element) => kept(element, node)).filter((element) => element !== undefined);
  if (typeof value !== "object" || value === null) return undefined;
  const members = Object.entries(value).filter(([key]) => Object.hasOwn(node, key));
  const shown = members.map(([key, member]) => [key, kept(member, node[key])]).filter(([, member]) => member !== undefined);
  return Object.fromEntries(shown);
}
