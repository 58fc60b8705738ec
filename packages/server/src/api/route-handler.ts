/** What a route of the table needs from the server: a handler that is typed by the route's own schemas. */
import type { ROUTES, RouteAnswer, RouteName } from '@drover/protocol';
import type { z } from 'zod';

type RouteOf<Name extends RouteName> = (typeof ROUTES)[Name];
type Parsed<Name extends RouteName, Part extends string> =
  RouteOf<Name> extends Record<Part, infer Schema extends z.ZodType> ? z.output<Schema> : undefined;

/** One request, with everything in it parsed. */
export type Call<Name extends RouteName> = {
  readonly params: Parsed<Name, 'params'>;
  readonly query: Parsed<Name, 'query'>;
  readonly body: Parsed<Name, 'body'>;
  /** The body with every payload in it read; what came with one may have been passed on unread. */
  readonly bodyInFull: () => Parsed<Name, 'body'>;
  /** The name of whoever asks. */
  readonly by: string;
  /** Aborts when the client has gone or the server is stopping. Made when asked for: few need it. */
  readonly gone: () => AbortSignal;
  /** Of a call that adds jobs whose ids were made for it: the era that its client knows. */
  readonly era?: number | undefined;
  /** For the rare route whose success has more than one status. */
  readonly setStatus: (status: number) => void;
};

export type RouteHandler<Name extends RouteName> = (call: Call<Name>) => Promise<RouteAnswer<Name>> | RouteAnswer<Name>;

/** One handler for each route: a route without one does not compile. */
export type RouteHandlers = { readonly [Name in RouteName]: RouteHandler<Name> };
