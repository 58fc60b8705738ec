/** `drover job …`: add jobs, find them, change them, wait for them. */
import { resolve } from 'node:path';
import { DURATION_EXPECTED, invalidInput, type JobState, listJobsQuery, parseDuration } from '@drover/protocol';
import { type Duration, JobCancelledError, JobFailedError, type JobFilter, type JobHandle } from '@drover/sdk';
import type { Command } from 'commander';
import { addSettingFlags, type CliContext, type GlobalOptions } from '../context.js';
import { UsageError } from '../exit-codes.js';
import { addJobFlags, collect, newJobFrom, parseJson, readJsonFile } from '../job-options.js';
import { jobsText, jobText } from '../job-text.js';
import { jsonText, printJson } from '../output.js';
import { findId } from '../short-ids.js';
import { show, withClient } from '../with-client.js';

const ID_ARGUMENT = 'id of the job, or at least its first 6 characters';

type AddFlags = Record<string, unknown> & { payloadFile?: string; wait?: boolean; waitTimeout?: string };

export function addJobCommands(program: Command, context: CliContext): void {
  const job = program.command('job').description('Add, find and change jobs.');
  addAdd(job, context);
  addList(job, context);
  addShow(job, context);
  addCancel(job, context);
  addRetry(job, context);
  addFail(job, context);
  addWait(job, context);
}

function addFail(job: Command, context: CliContext): void {
  const command = job
    .command('fail')
    .description('End an unknown job as failed.')
    .argument('<id>', ID_ARGUMENT)
    .option('--reason <text>', 'what is known of it');
  addSettingFlags(command, 'client').action(async (id: string, { reason }: { reason?: string }) => {
    const failed = await withClient(command, context, async (client) =>
      client.job(await findId(client, 'job', id)).fail(reason),
    );
    show(command, context, failed, () => `${failed.id} ${failed.state}`);
  });
}

function addAdd(job: Command, context: CliContext): void {
  const command = job
    .command('add')
    .description('Add a job.')
    .argument('<type>', 'job type')
    .argument('[payload]', 'payload as JSON; - reads it from standard input')
    .option('--payload-file <file>', 'read the payload from a file')
    .option('--wait', 'wait for the job and print its result')
    .option('--wait-timeout <duration>', 'how long to wait');
  addSettingFlags(addJobFlags(command), 'client').action(
    async (type: string, payload: string | undefined, flags: AddFlags) => {
      const {
        payload: given,
        type: _,
        ...options
      } = newJobFrom(type, await readPayload(payload, flags, context), flags);
      checkWaiting(flags);
      await withClient(command, context, async (client) => {
        const added = await client.enqueue(type, given, options);
        const { id, created } = added;
        if (flags.wait) await waitFor(added, command, context, flags.waitTimeout);
        else show(command, context, { id, created }, () => (created ? id : `${id} (was there already)`));
      });
    },
  );
}

/** Checked before anything is added, so that a wrong flag has no effect. */
function checkWaiting({ wait, waitTimeout }: AddFlags): void {
  if (waitTimeout === undefined) return;
  if (!wait) throw new UsageError('--wait-timeout: expected --wait beside it, got it alone');
  if (parseDuration(waitTimeout) === undefined) {
    throw new UsageError(`--wait-timeout: expected ${DURATION_EXPECTED}, got "${waitTimeout}"`);
  }
}

async function readPayload(argument: string | undefined, flags: AddFlags, context: CliContext): Promise<unknown> {
  if (argument !== undefined && flags.payloadFile !== undefined) {
    throw new UsageError('expected a payload or --payload-file, not both');
  }
  if (flags.payloadFile !== undefined) {
    const path = resolve(context.cwd, flags.payloadFile);
    return readJsonFile(path, '--payload-file');
  }
  if (argument !== '-') return argument === undefined ? undefined : parseJson(argument, 'payload');
  const chunks: string[] = [];
  for await (const chunk of context.stdin) chunks.push(chunk.toString());
  return parseJson(chunks.join(''), 'payload');
}

