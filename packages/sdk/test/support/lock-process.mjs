/** Wants a data folder when it is told to, at the given moment, and keeps it until it is killed. Argument: folder. */
import { lockFolder } from '../../dist/worker/journal/folder-lock.js';

/** At once: on a machine of few cores processes alone hardly get in each other's way. */
const TRIES = 6;

const [, , folder] = process.argv;
process.on('message', async ({ atMs }) => {
  // Busy, because a timer would let one after the other go.
  while (Date.now() < atMs);
  const tries = await Promise.allSettled(Array.from({ length: TRIES }, () => lockFolder(folder)));
  const refusals = tries.flatMap(({ reason }) => (reason ? [{ code: reason.code, message: reason.message }] : []));
  process.send({ won: TRIES - refusals.length, refusals });
});
process.on('disconnect', () => process.exit(1));
process.send({ isReady: true });
