/** A wait for a job that no worker can take, because of a typo or a missing deployment, says so once. */
import { DroverError, type JobState } from '@drover/protocol';
import type { Api } from './api.js';

const WAITING: readonly JobState[] = ['ready', 'scheduled', 'blocked'];

export async function warnIfNotOffered(api: Api, id: string): Promise<void> {
  try {
    const { type, state, startedAt } = await api.call('getJob', { params: { id } });
    if (startedAt !== null || !WAITING.includes(state)) return;
    const reason = await whyNotOffered(api, type);
    if (reason !== undefined)
      api.logger.warn({ event: 'type.not-offered', jobId: id, type }, `job ${id} waits: ${reason}`);
  } catch {
    // the wait itself reports what is wrong
  }
}

async function whyNotOffered(api: Api, type: string): Promise<string | undefined> {
  try {
    const { workers } = await api.call('getType', { params: { name: type } });
    return workers === 0 ? `no live worker offers the type "${type}"` : undefined;
  } catch (error) {
    if (error instanceof DroverError && error.code === 'type_not_found') return error.message;
    throw error;
  }
}
