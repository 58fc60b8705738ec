/** The routes under /tokens. */
import type { Tokens } from '../access/tokens.js';
import type { RouteHandlers } from './route-handler.js';

type TokenRoutes = Pick<RouteHandlers, 'createToken' | 'listTokens' | 'revokeToken' | 'rotateToken'>;

export function tokenHandlers(tokens: Tokens): TokenRoutes {
  return {
    createToken: ({ body, by }) => tokens.create(body, by),
    listTokens: async () => ({ items: await tokens.list() }),
    revokeToken: async ({ params, by }) => ({ revoked: await tokens.revoke(params.id, by) }),
    rotateToken: ({ params, body, by }) => tokens.rotate(params.id, body, by),
  };
}
