/** Workflows that `defineWorkflow` refuses. */
import { defineJob, defineWorkflow, type Ref, type StepHandle, type WorkflowContext } from '@drover/sdk';
import { describeMistakes } from './support/mistakes.js';

const work = defineJob<unknown, { name: string }>({ type: 'work' });

/** Defines a workflow with these steps. */
const define = (build: (context: WorkflowContext<unknown>) => unknown) => async () => {
  defineWorkflow({ name: 'wrong' }, build);
};

describeMistakes('workflows in code', [
  [
    'two steps with one name',
    define(({ step }) => {
      step('one', work);
      step('one', work);
    }),
    'defineWorkflow: there are two steps with the name "one"',
  ],
  ['no steps', define(() => {}), 'defineWorkflow wrong: steps: expected at least one step, got {}'],
  [
    'an unknown option of a step',
    define(({ step }) => step('one', work, null, { prioriti: 1 } as object)),
    'defineWorkflow: steps.one: unknown option "prioriti"; did you mean "priority"?',
  ],
  [
    'an option of jobs for a run of a workflow',
    define(({ step }) => {
      const inner = defineWorkflow({ name: 'inner' }, (context) => {
        context.step('one', work);
      });
      step('one', inner, null, { queue: 'q' } as object);
    }),
    'defineWorkflow: steps.one: unknown option "queue"; expected one of after, if, continueOnFailure',
  ],
  [
    'a handler in the place of a job',
    define(({ step }) => step('one', (() => {}) as unknown as typeof work)),
    'defineWorkflow: steps.one: expected the return value of defineJob or defineWorkflow, got a function',
  ],
  [
    'a reference in a string',
    define(({ step }) => {
      const { output } = step('one', work);
      step('two', work, `Hello ${output.name}`);
    }),
    'defineWorkflow: one.output.name is a reference to a value that only a run has: pass it on, or compare it with gt, eq and so on',
  ],
  [
    'a reference that is spread',
    define(({ step }) => {
      const { output } = step('one', work);
      step('two', work, { ...output });
    }),
    'defineWorkflow: one.output is a reference to a value that only a run has: pass it on, or compare it with gt, eq and so on',
  ],
  [
    'a reference of another workflow',
    define(({ step }) => {
      let foreign: Ref | undefined;
      defineWorkflow({ name: 'other' }, (other) => {
        foreign = other.step('one', work).output;
      });
      step('two', work, { name: foreign });
    }),
    'defineWorkflow: steps.two.input.name: one.output is of another workflow; expected a reference of this one',
  ],
  [
    'the item of a map outside of it',
    define(({ step, map }) => {
      let item: unknown;
      const { output } = step('one', work);
      map('two', output as never, work, (each) => {
        item = each;
        return each;
      });
      step('three', work, { item });
    }),
    'defineWorkflow wrong: steps.three.input.item: "item" means nothing here: expected a reference that begins with a step or input, run',
  ],
  [
    'something else than a step in after',
    define(({ step }) => step('one', work, null, { after: 'two' as unknown as StepHandle })),
    `defineWorkflow: steps.one.after[0]: expected a step, or { step, on: 'failure' }, got "two"`,
  ],
  [
    'a name that means something else',
    define(({ step }) => {
      step('input', work);
    }),
    'defineWorkflow wrong: steps.input: expected another name than input, item, index, run, error, onFailure, finally, which mean something else, got "input"',
  ],
  [
    'a step in the place of its output',
    define(({ step }) => step('one', work)),
    'defineWorkflow: output: expected a value, got the step "one"; use its output',
  ],
  [
    'a value that JSON cannot represent',
    define(({ step }) => step('one', work, { at: new Map() })),
    'defineWorkflow: steps.one.input.at: expected a value that JSON can represent, got a Map; send Object.fromEntries(map)',
  ],
  [
    'two jobs that undo a step',
    define(({ step }) => step('one', work).undo(work).undo(work)),
    'defineWorkflow: steps.one has an undo already',
  ],
  [
    'two jobs at the end',
    define(({ step, finally: atEnd }) => {
      step('one', work);
      atEnd(work);
      atEnd(work);
    }),
    'defineWorkflow: finally is given twice',
  ],
  [
    'an async function',
    define(async ({ step }) => {
      step('one', work);
    }),
    'defineWorkflow: function: expected a function that is not async, got an object of class Promise',
  ],
]);
