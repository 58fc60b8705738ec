#!/usr/bin/env node
/** The command `drover`. Its exit codes are those of `exit-codes.ts`. */
import { runCli } from './program.js';

const LINGER_MS = 2000;

process.exitCode = await runCli(process.argv.slice(2), {
  env: process.env,
  cwd: process.cwd(),
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
});

// Everything has been stopped; a remaining handle must not keep the process alive.
setTimeout(() => process.exit(), LINGER_MS).unref();
