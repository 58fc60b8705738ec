/** The routes under /types, except the pauses. */
import { DroverError } from '@drover/protocol';
import type { Runner } from '../db/database.js';
import type { Engine } from '../engine/engine.js';
import { notRegistered } from '../new-jobs/known-types.js';
import { findType, listTypes } from '../queries/list-types.js';
import type { RouteHandlers } from './route-handler.js';

type TypesDeps = { engine: Pick<Engine, 'types' | 'forgetType'>; db: Runner };

export function typeHandlers({ engine, db }: TypesDeps): Pick<RouteHandlers, 'listTypes' | 'getType' | 'forgetType'> {
  return {
    listTypes: async () => ({ items: await listTypes(db) }),
    async getType({ params: { name } }) {
      const found = await findType(db, name);
      if (found) return found;
      throw new DroverError('type_not_found', notRegistered(name, await engine.types()), { type: name });
    },
    async forgetType({ params: { name }, by }) {
      const outcome = await engine.forgetType(name, by);
      if (outcome !== 'in_use') return { forgotten: outcome === 'forgotten' };
      throw new DroverError('type_in_use', `cannot forget the job type ${name}: a live worker offers it`, {
        type: name,
      });
    },
  };
}
