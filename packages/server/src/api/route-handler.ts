/** The type of a route's handler, derived from the route's own schemas. */

import type { ROUTES, RouteAnswer, RouteName } from '@drover/protocol';
import type { z } from 'zod';
import type { Caller } from '../access/principal.js';
import type { JsonText } from '../base/json-text.js';

type RouteOf<Name extends RouteName> = (typeof ROUTES)[Name];
type Body<Name extends RouteName> = RouteOf<Name> extends { bodyType: string } ? string : Parsed<Name, 'body'>;
type Parsed<Name extends RouteName, Part extends string> =
  RouteOf<Name> extends Record<Part, infer Schema extends z.ZodType> ? z.output<Schema> : undefined;

/** One request, parsed. */
export type Call<Name extends RouteName> = {
  readonly params: Parsed<Name, 'params'>;
  readonly query: Parsed<Name, 'query'>;
  readonly body: Body<Name>;
  readonly by: Caller;
  /**
   * Aborts when the client has disconnected or the server is stopping. Created on first use, because few handlers
   * need it.
   */
  readonly gone: () => AbortSignal;
  /** For routes whose success has more than one status. */
  readonly setStatus: (status: number) => void;
};

type Answer<Name extends RouteName> = RouteAnswer<Name> | JsonText;

export type RouteHandler<Name extends RouteName> = (call: Call<Name>) => Promise<Answer<Name>> | Answer<Name>;

/** One handler for each route: a route without one does not compile. */
export type RouteHandlers = { readonly [Name in RouteName]: RouteHandler<Name> };
