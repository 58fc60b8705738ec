/** A handler in a process of its own that tells its process id and never ends. */
import { defineJob } from '@drover/sdk';
import { handle } from '@drover/sdk/worker';

export const isolated = handle(
  defineJob({ type: 'isolated', isolation: { kind: 'process', grace: '1h' } }),
  ({ progress }) => {
    progress(process.pid);
    return new Promise(() => setInterval(() => {}, 1000));
  },
  { module: import.meta.url },
);
