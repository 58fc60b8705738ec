/** The graph of a workflow: its steps as nodes, and the edges that follow from `after`, `first` and references. */
import { DroverError } from '../errors.js';
import { LIMITS } from '../limits.js';
import { type Condition, parseCondition } from './condition.js';
import type { EdgeState, ParsedWorkflow, Step } from './definition.js';
import { parseTemplate, refuse, type Scope, type Template } from './template.js';

type StepOptions = NonNullable<Step['options']>;

export type GraphNode = {
  /** The name of the step; of the step and what it does to it; or onFailure, finally. */
  readonly name: string;
  readonly role: 'step' | 'undo' | 'onFailure' | 'finally';
  readonly kind: 'job' | 'run' | 'first';
  /** The name of the step that it undoes. */
  readonly undoes?: string;
  /** The type of the job, or the name of the workflow. */
  readonly target?: string | undefined;
  readonly options: StepOptions;
  readonly isComplete: boolean;
  readonly input?: Template;
  readonly over?: Template;
  readonly concurrency?: number | undefined;
  readonly tolerate?: number | string | undefined;
  readonly continuesOnFailure: boolean;
  readonly condition?: Condition;
};

export type GraphEdge = { readonly parent: string; readonly child: string; readonly on: EdgeState };

export type Graph = {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
  readonly output?: Template;
};

/** Throws invalid_request with the place of the first mistake. */
export function graphOf(workflow: ParsedWorkflow): Graph {
  const steps = Object.entries(workflow.steps);
  const names = new Set(steps.map(([name]) => name));
  const inGraph: Scope = { steps: names, roots: ['input', 'run'] };
  const atEnd: Scope = { steps: names, roots: ['input', 'run', 'error'] };

  const nodes = steps.map(([name, step]) => nodeOf(name, step, inGraph));
  const undos = steps.flatMap(([name, { undo }]) =>
    undo ? [{ ...extra(`${name}.undo`, 'undo', undo, `steps.${name}.undo`, atEnd), undoes: name }] : [],
  );
  const ends = (['onFailure', 'finally'] as const).flatMap((role) => {
    const job = workflow[role];
    return job ? [extra(role, role, job, role, atEnd)] : [];
  });
  const edges = steps.flatMap(([name, step], index) => edgesOf(name, step, nodes[index] as GraphNode, workflow));
  if (edges.length > LIMITS.workflowEdges) {
    throw refuse('steps', `expected at most ${LIMITS.workflowEdges} edges, got ${edges.length}`);
  }
  refuseCycle([...names], edges);
  const all = { nodes: [...nodes, ...undos, ...ends], edges };
  return workflow.output === undefined ? all : { ...all, output: parseTemplate(workflow.output, 'output', inGraph) };
}

function nodeOf(name: string, step: Step, scope: Scope): GraphNode {
  const field = `steps.${name}`;
  const { type, workflow, first, input, over, options = {}, concurrency, tolerate } = step;
  const ofItem: Scope = over === undefined ? scope : { ...scope, roots: [...scope.roots, 'item', 'index'] };
  return {
    ...{ name, role: 'step', options, isComplete: step.complete ?? false, concurrency, tolerate },
    continuesOnFailure: step.continueOnFailure ?? false,
    kind: first ? 'first' : workflow === undefined ? 'job' : 'run',
    target: type ?? workflow,
    ...(input !== undefined && { input: parseTemplate(input, `${field}.input`, ofItem) }),
    ...(over !== undefined && { over: parseTemplate(over, `${field}.over`, scope) }),
    ...(step.if !== undefined && { condition: parseCondition(step.if, `${field}.if`, scope) }),
  };
}

type ExtraJob = NonNullable<ParsedWorkflow['finally']>;

function extra(name: string, role: GraphNode['role'], job: ExtraJob, field: string, scope: Scope): GraphNode {
  const { type, input, options = {}, complete = false } = job;
  return {
    ...{ name, role, kind: 'job', target: type, options, isComplete: complete, continuesOnFailure: false },
    ...(input !== undefined && { input: parseTemplate(input, `${field}.input`, scope) }),
  };
}

/** What `after` says holds; a step that is only referred to must have succeeded. */
function edgesOf(child: string, step: Step, node: GraphNode, { steps }: ParsedWorkflow): GraphEdge[] {
  const field = `steps.${child}`;
  const edges = new Map<string, EdgeState>();
  const given = (step.first ?? step.after ?? []).map((edge) => (typeof edge === 'string' ? { step: edge } : edge));
  for (const [index, edge] of given.entries()) {
    const { step: parent, on = 'success' } = edge as { step: string; on?: EdgeState };
    const place = `${field}.${step.first ? 'first' : 'after'}[${index}]`;
    const known = steps[parent];
    if (known === undefined) throw refuse(place, `there is no step "${parent}"`);
    if (edges.has(parent)) throw refuse(place, `"${parent}" is given twice`);
    if (on === 'failure' && known.first)
      throw refuse(place, `"${parent}" merges branches and cannot fail, so "${child}" is never reached`);
    if (on === 'failure' && known.continueOnFailure) {
      throw refuse(
        place,
        `"${parent}" has continueOnFailure, which says what follows its failure; expected one of the two`,
      );
    }
    edges.set(parent, on);
  }
  for (const template of [node.input, node.over, node.condition?.input]) {
    for (const { step: parent } of template?.sources ?? []) {
      if (parent !== undefined && !edges.has(parent)) edges.set(parent, 'success');
    }
  }
  return [...edges].map(([parent, on]) => ({ parent, child, on }));
}

/** Depth first, without recursion: a chain may have as many steps as a workflow. */
function refuseCycle(names: readonly string[], edges: readonly GraphEdge[]): void {
  const children = new Map<string, string[]>(names.map((name) => [name, []]));
  for (const { parent, child } of edges) children.get(parent)?.push(child);
  const done = new Set<string>();
  for (const start of names) {
    const path: { name: string; next: number }[] = done.has(start) ? [] : [{ name: start, next: 0 }];
    const onPath = new Set(path.map(({ name }) => name));
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const child = children.get(top.name)?.[top.next++];
      if (child === undefined) {
        done.add(top.name);
        onPath.delete(top.name);
        path.pop();
      } else if (onPath.has(child)) {
        const cycle = path.slice(path.findIndex(({ name }) => name === child)).map(({ name }) => name);
        throw cycleError([...cycle, child]);
      } else if (!done.has(child)) {
        path.push({ name: child, next: 0 });
        onPath.add(child);
      }
    }
  }
}

function cycleError(cycle: string[]): DroverError {
  const shown = cycle.length > 12 ? [...cycle.slice(0, 6), '…', ...cycle.slice(-5)] : cycle;
  const message = `the steps wait for each other: ${shown.join(' → ')}`;
  return new DroverError('invalid_request', `steps: ${message}`, { issues: [{ field: 'steps', message }] });
}
