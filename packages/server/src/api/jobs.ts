/** The routes under /jobs. */
import { DroverError, isFinished, type JobState, LIMITS, readBulk, statesBefore } from '@drover/protocol';
import { type Caller, identityOf } from '../access/principal.js';
import { requireInScope } from '../access/scope.js';
import { JsonText } from '../base/json-text.js';
import { createQuota } from '../base/quota.js';
import type { ServerConfig } from '../config/server-config.js';
import type { Runner } from '../db/database.js';
import type { Engine } from '../engine/engine.js';
import { checkedJob, checkedJobs, checkJobs } from '../new-jobs/check-jobs.js';
import { toJobsToInsert } from '../new-jobs/job-to-insert.js';
import { warningsOf } from '../new-jobs/known-types.js';
import { findCancelledJob, findJob, findJobWithAttempts, findOutcome, hiddenOutcome } from '../queries/find-job.js';
import { isJobInScope, lanesInScope } from '../queries/lanes-in-scope.js';
import { listJobs } from '../queries/list-jobs.js';
import type { RouteHandlers } from './route-handler.js';
import { typesFor } from './types-in-scope.js';

type JobsDeps = {
  engine: Engine;
  db: Runner;
  config: Pick<ServerConfig, 'payloadLimitBytes'>;
  /** Requests of one caller that may wait for results. */
  resultWaits?: number;
};

type JobRoutes = Pick<
  RouteHandlers,
  | 'enqueueJob'
  | 'enqueueJobs'
  | 'enqueueBulk'
  | 'listJobs'
  | 'getJob'
  | 'cancelJob'
  | 'retryJob'
  | 'failJob'
  | 'jobResult'
>;

export function jobHandlers({ engine, db, config, resultWaits = LIMITS.resultWaits }: JobsDeps): JobRoutes {
  const waits = createQuota(resultWaits);

  /** A job outside of the caller's scope does not exist for the caller. */
  async function requireVisible({ principal: { scope } }: Caller, id: string): Promise<void> {
    if (scope !== undefined && !(await isJobInScope(db, scope, id))) throw notFound(id);
  }

  const limitsFor = async ({ principal }: Caller) => ({
    ...{ payloadLimitBytes: config.payloadLimitBytes, nowMs: Date.now() },
    types: await typesFor(engine, principal),
  });

  return {
    async enqueueJob({ body, by }) {
      const limits = await limitsFor(by);
      const job = checkedJob(body, limits);
      requireInScope(by.principal, [job], (name) => name);
      const existed = await engine.enqueue([job], by);
      return { id: job.id, created: existed.size === 0, ...warningsOf([job], limits.types) };
    },

    async enqueueJobs({ body, by }) {
      const limits = await limitsFor(by);
      const jobs = checkedJobs(body.jobs, limits);
      requireInScope(by.principal, jobs, fieldInBatch);
      const existed = await engine.enqueue(jobs, by);
      const items = jobs.map(({ id }, place) => ({ id, created: !existed.has(place) }));
      return { items, ...warningsOf(jobs, limits.types) };
    },

    async enqueueBulk({ body, by }) {
      const limits = await limitsFor(by);
      const jobs = readBulk(body).flatMap((group) => toJobsToInsert(group, limits.types));
      checkJobs(jobs, limits);
      requireInScope(by.principal, jobs, fieldInBatch);
      const existed = [...(await engine.enqueue(jobs, by))];
      return { existed, ...warningsOf(jobs, limits.types) };
    },

    async listJobs({ query, by: { principal } }) {
      const lanes = principal.scope && (await lanesInScope(db, principal.scope));
      return listJobs(db, query, { lanes, isHidden: !principal.payloads });
    },

    async getJob({ params, by }) {
      await requireVisible(by, params.id);
      return found(await findJobWithAttempts(db, params.id, !by.principal.payloads), params.id);
    },

    async cancelJob({ params, by }) {
      await requireVisible(by, params.id);
      const outcome = await engine.cancel(params.id, by);
      if (outcome === 'not_found') throw notFound(params.id);
      const alreadyCancelled = typeof outcome === 'object' && outcome.wrongState === 'cancelled';
      if (typeof outcome === 'object' && !alreadyCancelled) throw wrongState('cancel', params.id, outcome.wrongState);
      return found(
        await findCancelledJob(db, params.id, { alreadyCancelled, isHidden: !by.principal.payloads }),
        params.id,
      );
    },

    async retryJob({ params, by }) {
      await requireVisible(by, params.id);
      const outcome = await engine.retry(params.id, by);
      if (outcome === 'not_found') throw notFound(params.id);
      if (outcome !== 'done') throw wrongState('retry', params.id, outcome.wrongState);
      return found(await findJob(db, params.id, !by.principal.payloads), params.id);
    },

    async failJob({ params, by, body }) {
      await requireVisible(by, params.id);
      const outcome = await engine.fail(params.id, body?.reason ?? `failed by ${by.principal.name}`, by);
      if (outcome === 'not_found') throw notFound(params.id);
      if (outcome !== 'done') throw wrongState('fail', params.id, outcome.wrongState);
      return found(await findJob(db, params.id, !by.principal.payloads), params.id);
    },

    async jobResult({ params: { id }, query, by, gone }) {
      await requireVisible(by, id);
      const waitMs = Math.min(query.wait ?? 0, LIMITS.resultWaitMs);
      let outcome = found(await findOutcome(db, id), id);
      if (waitMs > 0 && !isFinished(outcome.state)) {
        const leave = waits.enter(`${identityOf(by.principal)} ${by.address}`);
        if (!leave) throw tooManyWaits(by, resultWaits);
        await engine.waitForFinish(id, waitMs, gone()).finally(leave);
        outcome = found(await findOutcome(db, id), id);
      }
      const { state, result, error } = by.principal.payloads ? outcome : hiddenOutcome(outcome);
      const head = JSON.stringify({ id, state, finished: isFinished(state) }).slice(0, -1);
      return new JsonText(`${head},"result":${result ?? 'null'},"error":${error ?? 'null'}}`);
    },
  };
}

const fieldInBatch = (name: string, place: number) => `jobs[${place}].${name}`;

function found<Value>(value: Value | undefined, id: string): Value {
  if (value === undefined) throw notFound(id);
  return value;
}

function tooManyWaits({ principal, address }: Caller, limit: number): DroverError {
  const message = `"${principal.name}" already waits for ${limit} results on this server from ${address}, which is the limit`;
  return new DroverError('overloaded', message, { limit });
}

function notFound(id: string): DroverError {
  return new DroverError('job_not_found', `there is no job ${id}, or its history has been pruned`, { id });
}

/** The states in which each request is possible. */
const ALLOWED = {
  cancel: [...new Set([...statesBefore('cancel'), ...statesBefore('stop')])],
  retry: statesBefore('retry'),
  fail: statesBefore('failByHand'),
} as const satisfies Record<string, readonly (JobState | 'new')[]>;

function wrongState(verb: keyof typeof ALLOWED, id: string, state: JobState): DroverError {
  const expected = ALLOWED[verb];
  const message = `cannot ${verb} job ${id}: it is ${state}, expected ${expected.join(', ')}`;
  return new DroverError('wrong_state', message, { id, state, expected });
}
