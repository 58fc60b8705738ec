/** Runs one command line inside the test and keeps what it prints. */
import { Writable } from 'node:stream';
import { runCli } from '../../src/cli/program.js';

export type CliResult = { code: number; stdout: string; stderr: string };

export async function drover(
  args: readonly string[],
  options: { env?: Record<string, string>; stdin?: string; cwd?: string } = {},
): Promise<CliResult> {
  const stdout = new TextSink();
  const stderr = new TextSink();
  const code = await runCli(args, {
    env: options.env ?? {},
    cwd: options.cwd ?? '/',
    stdin: toChunks(options.stdin ?? ''),
    stdout,
    stderr,
  });
  // a command that runs until it is stopped lets its process end, which here is that of the test
  process.channel?.ref();
  return { code, stdout: stdout.text, stderr: stderr.text };
}

class TextSink extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

async function* toChunks(text: string): AsyncGenerator<string> {
  yield text;
}
