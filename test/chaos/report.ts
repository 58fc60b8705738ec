/** The final output of a run, and its exit code. */
import { type ChaosOptions, commandOf, FOUND_WITHOUT } from './options.js';
import type { Finding } from './rules/rule.js';

const WIDTH = 74;

export function report(findings: readonly Finding[], options: ChaosOptions, commit: string, folder: string): number {
  console.log(`\n${'rule'.padEnd(WIDTH)}${'checked'.padStart(10)}${'violated'.padStart(10)}`);
  for (const { code, promise, checked, violated, notes } of findings) {
    const rule = `${code.padEnd(5)}${promise}`.padEnd(WIDTH);
    console.log(`${rule}${String(checked).padStart(10)}${String(violated).padStart(10)}`);
    for (const note of notes) console.log(`     ${note}`);
  }
  const broken = findings.filter(({ violated }) => violated > 0);
  for (const { code, promise, examples } of broken) {
    console.log(`\n${code} ${promise}:\n${examples.map((example) => `  ${example}`).join('\n')}`);
  }
  const verdict = broken.length === 0 ? 'every rule held' : `VIOLATED: ${broken.map(({ code }) => code).join(', ')}`;
  console.log(`\n${verdict}; seed ${options.seed}, commit ${commit}, logs in ${folder}\n${commandOf(options)}`);
  if (options.without.length > 0) return reportControl(broken, options.without);
  return broken.length === 0 ? 0 : 1;
}

/** A run without a protection is good if it found everything that the protection prevents. */
function reportControl(broken: readonly Finding[], without: ChaosOptions['without']): number {
  const found = new Set(broken.map(({ code }) => code));
  const unseen = without.flatMap((control) => {
    const missing = FOUND_WITHOUT[control].filter((code) => !found.has(code));
    return missing.map((code) => `without ${control} the run must find ${code}, and did not`);
  });
  for (const line of unseen) console.log(line);
  if (unseen.length === 0) console.log(`as it must be without ${without.join(', ')}`);
  return unseen.length === 0 ? 0 : 1;
}
