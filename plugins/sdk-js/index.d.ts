/** Write the logic of a Hotshoe operator as a plain function: from what is observed to what is desired. */

/** A Kubernetes object, as `kubectl get -o json` shows it. */
export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  [field: string]: any;
}

/** The metadata that is always shown, and what was asked for. */
export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid?: string;
  generation?: number;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  [field: string]: any;
}

/** A desired child: the fields that the plugin wants to own. What it leaves out belongs to others. */
export interface DesiredObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; labels?: Record<string, string>; [field: string]: any };
  [field: string]: any;
}

/** What the plugin is and asks for. Asking grants nothing: `plugin.yaml` does. */
export interface PluginDefinition<Parent extends object = KubernetesObject, Config extends object = Record<string, any>> {
  name: string;
  version: string;
  /**
   * The kind of its parents, and the fields of them to be shown beside `spec`, as `metadata.annotations`. A key with
   * other characters is quoted, here and wherever a field is named: `metadata.annotations['example.com/size']`.
   */
  parent: { apiVersion: string; kind: string; fields?: string[] };
  /** The kinds of its children, and the fields of them to be shown, as `status.availableReplicas`. */
  owns?: OwnedKind[];
  /** The kinds that it reads and does not own. */
  reads?: ReadKind[];
  /** What should be, given what is. Equal requests must be answered equally. */
  reconcile(request: Request<Parent, Config>): Decision | Needs | Failure;
  /**
   * The finalizer to hold, of the parent's group and the plugin's name, as `cache.example.com/memcached`; another has to
   * stand in `spec.finalizers` of plugin.yaml. `finalize` goes with it.
   */
  finalizer?: string;
  /** What to do before the parent goes: called until it answers `done(…)`. */
  finalize?(request: Request<Parent, Config>): Waiting | Done | Failure;
  /**
   * What is wrong with a parent before it is stored, and what its author should know; nothing where all is well. For what
   * neither the schema nor `reconcile` can say. `reject` refuses the object too; any other failure admits it with a warning.
   */
  validate?(proposal: Proposal<Parent, Config>): Verdict | Failure | void;
  /**
   * Fills into `proposal.object` what its author left out and the schema cannot say; or returns another object. Defaults of an
   * object that has its defaults change nothing.
   */
  setDefaults?(proposal: Proposal<Parent, Config>): object | Failure | void;
  /** Functions between versions of the parents' kind: `conversions[from][to]`. Others may lead from one to the other. */
  conversions?: Record<string, Record<string, Conversion>>;
  /** Whether `request.now` is shown. */
  wantsNow?: boolean;
  /** Whether `request.attempt` is shown. */
  wantsAttempt?: boolean;
  /** JSON schema of the configuration. It documents it; nothing is checked against it. */
  configSchema?: object;
}

export interface OwnedKind {
  apiVersion: string;
  kind: string;
  verbs: ("create" | "update" | "delete")[];
  fields?: string[];
}

/** Exactly one of `parentLabel`, `parentField` and `sameNamespace`. */
export interface ReadKind {
  /** What `request.related(key)` finds them by. */
  key: string;
  apiVersion: string;
  /** Any kind but Secret: that is needed by its name, with `needs(…)`. */
  kind: string;
  /** A label selector that narrows the watch, as `app=nginx`. */
  selector?: string;
  /** The label that carries `parentLabel(parent's name)`. */
  parentLabel?: string;
  /** The field of the parent that names it, as `spec.secretName`. */
  parentField?: string;
  /** All in the parent's namespace; a change of one wakes every parent there. */
  sameNamespace?: true;
  fields?: string[];
}

