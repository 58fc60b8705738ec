/** From the path of a worker module to its handlers. TypeScript modules are compiled as they are loaded. */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { attachModule, handlersOf, type JobHandler } from '@drover/sdk/worker';
import { UsageError } from './exit-codes.js';

const TYPESCRIPT_PATTERN = /\.[cm]?tsx?$/;

export async function loadHandlers(modulePath: string, cwd: string): Promise<JobHandler[]> {
  const path = resolve(cwd, modulePath);
  if (!(await stat(path).catch(() => undefined))?.isFile())
    throw new UsageError(`there is no worker module at ${path}`);
  const url = pathToFileURL(path).href;
  const isTypeScript = TYPESCRIPT_PATTERN.test(path);
  const handlers = handlersOf(await loadModule(url, isTypeScript));
  // handlers that run in processes of their own are loaded there once more, in the same way
  const loader = isTypeScript ? import.meta.resolve('tsx') : undefined;
  if (handlers.length > 0) return attachModule(handlers, url, { loader });
  throw new UsageError(
    `${path} exports no handlers: export what handle(job, …) of @drover/sdk/worker returns, or a list of them`,
  );
}

async function loadModule(url: string, isTypeScript: boolean): Promise<Record<string, unknown>> {
  if (!isTypeScript) return (await import(url)) as Record<string, unknown>;
  // Loaded only when needed: plain JavaScript workers do not pay for a compiler.
  const { tsImport } = await import('tsx/esm/api');
  return (await tsImport(url, import.meta.url)) as Record<string, unknown>;
}
