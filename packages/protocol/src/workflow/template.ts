/** JSON with references in it, taken apart: the texts between them, and where each value comes from. */
import { DroverError } from '../errors.js';
import { storableText } from '../fields.js';
import { LIMITS } from '../limits.js';
import { REFERENCE_ROOTS } from './definition.js';

export type ValueSource = {
  readonly source: 'step' | (typeof REFERENCE_ROOTS)[number];
  /** The name of the step. */
  readonly step?: string;
  /** The keys of the value. `*` stands for each item of a list, `length` for its length. */
  readonly path: readonly string[];
};

export type Template = { readonly texts: readonly string[]; readonly sources: readonly ValueSource[] };

/** What a template may refer to. */
export type Scope = {
  readonly steps: ReadonlySet<string>;
  readonly roots: readonly (typeof REFERENCE_ROOTS)[number][];
};

export function refuse(field: string, message: string): DroverError {
  return new DroverError('invalid_request', `${field}: ${message}`, { issues: [{ field, message }] });
}

/** Throws invalid_request, with the place of a wrong reference. */
export function parseTemplate(value: unknown, field: string, scope: Scope): Template {
  const texts: string[] = [''];
  const sources: ValueSource[] = [];
  const say = (text: string) => {
    texts[texts.length - 1] += text;
  };

  function walk(part: unknown, place: string, depth: number): void {
    if (depth > LIMITS.templateDepth) throw refuse(place, `expected JSON of at most ${LIMITS.templateDepth} levels`);
    if (Array.isArray(part)) {
      say('[');
      part.forEach((item, index) => {
        if (index > 0) say(',');
        walk(item, `${place}[${index}]`, depth + 1);
      });
      say(']');
    } else if (typeof part === 'object' && part !== null) walkObject(part, place, depth);
    else say(JSON.stringify(part) ?? 'null');
  }

  function walkObject(part: object, place: string, depth: number): void {
    const entries = Object.entries(part).filter(([, item]) => item !== undefined);
    if (entries.length === 1 && entries[0]?.[0] === '$') {
      sources.push(parseReference(entries[0][1], place, scope));
      texts.push('');
      return;
    }
    if (entries.length === 1 && entries[0]?.[0] === '$literal') {
      say(JSON.stringify(entries[0][1]));
      return;
    }
    say('{');
    entries.forEach(([key, item], index) => {
      say(`${index > 0 ? ',' : ''}${JSON.stringify(key)}:`);
      walk(item, `${place}.${key}`, depth + 1);
    });
    say('}');
  }

  walk(value, field, 0);
  return { texts, sources };
}

/** `fetch.output.pages`, or the same as a list. */
export function parseReference(given: unknown, field: string, scope: Scope): ValueSource {
  const isList = Array.isArray(given) && given.every((key) => typeof key === 'string');
  if (typeof given !== 'string' && !isList) {
    throw refuse(field, `expected a reference such as {"$": "input.name"}, got ${JSON.stringify(given)}`);
  }
  const [root = '', ...path] = typeof given === 'string' ? given.split('.') : (given as string[]);
  const shown = JSON.stringify(given);
  if (shown.length > LIMITS.referenceLength || path.some((key) => storableText(key) !== key)) {
    throw refuse(field, 'expected a shorter reference, without U+0000 and unpaired surrogates');
  }
  if ((REFERENCE_ROOTS as readonly string[]).includes(root)) {
    const source = root as (typeof REFERENCE_ROOTS)[number];
    if (!scope.roots.includes(source)) {
      throw refuse(
        field,
        `${shown} means nothing here: expected a reference that begins with a step or ${scope.roots.join(', ')}`,
      );
    }
    return { source, path };
  }
  if (!scope.steps.has(root)) {
    const known = [...scope.roots, ...scope.steps];
    const list = known.length > 12 ? `${known.slice(0, 12).join(', ')} …` : known.join(', ');
    throw refuse(field, `${shown} refers to an unknown step "${root}"; expected one of ${list}`);
  }
  if (path[0] !== 'output') throw refuse(field, `${shown}: expected "${root}.output" and the keys of the output`);
  if (path.filter((key) => key === '*').length > 1) throw refuse(field, `${shown}: expected at most one *`);
  return { source: 'step', step: root, path: path.slice(1) };
}