/** What a plugin is shown. */
export interface Request<Parent extends object = KubernetesObject, Config extends object = Record<string, any>> {
  /** The parent's name. */
  readonly name: string;
  /** The parent's namespace; absent where it is cluster-scoped. */
  readonly namespace?: string;
  readonly parent: Parent;
  /** What `plugin.yaml` has below `config`. */
  readonly config: Config;
  /** The parent's children of the owned kinds, as observed, sorted by kind, namespace and name. */
  readonly children: KubernetesObject[];
  /** Children whose last write the API server refused. */
  readonly refusals: Refusal[];
  /** Milliseconds since 1970; only with `wantsNow`. */
  readonly now?: number;
  /** How often the parent was tried since its last success; only with `wantsAttempt`. */
  readonly attempt?: number;
  /**
   * The parent's condition of this type, as it was written last: to know what was decided before, and to state it again. It
   * is shown where `fields` of `parent` asks for `status.conditions`, and to `finalize` in any case.
   */
  condition(type: string): Condition | undefined;
  /** The child of this kind, and of the parent's name unless another is given. */
  child(kind: string, name?: string): KubernetesObject | undefined;
  /** The objects found for a declared read or a requirement, sorted by namespace and name. */
  related(key: string): KubernetesObject[];
  /** Whether anything was asked for under this key: false before `needs(…)` was answered. */
  has(key: string): boolean;
}

/** A child whose last write was refused. It stays until a write goes through or the desired child changes. */
export interface Refusal {
  apiVersion: string;
  kind: string;
  namespace?: string;
  name: string;
  /** The HTTP status code. */
  code: number;
  /** The API server's reason, as `Forbidden`; `Conflict` where an object of that name is not this parent's child. */
  reason: string;
  message: string;
}

/** A parent that is to be stored, whole. */
export interface Proposal<Parent extends object = KubernetesObject, Config extends object = Record<string, any>> {
  readonly operation: "create" | "update";
  /** It has no name where the API server will make one of `metadata.generateName`. */
  readonly object: Parent;
  /** The stored object; for `validate` of an update. */
  readonly old?: Parent;
  /** What `plugin.yaml` has below `config`. */
  readonly config: Config;
  /** Whether nothing will be stored in any case. The answer must not depend on it. */
  readonly dryRun: boolean;
  /** Who writes it, where `plugin.yaml` says `showUser`; not there either where stored objects are asked about again. */
  readonly user?: User;
}

/** Who writes an object, as the API server has authenticated it. */
export interface User {
  username: string;
  uid?: string;
  groups: string[];
}

/** What is wrong with a parent. Without errors it is stored. The form is that of `expect` in a case file. */
export interface Verdict {
  /** Any of them refuses the object. */
  errors?: FieldError[];
  /** Shown to the author of the object; the API server shows 120 characters of each. */
  warnings?: string[];
}

/** A field that is wrong. */
export interface FieldError {
  /** For example `spec.size` or `spec.ports[0].name`. */
  field: string;
  reason: `FieldValue${ErrorReason}`;
  /** What is wrong, and what to write instead. */
  message: string;
}

/** Why a field is wrong: the words of `metav1.CauseType`, without `FieldValue`. */
export type ErrorReason =
  | "Invalid" | "Required" | "Forbidden" | "NotSupported" | "Duplicate" | "NotFound" | "TooLong" | "TooMany" | "TypeInvalid";

/**
 * A function that returns an object as it is in another version. What it returns as `metadata` must be as it was, but for the
 * annotations; without it, all of it stays, and `annotations` are those to keep what the other version cannot say.
 */
export type Conversion = (object: any, annotations: Record<string, string>) => object;

/** What should be. The form is that of `expect` in a case file. */
export interface Decision {
  /** Exactly these, and no other that the plugin had made; or "keep": apply nothing, delete nothing. */
  children: DesiredObject[] | "keep";
  /** The parent's status without its conditions: what was observed, never what is desired. Absent leaves it alone. */
  status?: object;
  /** All conditions that the plugin states; one that it no longer states is removed. */
  conditions?: Condition[];
  /** Kubernetes Events about the parent. */
  events?: Event[];
  /** Decide again after so many milliseconds, even if nothing changes. */
  requeueAfterMs?: number;
  /**
   * All labels that the plugin states of the parent; one that it no longer states is removed. `plugin.yaml` has to list their
   * keys in `spec.parentMetadata.labels`. One that another has set to another value stays, and is among the refusals.
   */
  parentLabels?: Record<string, string | undefined>;
  /** All annotations that the plugin states of the parent, as `parentLabels`: in `spec.parentMetadata.annotations`. */
  parentAnnotations?: Record<string, string | undefined>;
}

/** A status condition. The host owns its times and generations. */
export interface Condition {
  type: string;
  status: "True" | "False" | "Unknown";
  /** One PascalCase word. */
  reason: string;
  message?: string;
}

