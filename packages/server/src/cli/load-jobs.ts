/** Loads the jobs of a worker module. TypeScript modules are compiled while they are loaded. */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { RunnableJob } from '@drover/sdk';
import { jobsOf } from '@drover/sdk/worker';
import { UsageError } from './exit-codes.js';

const TYPESCRIPT_PATTERN = /\.[cm]?tsx?$/;

export async function loadJobs(modulePath: string, cwd: string): Promise<RunnableJob[]> {
  const path = resolve(cwd, modulePath);
  if (!(await stat(path).catch(() => undefined))?.isFile())
    throw new UsageError(
      `module: expected a JavaScript or TypeScript file that exports jobs, got ${path}: it does not exist`,
    );
  const url = pathToFileURL(path).href;
  const isTypeScript = TYPESCRIPT_PATTERN.test(path);
  // isolated handlers load the module again in their own processes, in the same way
  const loader = isTypeScript ? import.meta.resolve('tsx') : undefined;
  const jobs = jobsOf(await loadModule(url, isTypeScript), url, { loader });
  if (jobs.length > 0) return jobs;
  throw new UsageError(
    `${path} exports no jobs with handlers: export what defineJob with run, or handle, returns, or a list of them`,
  );
}

async function loadModule(url: string, isTypeScript: boolean): Promise<Record<string, unknown>> {
  if (!isTypeScript) return (await import(url)) as Record<string, unknown>;
  // Loaded only when needed, so that plain JavaScript workers do not load a compiler.
  const { tsImport } = await import('tsx/esm/api');
  return (await tsImport(url, import.meta.url)) as Record<string, unknown>;
}