function addList(job: Command, context: CliContext): void {
  const command = job
    .command('list')
    .description('List jobs, newest first.')
    .option('--state <state>', 'only this state; may be repeated', collect)
    .option('--queue <name>', 'only this queue')
    .option('--type <name>', 'only this job type')
    .option('--tag <tag>', 'only with this tag')
    .option('--id-prefix <prefix>', 'only ids that begin so, 6 characters or more')
    .option('--parent <id>', 'only those that this job has added')
    .option('--schedule <name>', 'only those that this schedule has added')
    .option('--run <id>', 'only those of this run of a workflow')
    .option('--created-after <time>', 'created at this time or later')
    .option('--created-before <time>', 'created before this time')
    .option('--finished-after <time>', 'finished at this time or later')
    .option('--finished-before <time>', 'finished before this time')
    .option('--include <part>', 'also payload, result, progress or stack, with --json; may be repeated', collect)
    .option('--limit <number>', 'how many, 1 to 1000')
    .option('--cursor <cursor>', 'continue where the last page ended');
  addSettingFlags(command, 'client').action(async (flags: Record<string, unknown>) => {
    const { parent, ...others } = listJobsQuery.shape;
    const fields = Object.keys(others).filter((field) => flags[field] !== undefined);
    const query = Object.fromEntries(fields.map((field) => [field, flags[field]]));
    const checked = listJobsQuery.safeParse(query);
    if (!checked.success) throw invalidInput(checked.error, query);
    const filter: JobFilter = { ...checked.data, state: checked.data.state as JobState[] | undefined };
    const page = await withClient(command, context, async (client) => {
      if (typeof flags.parent === 'string') filter.parent = await findId(client, 'job', flags.parent);
      return await client.list(filter);
    });
    show(command, context, page, (format) => jobsText(page.items, page.nextCursor, format));
  });
}

function addShow(job: Command, context: CliContext): void {
  const command = job.command('show').description('Show a job with its attempts.').argument('<id>', ID_ARGUMENT);
  addSettingFlags(command, 'client').action(async (id: string) => {
    const found = await withClient(command, context, async (client) =>
      client.job(await findId(client, 'job', id)).get(),
    );
    show(command, context, found, (format) => jobText(found, format));
  });
}

function addCancel(job: Command, context: CliContext): void {
  const command = job
    .command('cancel')
    .description('Cancel a job: a queued one ends at once, a running one is told to stop.')
    .argument('<id>', ID_ARGUMENT);
  addSettingFlags(command, 'client').action(async (id: string) => {
    const cancelled = await withClient(command, context, async (client) =>
      client.job(await findId(client, 'job', id)).cancel(),
    );
    const { alreadyCancelled } = cancelled;
    show(command, context, cancelled, (format) =>
      alreadyCancelled ? `${cancelled.id} was already cancelled` : jobText(cancelled, format),
    );
  });
}

function addRetry(job: Command, context: CliContext): void {
  const command = job
    .command('retry')
    .description('Give a failed or cancelled job another attempt, or start a waiting one now.')
    .argument('<id>', ID_ARGUMENT);
  addSettingFlags(command, 'client').action(async (id: string) => {
    const retried = await withClient(command, context, async (client) =>
      client.job(await findId(client, 'job', id)).retry(),
    );
    show(command, context, retried, (format) => jobText(retried, format));
  });
}

function addWait(job: Command, context: CliContext): void {
  const command = job
    .command('wait')
    .description('Wait for the end of a job and print its result.')
    .argument('<id>', ID_ARGUMENT)
    .option('--wait-timeout <duration>', 'how long to wait');
  addSettingFlags(command, 'client').action(async (id: string, flags: { waitTimeout?: string }) => {
    await withClient(command, context, async (client) =>
      waitFor(client.job(await findId(client, 'job', id)), command, context, flags.waitTimeout),
    );
  });
}

/** A failed job is an answer, too: it is printed, and the error that follows sets the exit code. */
async function waitFor(
  job: JobHandle,
  command: Command,
  context: CliContext,
  timeout: string | undefined,
): Promise<void> {
  const { id } = job;
  try {
    const result = await job.result(timeout === undefined ? {} : { timeout: timeout as Duration });
    const answer = { id, state: 'succeeded', result };
    show(command, context, answer, () => jsonText(result) ?? 'null');
  } catch (error) {
    const asJson = command.optsWithGlobals<GlobalOptions>().json;
    if (asJson && error instanceof JobFailedError)
      printJson(context.stdout, { id, state: 'failed', error: error.error });
    if (asJson && error instanceof JobCancelledError) printJson(context.stdout, { id, state: 'cancelled' });
    throw error;
  }
}
