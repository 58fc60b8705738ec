import { array, assert, constantFrom, json, oneof, property } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonProblem } from '../../src/base/json-problem.js';

describe('a text that is not JSON', () => {
  it.each([
    ['', 'line 1, column 1: expected a value'],
    ['{ port: 1 }', 'line 1, column 3: expected a key in double quotes or }'],
    ["{ 'port': 1 }", 'line 1, column 3: expected a key in double quotes or }'],
    ['{\n  "port": 1,\n}', 'line 3, column 1: expected a key in double quotes'],
    ['{\n  "port": 1\n  "host": "x"\n}', 'line 3, column 3: expected , or }'],
    ['{ "port" 1 }', 'line 1, column 10: expected :'],
    ['{ "token": hunter2 }', 'line 1, column 12: expected a value'],
    ['{ "token": "hunter2 }', 'line 1, column 12: expected a value'],
    ['[1, 2', 'line 1, column 6: expected , or ]'],
    ['[,]', 'line 1, column 2: expected a value or ]'],
    ['{} // comment', 'line 1, column 4: expected the end'],
  ])('is described without quoting it: %j', (text, problem) => {
    expect(jsonProblem(text)).toBe(problem);
  });
});

it('finds a problem exactly where JSON.parse fails', () => {
  const pieces = array(constantFrom(...'{}[],:"\\u00aefn1-.E \n'.split(''), 'true', 'null', '"a"', '"a":', '\u0001'));
  const damaged = oneof(
    json(),
    pieces.map((parts) => parts.join('')),
  );
  assert(
    property(damaged, (text) => {
      let fails = false;
      try {
        JSON.parse(text);
      } catch {
        fails = true;
      }
      expect(jsonProblem(text) !== undefined).toBe(fails);
    }),
    { numRuns: 3000 },
  );
});
