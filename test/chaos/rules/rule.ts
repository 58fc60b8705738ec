/** The type of a rule: a promise, and how it is checked against the evidence of a run. */
import type { Evidence } from '../evidence/evidence.js';

const MAX_EXAMPLES = 5;

export type Rule = {
  readonly code: string;
  readonly promise: string;
  /**
   * The promises of docs/promises.md that the rule shows. They have their own codes; some equal those of rules on
   * purpose.
   */
  readonly shows?: readonly string[];
  check(evidence: Evidence, report: Report): void;
};

export type Report = {
  /** `example` describes the violation. Called only if the check fails. */
  check(holds: boolean, example: () => string): void;
  /** Reported with the result: what the rule excused, and how often. */
  note(text: string): void;
};

export type Finding = {
  code: string;
  promise: string;
  checked: number;
  violated: number;
  examples: string[];
  notes: string[];
};

export function applyRule(rule: Rule, evidence: Evidence): Finding {
  const finding: Finding = {
    ...{ code: rule.code, promise: rule.promise, checked: 0, violated: 0, examples: [], notes: [] },
  };
  rule.check(evidence, {
    check(holds, example) {
      finding.checked += 1;
      if (holds) return;
      finding.violated += 1;
      if (finding.examples.length < MAX_EXAMPLES) finding.examples.push(example());
    },
    note: (text) => void finding.notes.push(text),
  });
  return finding;
}
