/** A handler in a process of its own that tells its process id and never ends. */
import { defineJob } from '@drover/sdk';

export const isolated = defineJob({
  type: 'isolated',
  isolation: { kind: 'process', grace: '1h' },
  module: import.meta.url,
  run: ({ progress }) => {
    progress(process.pid);
    return new Promise(() => setInterval(() => {}, 1000));
  },
});
