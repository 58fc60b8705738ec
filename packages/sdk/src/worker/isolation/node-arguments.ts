/** How Node is started for an isolated handler: with the worker's own ways of loading modules, and its limits. */

/** Options of the worker's Node that decide how modules are loaded, and those that only concern a warning. */
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

/** `inherited` is the worker's `process.execArgv`. A debugger, a profiler or an inline script stays behind. */
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
