export { type Condition, parseCondition } from './condition.js';
export {
  EDGE_STATES,
  type EdgeState,
  type NewWorkflow,
  newWorkflowSchema,
  type ParsedWorkflow,
} from './definition.js';
export { type Graph, type GraphEdge, type GraphNode, graphOf } from './graph.js';
export {
  type NewRun,
  type NewRunInput,
  newRunSchema,
  RUN_STATES,
  type Run,
  type RunState,
  type RunStep,
  type RunWithSteps,
  repeatRunSchema,
  runSchema,
  runWithStepsSchema,
  type Workflow,
  workflowSchema,
  workflowWithDefinitionSchema,
} from './run.js';
export type { Template, ValueSource } from './template.js';
