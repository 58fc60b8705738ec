/** The routes under /tokens. */
import type { Tokens } from '../access/tokens.js';
import type { RouteHandlers } from './route-handler.js';

type TokenRoutes = Pick<RouteHandlers, 'createToken' | 'listTokens' | 'revokeToken' | 'rotateToken'>;

export function tokenHandlers(tokens: Tokens): TokenRoutes {
  return {
    createToken: ({ body, by }) => tokens.create(body, by.principal.name),
    listTokens: async () => ({ items: await tokens.list() }),
    revokeToken: async ({ params, by }) => ({ revoked: await tokens.revoke(params.id, by.principal.name) }),
    rotateToken: ({ params, body }) => tokens.rotate(params.id, body),
  };
}
