/** Arguments of Node for an isolated handler: the worker's module loading options, and the handler's limits. */

/** Options that decide how modules are loaded, and options that only concern warnings. */
const INHERITED = new Set([
  '--import',
  '--require',
  '-r',
  '--loader',
  '--experimental-loader',
  '--conditions',
  '-C',
  '--enable-source-maps',
  '--experimental-strip-types',
  '--experimental-transform-types',
  '--preserve-symlinks',
  '--no-warnings',
  '--disable-warning',
]);
const WITHOUT_VALUE = new Set([
  '--enable-source-maps',
  '--experimental-strip-types',
  '--experimental-transform-types',
  '--preserve-symlinks',
  '--no-warnings',
]);
const MIB = 1024 * 1024;

export type NodeNeeds = { loader: string | undefined; memoryBytes: number | undefined };

/** `inherited` is the worker's `process.execArgv`. Debugger, profiler and inline scripts are not inherited. */
export function nodeArguments(inherited: readonly string[], { loader, memoryBytes }: NodeNeeds): string[] {
  const given: string[] = [];
  for (let index = 0; index < inherited.length; index++) {
    const argument = inherited[index] as string;
    const [name = ''] = argument.split('=', 1);
    if (!INHERITED.has(name)) continue;
    given.push(argument);
    if (argument === name && !WITHOUT_VALUE.has(name)) given.push(inherited[++index] ?? '');
  }
  if (loader !== undefined) given.push('--import', loader);
  if (memoryBytes !== undefined) given.push(`--max-old-space-size=${Math.floor(memoryBytes / MIB)}`);
  return given;
}
