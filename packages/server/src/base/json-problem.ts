/**
 * Where and why a text is not JSON. The messages of JSON.parse do not always name the place, and quote a part of the
 * text, which may be a secret.
 */
const SPACE = /[ \t\r\n]*/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: a string of JSON contains none of them
const STRING = /"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

type Expects = 'value' | 'item' | 'first item' | 'key' | 'first key' | 'colon' | 'next';
type Reading = { text: string; at: number; expects: Expects; closers: ('}' | ']')[] };

/** `line 3, column 7: expected a value`. Undefined if the text is JSON. */
export function jsonProblem(text: string): string | undefined {
  const reading: Reading = { text, at: 0, expects: 'value', closers: [] };
  do skip(reading, SPACE);
  while (step(reading));
  const { at, expects, closers } = reading;
  if (at === text.length && expects === 'next' && closers.length === 0) return undefined;
  const before = text.slice(0, at).split('\n');
  return `line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}: expected ${expectation(reading)}`;
}

/** Reads one token. False if none is possible here. */
function step(reading: Reading): boolean {
  const { expects, closers, text, at } = reading;
  const character = text[at];
  const closer = closers.at(-1);
  if (character !== undefined && character === closer && ['next', 'first item', 'first key'].includes(expects)) {
    closers.pop();
    return move(reading, 'next');
  }
  if (expects === 'next') {
    return character === ',' && closer !== undefined && move(reading, closer === '}' ? 'key' : 'item');
  }
  if (expects === 'colon') return character === ':' && move(reading, 'value');
  if (expects === 'key' || expects === 'first key') return take(reading, STRING, 'colon');
  if (character === '{' || character === '[') {
    closers.push(character === '{' ? '}' : ']');
    return move(reading, character === '{' ? 'first key' : 'first item');
  }
  return take(reading, STRING, 'next') || take(reading, SCALAR, 'next');
}

function move(reading: Reading, expects: Expects): true {
  reading.at += 1;
  reading.expects = expects;
  return true;
}

function take(reading: Reading, pattern: RegExp, expects: Expects): boolean {
  if (!skip(reading, pattern)) return false;
  reading.expects = expects;
  return true;
}

function skip(reading: Reading, pattern: RegExp): boolean {
  pattern.lastIndex = reading.at;
  const found = pattern.test(reading.text);
  if (found) reading.at = pattern.lastIndex;
  return found;
}

function expectation({ expects, closers }: Reading): string {
  const closer = closers.at(-1);
  if (expects === 'next') return closer === undefined ? 'the end' : `, or ${closer}`;
  if (expects === 'colon') return ':';
  if (expects === 'first key') return 'a key in double quotes or }';
  if (expects === 'key') return 'a key in double quotes';
  return expects === 'first item' ? 'a value or ]' : 'a value';
}
