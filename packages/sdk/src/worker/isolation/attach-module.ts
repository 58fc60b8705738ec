/** Where the process of an isolated handler finds it again: its module, and what it takes to load that module. */
import { refuse } from '../../options.js';
import type { JobHandler } from '../handle.js';

export type AttachOptions = {
  /** A module that teaches Node to load the handlers' one: `import.meta.resolve('tsx')` for TypeScript. */
  loader?: string | undefined;
};

/** Added by tsx to everything it loads by `tsImport`. It names an instance inside this very process. */
const TSX_NAMESPACE = 'tsx-namespace';

/** The handlers with the module they were exported from, for those that do not name their own. */
export function attachModule(
  handlers: readonly JobHandler[],
  moduleUrl: string | URL,
  { loader }: AttachOptions = {},
): JobHandler[] {
  const module = moduleOption('attachModule', moduleUrl);
  return handlers.map((handler) => ({ ...handler, module: handler.module ?? module, loader }));
}

export function moduleOption(where: string, value: unknown): string {
  const text = String(value);
  if (!URL.canParse(text) || !text.startsWith('file:')) {
    refuse(where, 'module', value, 'the address of a file, as import.meta.url gives it');
  }
  const url = new URL(text);
  url.searchParams.delete(TSX_NAMESPACE);
  return url.href;
}

/** Every export that is a handler, and those inside exported lists; each once. */
export function handlersOf(module: object): JobHandler[] {
  return [...new Set(Object.values(module).flat().filter(isHandler))];
}

/** By its form: the module may come with its own copy of the SDK. */
function isHandler(value: unknown): value is JobHandler {
  if (typeof value !== 'object' || value === null || !('run' in value) || !('definition' in value)) return false;
  const { run, definition } = value;
  return typeof run === 'function' && typeof definition === 'object' && definition !== null && 'type' in definition;
}
