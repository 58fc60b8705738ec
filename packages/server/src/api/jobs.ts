/** The routes under /jobs. */
import {
  DroverError,
  isFinished,
  type JobState,
  LIMITS,
  type NewJob,
  newId,
  type RouteAnswer,
  statesBefore,
} from '@drover/protocol';
import type { ServerConfig } from '../config/server-config.js';
import type { Runner } from '../db/database.js';
import type { Engine } from '../engine.js';
import { checkNewJobs } from '../lifecycle/check-new-jobs.js';
import type { JobToInsert } from '../lifecycle/enqueue.js';
import { UnreadableJson } from '../lifecycle/unread-json.js';
import { findJob, findJobWithAttempts, findOutcome } from '../queries/find-job.js';
import { listJobs } from '../queries/list-jobs.js';
import type { Batch } from './batch-lines.js';
import type { Call, RouteHandlers } from './route-handler.js';

type JobsDeps = { engine: Engine; db: Runner; config: Pick<ServerConfig, 'payloadLimitBytes'> };

type JobRoutes = Pick<
  RouteHandlers,
  'enqueueJob' | 'enqueueJobs' | 'listJobs' | 'getJob' | 'cancelJob' | 'retryJob' | 'failJob' | 'jobResult'
>;

export function jobHandlers({ engine, db, config }: JobsDeps): JobRoutes {
  const limits = () => ({ payloadLimitBytes: config.payloadLimitBytes, nowMs: Date.now() });

  async function enqueueBatch(batch: Batch, call: Call<'enqueueJobs'>): Promise<RouteAnswer<'enqueueJobs'>> {
    checkNewJobs(batch.jobs, limits(), true);
    const jobs = batch.jobs.map(withId);
    const existed = await engine.enqueue({ jobs, era: call.era, isRepeated: call.query.repeated === 'true' });
    if (batch.answer === 'existing') {
      return { items: [...existed].map((place) => ({ id: (jobs[place] as JobToInsert).id, created: false })) };
    }
    return { items: jobs.map(({ id }, place) => ({ id, created: !existed.has(place) })) };
  }

  function enqueueOne(body: NewJob, call: Call<'enqueueJob'>): Promise<RouteAnswer<'enqueueJob'>> {
    checkNewJobs([body], limits(), false);
    const job = withId(body);
    // an id that is made here is as new as it can be
    const era = job === body ? call.era : engine.era();
    return engine.enqueue({ jobs: [job], era, isRepeated: call.query.repeated === 'true' }).then(
      (existed) => ({ id: job.id, created: existed.size === 0 }),
      (error) => enqueueOne(inFull(call, error), call),
    );
  }

  /** What is wrong before anything is sent is thrown. */
  function enqueueAlone(call: Call<'enqueueJob'>): Promise<RouteAnswer<'enqueueJob'>> {
    try {
      return enqueueOne(call.body, call);
    } catch (error) {
      return enqueueOne(inFull(call, error), call);
    }
  }

  return {
    enqueueJob: enqueueAlone,

    enqueueJobs: (call) => enqueueBatch(call.body, call).catch((error) => enqueueBatch(inFull(call, error), call)),

    listJobs: ({ query }) => listJobs(db, query),

    getJob: async ({ params }) => found(await findJobWithAttempts(db, params.id), params.id),

    async cancelJob({ params }) {
      const outcome = await engine.cancel(params.id);
      if (outcome === 'not_found') throw notFound(params.id);
      if (typeof outcome === 'object') throw wrongState('cancel', params.id, outcome.wrongState);
      return found(await findJob(db, params.id), params.id);
    },

    async retryJob({ params }) {
      const outcome = await engine.retry(params.id);
      if (outcome === 'not_found') throw notFound(params.id);
      if (outcome !== 'done') throw wrongState('retry', params.id, outcome.wrongState);
      return found(await findJob(db, params.id), params.id);
    },

    async failJob({ params, by, body }) {
      const outcome = await engine.fail(params.id, body?.reason ?? `failed by ${by}`);
      if (outcome === 'not_found') throw notFound(params.id);
      if (outcome !== 'done') throw wrongState('fail', params.id, outcome.wrongState);
      return found(await findJob(db, params.id), params.id);
    },

    async jobResult({ params: { id }, query, gone }) {
      const waitMs = Math.min(query.wait ?? 0, LIMITS.resultWaitMs);
      let outcome = found(await findOutcome(db, id), id);
      if (waitMs > 0 && !isFinished(outcome.state)) {
        await engine.waitForFinish(id, waitMs, gone());
        outcome = found(await findOutcome(db, id), id);
      }
      const { state, result, error } = outcome;
      return { id, state, finished: isFinished(state), result: result ?? null, error: error ?? null };
    },
  };
}

/** The body in full, if a payload that was passed on unread is the trouble: nothing has been added then. */
function inFull<Body>(call: { bodyInFull: () => Body }, error: unknown): Body {
  if (error instanceof UnreadableJson) return call.bodyInFull();
  throw error;
}

function withId(job: NewJob): JobToInsert {
  return job.id === undefined ? { ...job, id: newId() } : (job as JobToInsert);
}

function found<Value>(value: Value | undefined, id: string): Value {
  if (value === undefined) throw notFound(id);
  return value;
}

function notFound(id: string): DroverError {
  return new DroverError('job_not_found', `there is no job ${id}, or its history has been pruned`, { id });
}

/** From which states each request is possible. */
const ALLOWED = {
  cancel: [...new Set([...statesBefore('cancel'), ...statesBefore('stop')])],
  retry: statesBefore('retry'),
  fail: ['unknown'],
} as const satisfies Record<string, readonly (JobState | 'new')[]>;

function wrongState(verb: keyof typeof ALLOWED, id: string, state: JobState): DroverError {
  const expected = ALLOWED[verb];
  const message = `cannot ${verb} job ${id}: it is ${state}, expected ${expected.join(', ')}`;
  return new DroverError('wrong_state', message, { id, state, expected });
}
