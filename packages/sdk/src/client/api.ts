/**
 * The HTTP API as typed calls. Method, path, input and answer of each route come from the route table. Answers are
 * parsed with the route's own schema, so a caller gets what its type says.
 */
import {
  checkAnswer,
  invalidInput,
  type JobState,
  ROUTES,
  type RouteAnswer,
  type RouteInput,
  type RouteName,
  type Warning,
} from '@drover/protocol';
import { ConnectionError } from '../errors.js';
import type { Logger } from '../logger.js';
import { refuse } from '../options.js';
import type { RequestText } from './http-transport.js';
import type { Requester } from './requester.js';

type CallOptions = {
  /** How long the server may wait before it answers. */
  waitMs?: number | undefined;
  signal?: AbortSignal | undefined;
};

/** The input of any route. */
type AnyInput = { readonly params?: Record<string, string>; readonly query?: object; readonly body?: unknown };

/** Types that were warned of and are remembered. */
const WARNED_LIMIT = 1000;

export class Api {
  readonly logger: Logger;
  readonly #requester: Requester;
  readonly #warned = new Set<string>();

  constructor(requester: Requester, logger: Logger) {
    this.#requester = requester;
    this.logger = logger;
  }

  call<Name extends RouteName>(name: Name, input: RouteInput<Name>, options?: CallOptions): Promise<RouteAnswer<Name>>;
  async call<Name extends RouteName>(
    name: Name,
    input: AnyInput,
    options: CallOptions = {},
  ): Promise<RouteAnswer<Name>> {
    return this.#told(parseAnswer(name, await this.#requester.request({ ...requestOf(name, input), ...options })));
  }

  /**
   * Changes a job. Undefined if an earlier try has already made the change and its answer was lost: the server then
   * refuses the repetition and names one of these states.
   */
  change<Name extends RouteName>(
    name: Name,
    input: RouteInput<Name>,
    doneIn: readonly JobState[],
  ): Promise<RouteAnswer<Name> | undefined>;
  async change<Name extends RouteName>(
    name: Name,
    input: AnyInput,
    doneIn: readonly JobState[],
  ): Promise<RouteAnswer<Name> | undefined> {
    const answer = await this.#requester.request({ ...requestOf(name, input), doneIn });
    return answer === undefined ? undefined : parseAnswer(name, answer);
  }

  /** Adds jobs in the bulk format. Returns the places of those that existed already. */
  async addJobs(body: RequestText): Promise<ReadonlySet<number>> {
    const { method, path, bodyType } = ROUTES.enqueueBulk;
    const answer = await this.#requester.request({ method, path, body, mediaType: bodyType, isCall: true });
    return new Set(this.#told(parseAnswer('enqueueBulk', answer)).existed);
  }

  /** Logs the warnings of an answer, once for each type. */
  #told<Answer>(answer: Answer): Answer {
    const { warnings = [] } = (answer ?? {}) as { warnings?: readonly Warning[] };
    for (const { type, message } of warnings) {
      if (this.#warned.has(type) || this.#warned.size >= WARNED_LIMIT) continue;
      this.#warned.add(type);
      this.logger.warn({ event: 'type.unknown', type }, message);
    }
    return answer;
  }

  close(): void {
    this.#requester.close();
  }
}

function requestOf(name: RouteName, { params = {}, query = {}, body }: AnyInput) {
  const { method, path } = ROUTES[name];
  return {
    method,
    path: pathText(name, path, params) + queryText(query),
    body: body === undefined ? undefined : JSON.stringify(body),
  };
}

function pathText(name: RouteName, path: string, params: Record<string, string>): string {
  return path.replace(/:(\w+)/g, (_match, param: string) => {
    const value = params[param];
    if (typeof value !== 'string' || value === '') return refuse(name, param, value, 'a non-empty string');
    return encodeURIComponent(value);
  });
}

function queryText(query: object): string {
  const text = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) text.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  return text.size === 0 ? '' : `?${text}`;
}

/** An answer in another form comes from a server of another version, or not from a Drover server. */
function parseAnswer<Name extends RouteName>(name: Name, answer: unknown): RouteAnswer<Name> {
  const checked = checkAnswer(name, answer);
  if (checked.success) return checked.data;
  const { message } = invalidInput(checked.error, answer);
  throw new ConnectionError(`the answer to ${name} has an unexpected form: ${message}`);
}
