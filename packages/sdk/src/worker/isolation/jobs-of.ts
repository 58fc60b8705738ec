/** The jobs that a loaded worker module exports. */
import { moduleOption } from '../../define-job.js';
import { isRunnableJob, JOB, type RunnableJob } from '../../job-definition.js';

export type JobsOfOptions = {
  /** A module that lets Node load this one: `import.meta.resolve('tsx')` for TypeScript. */
  loader?: string | undefined;
};

/**
 * Every exported job with a handler, also inside exported lists, each once. A job that does not name its module gets
 * this address, so that the process of an isolated handler can load it from there.
 */
export function jobsOf(module: object, url: string | URL, { loader }: JobsOfOptions = {}): RunnableJob[] {
  const address = moduleOption('jobsOf', url);
  const jobs = new Set(exportsOf(module).flat().filter(isRunnableJob));
  return [...jobs].map((job) => ({ ...job, [JOB]: { ...job[JOB], module: job[JOB].module ?? address, loader } }));
}

/** `default` is the `module.exports` of a CommonJS module. Node finds only some of its names, so they are read here. */
function exportsOf(module: object): unknown[] {
  const { default: exported } = module as { default?: unknown };
  const isNamespace = typeof exported === 'object' && exported !== null && !isRunnableJob(exported);
  return [...Object.values(module), ...(isNamespace ? Object.values(exported) : [])];
}
