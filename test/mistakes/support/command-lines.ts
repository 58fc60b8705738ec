/** Tables of command lines. Each runs in this process. */
import { drover } from '../../../packages/server/test/cli/run-cli.js';
import { describeMistakes, type Mistake } from './mistakes.js';

type CommandLine = readonly [
  what: string,
  args: readonly string[] | (() => readonly string[]),
  message: string | (() => string),
  env?: Record<string, string>,
];

const PROGRAM = 'drover: ';

/** The message is what is printed to standard error, without the name of the program. */
export function describeCommandLines(part: string, lines: readonly CommandLine[]): void {
  describeMistakes(
    part,
    lines.map(([what, args, message, env = {}]): Mistake => {
      const run = async () => {
        const { code, stdout, stderr } = await drover(typeof args === 'function' ? args() : args, { env });
        if (code === 0 || stdout !== '') throw new Error(`it was not refused: ${code} ${stdout}`);
        return (stderr.startsWith(PROGRAM) ? stderr.slice(PROGRAM.length) : stderr).trimEnd();
      };
      return [what, run, message];
    }),
  );
}
