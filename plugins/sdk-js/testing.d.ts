/** Tests of a plugin's logic in Node, without Wasm, and of its component in the real sandbox. */

import type { Condition, DesiredObject, Event, FieldError, Plugin, Request, Requirement } from "@hotshoe/sdk";

/** What a host would show. An object may be shown in full: the plugin sees the fields that it asked for. */
export interface Observation {
  /** `apiVersion` and `kind` may be left out. */
  parent: { metadata: { name: string; [field: string]: any }; [field: string]: any };
  children?: DesiredObject[];
  /** By the key of a declared read or of a requirement. */
  related?: Record<string, DesiredObject[]>;
  refusals?: { group?: string; version: string; kind: string; namespace?: string; name: string; code: number; reason: string; message: string }[];
  config?: object;
  now?: number;
  attempt?: number;
}

/** What a host would show of a parent that is to be stored; `apiVersion` and `kind` may be left out. With `old`, it is an update. */
export interface Proposed {
  object: { metadata?: { [field: string]: any }; [field: string]: any };
  old?: { [field: string]: any };
  config?: object;
  dryRun?: boolean;
  /** Who writes it; the host shows that where `plugin.yaml` says `showUser`. */
  user?: { username: string; uid?: string; groups?: string[] };
}

/** An answer in the form of `expect` in a case file, with exactly one of these keys. */
export interface Answer {
  decided?: Decided;
  waiting?: Decided;
  done?: Decided;
  needs?: Requirement[];
  verdict?: { errors: FieldError[]; warnings: string[] };
  /** The whole object. */
  defaulted?: any;
  /** The object in the other version. It is no answer of a case: `hotshoe test` tries conversions on all objects. */
  converted?: any;
  retry?: { message: string; afterMs?: number };
  reject?: { message: string; field?: string };
}

export interface Decided {
  children: { exactly: DesiredObject[] } | "keep";
  status?: any;
  conditions: Condition[];
  events: Event[];
  requeueAfterMs?: number;
}

/** A case and the file that it stands in. */
export interface Case extends Observation {
  file: string;
  name: string;
  call?: "reconcile" | "finalize" | "validate" | "default";
  old?: object;
  expect?: object;
}

/** What `reconcile` answers. What the plugin throws beyond `reject` and `retry` is thrown on. */
export function reconcile(plugin: Plugin, observation: Observation): Answer;

/** What `finalize` answers. */
export function finalize(plugin: Plugin, observation: Observation): Answer;

/** What `validate` answers. */
export function validate(plugin: Plugin, proposed: Proposed): Answer;

/** What `setDefaults` makes of the object. */
export function setDefaults(plugin: Plugin, proposed: Proposed): Answer;

/** An object of any version, as the plugin's conversions write it in another one. */
export function convert(plugin: Plugin, object: DesiredObject, toVersion: string): Answer;

/** The request that the plugin is shown. */
export function request(plugin: Plugin, observation: Observation, call?: "reconcile" | "finalize"): Request;

/** The cases of a folder, in the order of their files; `parse` reads YAML, as that of the npm package `yaml` does. */
export function casesIn(folder: string | URL, parse: (text: string) => any): Case[];

/** Throws an AssertionError with the difference unless the plugin answers a case as it expects. */
export function checkCase(plugin: Plugin, theCase: Case): void;

/** A case file, answered by the component, or what must hold besides. */
export interface ComponentCase {
  name: string;
  /** Throws an AssertionError where `hotshoe test` fails, with the difference. */
  check(): void;
}

/**
 * The cases of the plugin in a folder, and what must hold besides, each to be checked on its component by the program
 * `hotshoe`. The first check builds the component, if its source is newer, and runs them all.
 */
export function componentCases(plugin: string | URL): ComponentCase[];

/** Where a closed loop begins. Objects are as `kubectl get -o yaml` shows them. */
export interface Start {
  /** It gets the defaults with which it would be stored. */
  parent: DesiredObject;
  children?: DesiredObject[];
  /** By the key of a declared read or of a requirement. */
  related?: Record<string, DesiredObject[]>;
  /** Without it, it is that of `plugin.yaml`. */
  config?: object;
  /** Milliseconds since 1970, if the plugin asks for it. It stands still. */
  now?: number;
  /** Whether the parent is being deleted. */
  finalize?: boolean;
  /** The most decisions that may change something; 10 if nothing is said. */
  within?: number;
}

/** Where a closed loop ends. */
export interface End {
  /** The decisions that changed something. */
  decisions: {
    children: { action: "created" | "changed" | "deleted"; apiVersion: string; kind: string; namespace?: string | null; name: string; fields: { path: string; old?: string; new?: string }[] }[];
    status: string[];
  }[];
  parent: any;
  children: any[];
}

/**
 * Carries out the decisions of a component in a model of the API server, until one changes nothing; the component is built
 * first, if its source is newer. Throws an AssertionError where decisions go on to change something, or one of them is no
 * decision or would be denied.
 */
export function closedLoop(plugin: string | URL, start: Start): End;
