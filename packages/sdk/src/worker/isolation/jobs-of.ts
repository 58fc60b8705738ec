/** The jobs that a loaded worker module exports. */
import { moduleOption } from '../../define-job.js';
import { isRunnableJob, JOB, type RunnableJob } from '../../job-definition.js';

export type JobsOfOptions = {
  /** A module that teaches Node to load this one: `import.meta.resolve('tsx')` for TypeScript. */
  loader?: string | undefined;
};

/**
 * Every export that is a job with a handler, and those inside exported lists; each once. A job that does not name its
 * module is given the address, so that the process of an isolated handler can load it from there.
 */
export function jobsOf(module: object, url: string | URL, { loader }: JobsOfOptions = {}): RunnableJob[] {
  const address = moduleOption('jobsOf', url);
  const jobs = new Set(Object.values(module).flat().filter(isRunnableJob));
  return [...jobs].map((job) => ({ ...job, [JOB]: { ...job[JOB], module: job[JOB].module ?? address, loader } }));
}
