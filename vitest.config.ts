import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts'],
    globalSetup: ['packages/server/test/support/global-setup.ts'],
    // Many files start processes and all share one PostgreSQL: more at once only makes them wait for each other.
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // An unhandled rejection is a fault of Drover, even if all assertions hold.
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
