/** Checks that every entry point applies to its options. */
import { DroverError, DURATION_EXPECTED, nearest, parseDuration } from '@drover/protocol';

/** A misspelt option must not be ignored silently. */
export function refuseUnknownOptions(where: string, options: object, known: readonly string[]): void {
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue;
    const guess = nearest(name, known);
    const hint = guess === undefined ? `expected one of ${known.join(', ')}` : `did you mean "${guess}"?`;
    throw new DroverError('invalid_request', `${where}: unknown option "${name}"; ${hint}`, {
      issues: [{ field: name, message: `unknown option; ${hint}` }],
    });
  }
}

/** Milliseconds of a duration option, or its default. */
export function durationOption(where: string, name: string, value: unknown, fallbackMs: number): number {
  if (value === undefined) return fallbackMs;
  return parseDuration(value) ?? refuse(where, name, value, DURATION_EXPECTED);
}

export function integerOption(
  where: string,
  name: string,
  value: unknown,
  range: { fallback: number; min: number; max: number },
): number {
  if (value === undefined) return range.fallback;
  const { min, max } = range;
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
  return refuse(where, name, value, `a whole number from ${min} to ${max}`);
}

export function booleanOption(where: string, name: string, value: unknown): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value;
  return refuse(where, name, value, 'true or false');
}

export function choiceOption<Choice extends string>(
  where: string,
  name: string,
  value: unknown,
  choices: readonly Choice[],
): Choice | undefined {
  if (value === undefined) return undefined;
  return choices.find((choice) => choice === value) ?? refuse(where, name, value, `one of ${choices.join(', ')}`);
}

export function refuse(where: string, name: string, value: unknown, expected: string): never {
  return refuseShown(where, name, typeof value === 'string' ? JSON.stringify(value) : kindOf(value), expected);
}

/** `shown`: the value, or what is wrong with it, in words. */
export function refuseShown(where: string, name: string, shown: string, expected: string): never {
  const message = `expected ${expected}`;
  throw new DroverError('invalid_request', `${where}: ${name}: ${message}, got ${shown}`, {
    issues: [{ field: name, message, value: shown }],
  });
}

/** A value in a few words: `[object Object]` and the source of a function say nothing. */
export function kindOf(value: unknown): string {
  if (typeof value === 'function') return 'a function';
  if (Array.isArray(value)) return 'a list';
  if (typeof value !== 'object' || value === null) return String(value);
  const { name } = (value.constructor as { name?: string } | undefined) ?? {};
  return name === undefined || name === '' || name === 'Object' ? 'an object' : `an object of class ${name}`;
}
