/** From the path of a worker module to its handlers. TypeScript modules are compiled as they are loaded. */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { JobHandler } from '@drover/sdk/worker';
import { UsageError } from './exit-codes.js';

const TYPESCRIPT_PATTERN = /\.[cm]?tsx?$/;

export async function loadHandlers(modulePath: string, cwd: string): Promise<JobHandler[]> {
  const path = resolve(cwd, modulePath);
  if (!(await stat(path).catch(() => undefined))?.isFile())
    throw new UsageError(`there is no worker module at ${path}`);
  const handlers = handlersOf(await loadModule(path));
  if (handlers.length > 0) return handlers;
  throw new UsageError(
    `${path} exports no handlers: export what handle(job, …) of @drover/sdk/worker returns, or a list of them`,
  );
}

async function loadModule(path: string): Promise<Record<string, unknown>> {
  const url = pathToFileURL(path).href;
  if (!TYPESCRIPT_PATTERN.test(path)) return (await import(url)) as Record<string, unknown>;
  // Loaded only when needed: plain JavaScript workers do not pay for a compiler.
  const { tsImport } = await import('tsx/esm/api');
  return (await tsImport(url, import.meta.url)) as Record<string, unknown>;
}

/** Every export that is a handler, and those inside exported lists; each once. */
export function handlersOf(module: Record<string, unknown>): JobHandler[] {
  return [...new Set(Object.values(module).flat().filter(isHandler))];
}

/** By its form: the module may come with its own copy of the SDK. */
function isHandler(value: unknown): value is JobHandler {
  if (typeof value !== 'object' || value === null || !('run' in value) || !('definition' in value)) return false;
  const { run, definition } = value;
  return typeof run === 'function' && typeof definition === 'object' && definition !== null && 'type' in definition;
}
