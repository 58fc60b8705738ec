/**
 * Conditions of steps: comparisons of references, as data. A comparison with an absent value, or of values of different
 * types, does not hold, and neither does its `not`.
 */
import type { Value } from './reference.js';

declare const CONDITION: unique symbol;

/** Made by `gt`, `eq`, `and` and so on. */
export type StepCondition = { readonly [CONDITION]: true };

type Scalar = string | number | boolean | null;
type Operand<T> = T | Value<T | null>;

const conditionOf = (json: object) => json as StepCondition;

export function eq<T extends Scalar>(one: Value<T>, other: Operand<NoInfer<T>>): StepCondition {
  return conditionOf({ eq: [one, other] });
}

export function ne<T extends Scalar>(one: Value<T>, other: Operand<NoInfer<T>>): StepCondition {
  return conditionOf({ ne: [one, other] });
}

export function gt<T extends string | number>(one: Value<T | null>, other: Operand<NoInfer<T>>): StepCondition {
  return conditionOf({ gt: [one, other] });
}

export function gte<T extends string | number>(one: Value<T | null>, other: Operand<NoInfer<T>>): StepCondition {
  return conditionOf({ gte: [one, other] });
}

export function lt<T extends string | number>(one: Value<T | null>, other: Operand<NoInfer<T>>): StepCondition {
  return conditionOf({ lt: [one, other] });
}

export function lte<T extends string | number>(one: Value<T | null>, other: Operand<NoInfer<T>>): StepCondition {
  return conditionOf({ lte: [one, other] });
}

/** The value is one of these. */
export function isIn<T extends Scalar>(one: Value<T>, choices: readonly Operand<NoInfer<T>>[]): StepCondition {
  return conditionOf({ in: [one, choices] });
}

/** The value is there, and not null. */
export function exists(one: Value<unknown>): StepCondition {
  return conditionOf({ exists: one });
}

export function and(...conditions: StepCondition[]): StepCondition {
  return conditionOf({ and: conditions });
}

export function or(...conditions: StepCondition[]): StepCondition {
  return conditionOf({ or: conditions });
}

export function not(condition: StepCondition): StepCondition {
  return conditionOf({ not: condition });
}
