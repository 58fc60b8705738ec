/** The graph of a workflow as the rows of drover.node and drover.edge. */
import type { Graph, GraphNode, Template } from '@drover/protocol';

/** The columns as drover.register_workflow reads them. */
export type NodeRow = Record<string, unknown> & { n: number; name: string };
export type WorkflowRows = {
  nodes: NodeRow[];
  edges: { parent: number; child: number; on: string }[];
  output: object | null;
};

export function rowsOf(graph: Graph): WorkflowRows {
  const places = new Map(graph.nodes.map(({ name }, n) => [name, n]));
  const placeOf = (name: string) => places.get(name) as number;
  const templateRow = (template: Template | undefined) =>
    template === undefined
      ? null
      : {
          texts: template.texts,
          sources: template.sources.map(({ source, step, path }) => ({ source, path, node: step && placeOf(step) })),
        };
  const parents = new Map<string, number>();
  for (const { child } of graph.edges) parents.set(child, (parents.get(child) ?? 0) + 1);
  return {
    nodes: graph.nodes.map((node, n) => ({
      ...{ n, name: node.name, role: node.role, kind: node.kind, target: node.target ?? null },
      ...{ undoes: node.undoes === undefined ? null : placeOf(node.undoes), in_degree: parents.get(node.name) ?? 0 },
      ...{ queue: node.options.queue ?? null, priority: node.options.priority ?? null, options: optionsOf(node, n) },
      ...{ input: templateRow(node.input), over: templateRow(node.over), concurrency: node.concurrency ?? null },
      ...toleranceOf(node),
      ...{ continues_on_failure: node.continuesOnFailure, condition: node.condition?.path ?? null },
      condition_input: templateRow(node.condition?.input),
    })),
    edges: graph.edges.map(({ parent, child, on }) => ({ parent: placeOf(parent), child: placeOf(child), on })),
    output: templateRow(graph.output),
  };
}

/** The members of a JSON object, to which the statement that starts the step adds the run. */
function optionsOf({ name, options: { queue: _, ...options }, isComplete }: GraphNode, n: number): string {
  return JSON.stringify({ step: name, node: n, ...options, ...(isComplete && { complete: true }) }).slice(1, -1);
}

function toleranceOf({ tolerate }: GraphNode) {
  const percent = typeof tolerate === 'string' ? Number.parseFloat(tolerate) : null;
  return { tolerated: typeof tolerate === 'number' ? tolerate : null, tolerated_percent: percent };
}
