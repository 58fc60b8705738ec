/**
 * The condition of a step: a tree of comparisons, never a text to evaluate. It becomes a jsonpath of PostgreSQL over the
 * list of the values that it refers to, so that the statement that ends the step before can decide it.
 *
 * A comparison with an absent value, or of values of different types, does not hold, and neither does its `not`.
 */
import { storableText } from '../fields.js';
import { LIMITS } from '../limits.js';
import { parseTemplate, refuse, type Scope, type Template } from './template.js';

export type Condition = { readonly path: string; readonly input: Template };

const COMPARISONS = { eq: '==', ne: '!=', gt: '>', gte: '>=', lt: '<', lte: '<=' } as const;
const LISTS = { and: ' && ', or: ' || ' } as const;
const MAX_NESTING = 20;
const EXPECTED = `expected one of ${[...Object.keys(COMPARISONS), 'exists', 'in', ...Object.keys(LISTS), 'not'].join(', ')}`;

export function parseCondition(given: unknown, field: string, scope: Scope): Condition {
  const references: unknown[] = [];

  function operand(value: unknown, place: string): string {
    if (typeof value === 'object' && value !== null && '$' in value) {
      references.push(value);
      return `$[${references.length - 1}]`;
    }
    if (typeof value === 'string' && (value.length > LIMITS.referenceLength || storableText(value) !== value)) {
      throw refuse(place, 'expected a shorter string, without U+0000 and unpaired surrogates');
    }
    if (value === null || ['string', 'number', 'boolean'].includes(typeof value)) return JSON.stringify(value);
    throw refuse(place, 'expected a reference such as {"$": "input.total"}, or a string, number, boolean or null');
  }

  function parse(part: unknown, place: string, depth: number): string {
    if (depth > MAX_NESTING) throw refuse(place, `expected conditions nested at most ${MAX_NESTING} deep`);
    const [[name, value] = [], ...others] = typeof part === 'object' && part !== null ? Object.entries(part) : [];
    if (name === undefined || others.length > 0) throw refuse(place, `${EXPECTED}, got ${JSON.stringify(part)}`);
    const inside = `${place}.${name}`;
    if (name in COMPARISONS) {
      const [one, other] = listOf(value, inside, 2);
      return `${operand(one, `${inside}[0]`)} ${COMPARISONS[name as keyof typeof COMPARISONS]} ${operand(other, `${inside}[1]`)}`;
    }
    if (name in LISTS) {
      const parts = listOf(value, inside).map((each, index) => `(${parse(each, `${inside}[${index}]`, depth + 1)})`);
      return parts.join(LISTS[name as keyof typeof LISTS]);
    }
    if (name === 'not') return `!(${parse(value, inside, depth + 1)})`;
    if (name === 'exists') return `${operand(value, inside)} != null`;
    if (name === 'in') {
      const [one, choices] = listOf(value, inside, 2);
      const left = operand(one, `${inside}[0]`);
      return listOf(choices, `${inside}[1]`)
        .map((choice, index) => `${left} == ${operand(choice, `${inside}[1][${index}]`)}`)
        .join(' || ');
    }
    throw refuse(place, `${EXPECTED}, got "${name}"`);
  }

  const path = `strict ${parse(given, field, 0)}`;
  return { path, input: parseTemplate(references, field, scope) };
}

function listOf(value: unknown, place: string, length?: number): unknown[] {
  if (Array.isArray(value) && value.length > 0 && (length === undefined || value.length === length)) return value;
  const expected = length === undefined ? 'a list with at least one item' : `a list of ${length}`;
  throw refuse(place, `expected ${expected}, got ${JSON.stringify(value)}`);
}