export interface Event {
  severity: "Normal" | "Warning";
  /** One PascalCase word. */
  reason: string;
  message: string;
}

/** An object that a decision needs beyond those of `reads`, or all objects with certain labels: with `name` or `selector`. */
export interface Requirement {
  /** What `request.related(key)` finds it by. */
  key: string;
  apiVersion: string;
  kind: string;
  name?: string;
  /** As kubectl writes it, such as `"app=shop,tier in (a,b)"`, or a `LabelSelector`, such as one of the parent's spec. `{}` selects all. */
  selector?: string | LabelSelector;
  /** The parent's namespace unless another is given. */
  namespace?: string;
}

/** A `LabelSelector` of Kubernetes. */
export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: "In" | "NotIn" | "Exists" | "DoesNotExist"; values?: string[] }[];
}

export interface Needs { needs: Requirement[] }
export interface Waiting { waiting: Decision }
export interface Done { done: Decision }
export type Failure = Rejection | RetryRequest;

export class Rejection extends Error { readonly field?: string }
export class RetryRequest extends Error { readonly afterMs?: number }

declare const brand: unique symbol;

/** A checked definition; the default export of a plugin's module. */
export interface Plugin { readonly [brand]: true }

/** Checks a definition; an error names the key at fault when the component is built. */
export function definePlugin<Parent extends object = KubernetesObject, Config extends object = Record<string, any>>(
  definition: PluginDefinition<Parent, Config>,
): Plugin;

/** A condition; `true` and `false` stand for "True" and "False". */
export function condition(type: string, status: boolean | "True" | "False" | "Unknown", reason: string, message?: string): Condition;

/** A Normal Event. */
export function normal(reason: string, message: string): Event;

/** A Warning Event. */
export function warning(reason: string, message: string): Event;

/** A field that is wrong, in the answer of `validate`. */
export function fieldError(field: string, reason: ErrorReason, message: string): FieldError;

/** Answer to `reconcile`: call again with these. The host fetches what the grant allows, five rounds at most. */
export function needs(...requirements: (Requirement | Requirement[])[]): Needs;

/** Answer to `finalize`: not finished. The decision may change and delete children, and creates only those of kinds in `spec.finalize`. */
export function waiting(decision: Decision): Waiting;

/** Answer to `finalize`: finished. */
export function done(decision?: Decision): Done;

/** To be thrown or returned: the parent cannot be served as it is. No retry until it, or what it was decided on, changes. */
export function reject(message: string, field?: string): Rejection;

/** To be thrown or returned: try again, after so many milliseconds or with back-off. */
export function retry(message: string, afterMs?: number): RetryRequest;

/**
 * The desired child, which leaves these fields, as `spec.paused`, to others: when the plugin no longer sets them, their
 * values stay, instead of being removed. What the scale subresource sets, as `spec.replicas` of a Deployment, needs no
 * mention. A field that the child sets itself cannot be left, and the host says so.
 */
export function leave<Child extends DesiredObject>(child: Child, ...fields: string[]): Child;

/**
 * A Pod template of a user as a host admits it without any grant for Pods, and the paths of the fields that were removed for
 * that, such as `spec.volumes[0].hostPath`: say them in a condition. A variable, a volume or a probe of which a field is
 * removed goes altogether, and with a volume its mounts. Each container then says `allowPrivilegeEscalation: false`, and the
 * Pod `automountServiceAccountToken: false`, which a host requires.
 */
export function harmless(template: object): { template: Record<string, unknown>; removed: string[] };

/**
 * A Pod template of a user as from `harmless`, if nothing has to be removed from it. Otherwise the parent is rejected, with
 * what to remove from this field, such as `spec.template`.
 */
export function requireHarmless(template: object, field: string): Record<string, unknown>;

/**
 * The desired child, which is deleted and made anew where the API server does not let a field change, such as the
 * template of a Job. It is gone meanwhile, with all that it owns. Needs `recreate: true` on the rule of its kind in
 * `plugin.yaml`, and the verb `delete`.
 */
export function recreate<Child extends DesiredObject>(child: Child): Child;

/** The value of the label by which `reads: [{ parentLabel }]` finds what belongs to a parent of this name. */
export function parentLabel(name: string): string;
