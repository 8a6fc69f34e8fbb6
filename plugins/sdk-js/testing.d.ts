/** Tests of a plugin's logic in Node, without Wasm. */

import type { Condition, DesiredObject, Event, Plugin, Request, Requirement } from "@hotshoe/sdk";

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

/** An answer in the form of `expect` in a case file, with exactly one of these keys. */
export interface Answer {
  decided?: Decided;
  waiting?: Decided;
  done?: Decided;
  needs?: Requirement[];
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
  call?: "reconcile" | "finalize";
  expect?: object;
}

/** What `reconcile` answers. What the plugin throws beyond `reject` and `retry` is thrown on. */
export function reconcile(plugin: Plugin, observation: Observation): Answer;

/** What `finalize` answers. */
export function finalize(plugin: Plugin, observation: Observation): Answer;

/** The request that the plugin is shown. */
export function request(plugin: Plugin, observation: Observation, call?: "reconcile" | "finalize"): Request;

/** The cases of a folder, in the order of their files; `parse` reads YAML, as that of the npm package `yaml` does. */
export function casesIn(folder: string | URL, parse: (text: string) => any): Case[];

/** Throws an AssertionError with the difference unless the plugin answers a case as it expects. */
export function checkCase(plugin: Plugin, theCase: Case): void;
