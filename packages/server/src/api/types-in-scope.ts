/**
 * The job types that a caller may know. A caller with a scope learns nothing of the others: no defaults, no schema, no name in a
 * suggestion.
 */
import type { Principal } from '../access/principal.js';
import { matches } from '../access/scope.js';
import type { Engine } from '../engine/engine.js';
import type { KnownTypes } from '../new-jobs/known-types.js';

export async function typesFor(engine: Pick<Engine, 'types'>, { scope }: Principal): Promise<KnownTypes> {
  const types = await engine.types();
  return scope === undefined ? types : new Map([...types].filter(([type]) => matches(scope.types, type)));
}
