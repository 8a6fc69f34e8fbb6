// What a plugin is and asks for.

import { checkJson, checkKeys, checkList, checkOneOf, checkText, checkTexts, InvalidForm, wrong } from "./check.js";
import { checkConversions } from "./conversion.js";
import { kindOf } from "./kind.js";

const BRAND = Symbol.for("hotshoe.plugin");
const VERBS = ["create", "update", "delete"];

export function definePlugin(definition) {
  checkKeys(definition, "definePlugin", ["name", "version", "parent", "reconcile"], [
    "owns", "reads", "finalizer", "finalize", "validate", "setDefaults", "conversions", "wantsNow", "wantsAttempt", "configSchema",
  ]);
  const { reconcile, finalize, finalizer, validate, setDefaults, conversions } = definition;
  checkFunction(reconcile, "reconcile");
  if ((finalizer === undefined) !== (finalize === undefined)) {
    throw new InvalidForm("finalizer and finalize belong together: one is given without the other");
  }
  for (const [name, optional] of Object.entries({ finalize, validate, setDefaults })) {
    if (optional !== undefined) checkFunction(optional, name);
  }
  const described = descriptor(definition);
  if (conversions !== undefined) checkConversions(conversions, described.parent.version);
  return Object.freeze({ [BRAND]: true, descriptor: described, reconcile, finalize, validate, setDefaults, conversions });
}

export function isPlugin(value) {
  return value?.[BRAND] === true;
}

function checkFunction(value, path) {
  if (typeof value !== "function") throw wrong(value, path, "a function");
}

/** As the contract has it. */
function descriptor({ name, version, parent, owns = [], reads = [], finalizer, wantsNow, wantsAttempt, configSchema }) {
  checkText(name, "name");
  checkText(version, "version");
  checkKeys(parent, "parent", ["apiVersion", "kind"], ["fields"]);
  if (finalizer !== undefined) checkText(finalizer, "finalizer");
  checkList(owns, "owns");
  checkList(reads, "reads");
  return {
    name,
    version,
    parent: kindOf(parent, "parent"),
    parentFields: fields(parent, "parent"),
    owns: owns.map((kind, index) => owned(kind, `owns[${index}]`)),
    reads: reads.map((kind, index) => read(kind, `reads[${index}]`)),
    finalizer,
    wantsNow: flag(wantsNow, "wantsNow"),
    wantsAttempt: flag(wantsAttempt, "wantsAttempt"),
    configSchema: schema(configSchema),
  };
}

function owned(kind, path) {
  checkKeys(kind, path, ["apiVersion", "kind", "verbs"], ["fields"]);
  checkList(kind.verbs, `${path}.verbs`);
  kind.verbs.forEach((verb, index) => checkOneOf(verb, `${path}.verbs[${index}]`, VERBS));
  return { kind: kindOf(kind, path), verbs: kind.verbs, fields: fields(kind, path) };
}

function read(kind, path) {
  checkKeys(kind, path, ["key", "apiVersion", "kind"], ["selector", "fields", "parentLabel", "parentField", "sameNamespace"]);
  checkText(kind.key, `${path}.key`);
  const { key, selector = "" } = kind;
  if (typeof selector !== "string") throw wrong(selector, `${path}.selector`, "a label selector");
  return { key, kind: kindOf(kind, path), selector, match: match(kind, path), fields: fields(kind, path) };
}

/** How the objects belong to a parent: by exactly one of these. */
function match({ parentLabel, parentField, sameNamespace }, path) {
  const given = [parentLabel, parentField, sameNamespace].filter((rule) => rule !== undefined);
  if (given.length !== 1) {
    throw new InvalidForm(
      `${path} takes one of parentLabel (the label that carries the parent's name), parentField (the field of the parent that names it) and sameNamespace`,
    );
  }
  if (sameNamespace !== undefined) {
    checkOneOf(sameNamespace, `${path}.sameNamespace`, [true]);
    return { tag: "parent-label", val: "" };
  }
  const [tag, val] = parentLabel === undefined ? ["parent-field", parentField] : ["parent-label", parentLabel];
  checkText(val, path, parentLabel === undefined ? "parentField" : "parentLabel");
  return { tag, val };
}

function fields(kind, path) {
  const { fields = [] } = kind;
  checkTexts(fields, `${path}.fields`);
  return fields;
}

function flag(value = false, path) {
  if (typeof value !== "boolean") throw wrong(value, path, "true or false");
  return value;
}

function schema(configSchema) {
  if (configSchema === undefined) return undefined;
  checkJson(configSchema, "configSchema");
  return JSON.stringify(configSchema);
}
