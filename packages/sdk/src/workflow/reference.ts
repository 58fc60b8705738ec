/**
 * References to values that a run will have: its input, and the outputs of steps. A reference is a proxy. Reading a field
 * of it gives the reference to that field, so that the compiler knows what a workflow passes on.
 */
import { DroverError, LIMITS } from '@drover/protocol';
import { toJson } from '../json.js';

declare const VALUE: unique symbol;
declare const MAYBE_SKIPPED: unique symbol;

/** Stands for a value of type `T`. */
export type Value<T> = { readonly [VALUE]: T };
type MaybeSkipped = { readonly [MAYBE_SKIPPED]: true };

/** A reference. `S`: the step that it refers to may be skipped, so the output of the workflow may have null in its place. */
export type Ref<T = unknown, S = unknown> = Value<T> & S & Fields<T, S>;

/** An absent value is null. */
type Present<T> = T extends undefined ? null : T;
type Field<T, P> = T extends unknown ? Present<T> | P : never;
/** `P`: null if the whole value may be absent. */
type Fields<T, S, P = Extract<T, null>> =
  NonNullable<T> extends infer N
    ? [N] extends [readonly (infer Item)[]]
      ? { readonly length: Ref<number | P, S>; readonly [index: number]: Ref<Field<Item, null>, S> }
      : [N] extends [string]
        ? { readonly length: Ref<number | P, S> }
        : [N] extends [object]
          ? { readonly [Key in keyof N]-?: Ref<Field<N[Key], P>, S> }
          : unknown
    : never;

/** A value of each item of a list. Its fields are lists of the fields. */
export type Each<T, S = unknown> = Value<T[]> &
  S &
  (NonNullable<T> extends readonly unknown[] | string | number | boolean
    ? unknown
    : { readonly [Key in keyof NonNullable<T>]-?: Each<Field<NonNullable<T>[Key], Extract<T, null>>, S> });

/** What JSON makes of a value. */
export type AsJson<T> = unknown extends T
  ? T
  : T extends { toJSON(): infer Json }
    ? AsJson<Json>
    : T extends string | number | boolean | null
      ? T
      : T extends void
        ? null
        : T extends (...given: never[]) => unknown
          ? never
          : T extends readonly unknown[]
            ? { -readonly [Index in keyof T]: AsJson<T[Index]> }
            : { [Key in keyof T]: AsJson<T[Key]> };

/** A value of type `T` in which any part may be a reference. */
export type Given<T> = Value<T> | GivenParts<T>;
type GivenParts<T> = unknown extends T
  ? T
  : T extends string | number | boolean | null | undefined | Date
    ? T
    : T extends readonly (infer Item)[]
      ? readonly Given<Item>[]
      : T extends object
        ? { readonly [Key in keyof T]: Given<T[Key]> }
        : T;

/** The type of the value that a template becomes. */
export type Filled<G> = unknown extends G
  ? unknown
  : G extends MaybeSkipped & Value<infer T>
    ? T | null
    : G extends Value<infer T>
      ? T
      : G extends string | number | boolean | null
        ? G
        : G extends void
          ? null
          : { -readonly [Key in keyof G]: Filled<G[Key]> };

/** Marks a reference whose step may be skipped. */
export type Skippable = MaybeSkipped;

const PATH = Symbol('path of a reference');
/** Where a step keeps its name. */
export const STEP = Symbol('step');
type Path = { readonly owner: object; readonly keys: readonly string[] };

/** `owner`: the definition that the reference may be used in. */
export function refTo<T>(owner: object, keys: readonly string[]): Ref<T> {
  const path: Path = { owner, keys };
  const fail = () => {
    throw misused(path);
  };
  const ref = new Proxy(
    {},
    {
      get(_target, key) {
        if (key === PATH) return path;
        if (typeof key === 'symbol') return undefined;
        // a definition is JSON, and the value does not exist yet: `${ref}` and ref + 1 would have no meaning
        if (key === 'toString' || key === 'valueOf' || key === 'toJSON') return fail();
        return refTo(owner, [...keys, key]);
      },
      has: (_target, key) => key === PATH,
      ownKeys: fail,
      set: fail,
    },
  );
  return ref as unknown as Ref<T>;
}

function misused({ keys }: Path): DroverError {
  const message = `${keys.join('.')} is a reference to a value that only a run has: pass it on, or compare it with gt, eq and so on`;
  return new DroverError('invalid_request', `defineWorkflow: ${message}`);
}

/** The values of all items of a list: `each(parse.output).words` is the list of their `words`. */
export function each<T>(list: Value<readonly T[]>): Each<T> {
  const path = pathOf(list);
  if (path === undefined) throw new DroverError('invalid_request', 'each: expected a reference to a list');
  return refTo<T[]>(path.owner, [...path.keys, '*']) as unknown as Each<T>;
}

export function pathOf(value: unknown): Path | undefined {
  if (typeof value !== 'object' || value === null || !(PATH in value)) return undefined;
  return (value as { [PATH]: Path })[PATH];
}

/** JSON with references as the API takes them. `field` names the place of a mistake. */
export function templateOf(value: unknown, field: string, owner: object, depth = 0): unknown {
  const path = pathOf(value);
  if (path !== undefined) return referenceOf(path, field, owner);
  const refuse = (message: string) => new DroverError('invalid_request', `defineWorkflow: ${field}: ${message}`);
  if (depth > LIMITS.templateDepth) throw refuse(`expected JSON of at most ${LIMITS.templateDepth} levels`);
  if (Array.isArray(value)) {
    return value.map((item, index) => templateOf(item, `${field}[${index}]`, owner, depth + 1));
  }
  if (typeof value === 'object' && value !== null && STEP in value) {
    throw refuse(`expected a value, got the step "${value[STEP]}"; use its output`);
  }
  if (!isPlainObject(value)) return JSON.parse(toJson(value, `defineWorkflow: ${field}`).text);
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  const filled = Object.fromEntries(
    entries.map(([key, item]) => [key, templateOf(item, `${field}.${key}`, owner, depth + 1)]),
  );
  const [only] = entries;
  if (entries.length !== 1 || (only?.[0] !== '$' && only?.[0] !== '$literal')) return filled;
  // an object of the user's own that looks like a reference
  if (JSON.stringify(filled) === JSON.stringify(value)) return { $literal: filled };
  throw refuse(`an object with the one key ${only[0]} cannot contain a reference`);
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function referenceOf({ owner, keys }: Path, field: string, expected: object): { $: string | string[] } {
  if (owner !== expected) {
    const message = `${keys.join('.')} is of another workflow; expected a reference of this one`;
    throw new DroverError('invalid_request', `defineWorkflow: ${field}: ${message}`);
  }
  return { $: keys.some((key) => key.includes('.')) ? [...keys] : keys.join('.') };
}
