/** The options of a step, as the fields of its JSON. */
import { JOB_DEFAULT_NAMES } from '@drover/protocol';
import { refuse, refuseUnknownOptions } from '../options.js';
import { templateOf } from './reference.js';
import type { StepEdge } from './workflow-definition.js';

/** The options of its jobs. */
export const STEP_JOB_OPTION_NAMES = [...JOB_DEFAULT_NAMES, 'delay'] as const;

/** Checked at last by the schema of a workflow. */
export type GivenOptions = { readonly [name: string]: unknown };

/** Those of the options that are fields of the step itself. Refuses what is neither in `names` nor in `others`. */
export function stepFields(
  field: string,
  options: GivenOptions,
  names: readonly string[],
  owner: object,
  others: readonly string[] = [],
): object {
  refuseUnknownOptions(`defineWorkflow: ${field}`, options, [...names, ...others]);
  const fields = Object.fromEntries(names.map((name) => [name, options[name]]));
  if (options.if !== undefined) fields.if = templateOf(options.if, `${field}.if`, owner);
  if (options.after !== undefined) {
    const edges = Array.isArray(options.after) ? options.after : [options.after];
    fields.after = edges.map((edge, index) => edgeOf(edge as StepEdge, `${field}.after[${index}]`));
  }
  return fields;
}

function edgeOf(edge: StepEdge, field: string): string | { step: string; on: string | undefined } {
  const expected = "a step, or { step, on: 'failure' }";
  if (typeof edge !== 'object' || edge === null) refuse('defineWorkflow', field, edge, expected);
  if (!('step' in edge)) return nameOf(edge, field, expected);
  return { step: nameOf(edge.step, field, expected), on: edge.on };
}

function nameOf(step: unknown, field: string, expected: string): string {
  const name: unknown = typeof step === 'object' && step !== null && 'name' in step ? step.name : undefined;
  return typeof name === 'string' ? name : refuse('defineWorkflow', field, step, expected);
}
