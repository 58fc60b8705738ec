/** Checks flags with the protocol's own schema, so that nothing invalid is sent. Flags that are not given count as absent. */
import { invalidInput } from '@drover/protocol';
import type { z } from 'zod';

export function checked<Schema extends z.ZodType>(schema: Schema, given: Record<string, unknown>): z.output<Schema> {
  const present = presentIn(given);
  const parsed = schema.safeParse(present);
  if (!parsed.success) throw invalidInput(parsed.error, present);
  return parsed.data;
}

/** As they were given, to be sent. */
export function checkedInput<Schema extends z.ZodType>(
  schema: Schema,
  given: Record<string, unknown>,
): z.input<Schema> {
  checked(schema, given);
  return presentIn(given) as z.input<Schema>;
}

function presentIn(given: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}
