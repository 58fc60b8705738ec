import { runInNewContext } from 'node:vm';
import { LIMITS } from '@drover/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toJson } from '../src/json.js';

const messageOf = (value: unknown): string => {
  try {
    toJson(value, 'payload');
  } catch (error) {
    return (error as Error).message;
  }
  return 'accepted';
};

/** A list inside a list inside a list. */
function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = [value];
  return value;
}

class Money {
  readonly amount: string;
  constructor(amount: string) {
    this.amount = amount;
  }
}

class Price extends Money {
  toJSON() {
    return this;
  }
}

describe('a value that is accepted', () => {
  it('arrives as it was given, whatever it is', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json = toJson(value, 'payload');
        expect(json.value).toBe(value);
        expect(JSON.parse(json.text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it('may be plain by any prototype that means plain', () => {
    const own = { n: 1 };
    const bare = Object.assign(Object.create(null), own) as object;
    const foreign = runInNewContext('({ n: 1, list: [{}] })') as object;
    expect([own, bare, foreign].map((value) => toJson(value, 'payload').text)).toEqual([
      '{"n":1}',
      '{"n":1}',
      '{"n":1,"list":[{}]}',
    ]);
  });

  it('may hold the same object twice', () => {
    const shared = { n: 1 };
    expect(toJson([shared, shared], 'payload').text).toBe('[{"n":1},{"n":1}]');
  });

  it('may be nested as deeply as servers accept', () => {
    expect(toJson(nested(LIMITS.payloadDepth), 'payload').text).toHaveLength(2 * LIMITS.payloadDepth + 1);
    expect(messageOf(nested(LIMITS.payloadDepth + 1))).toBe(
      'payload: expected at most 1000 levels of lists and objects',
    );
  });
});

describe('the value that the reader gets', () => {
  it('is without undefined fields', () => {
    expect(toJson({ a: undefined, b: 1 }, 'payload')).toEqual({ text: '{"b":1}', value: { b: 1 } });
    expect(Object.keys(toJson({ a: undefined }, 'payload').value as object)).toEqual([]);
  });

  it('has the answers of toJSON methods', () => {
    const at = new Date('2030-01-31T12:00:00Z');
    expect(toJson({ at, price: new Price('5') }, 'payload').value).toEqual({
      at: '2030-01-31T12:00:00.000Z',
      price: { amount: '5' },
    });
  });

  it('is null for undefined', () => {
    expect(toJson(undefined, 'payload')).toEqual({ text: 'null', value: undefined });
  });
});

describe('a value that is refused', () => {
  it.each([
    [
      'an object made by a class',
      new Money('5'),
      'got a Money; send a plain object, or give the class a toJSON method',
    ],
    ['an object made by a nameless class', new (class {})(), 'got an instance of a class; send a plain object, or'],
    ['bytes', new Uint8Array(3), 'got a Uint8Array; send it as a base64 string'],
    ['an error', new TypeError('no'), 'got a TypeError; send its message'],
    ['a promise', Promise.resolve(1), 'got a Promise; await it first'],
    ['an invalid date', new Date(Number.NaN), 'got an invalid Date; send null or a string'],
    ['a symbol', Symbol('a'), 'got a symbol'],
    ['a toJSON that answers a Map', { toJSON: () => new Map() }, 'got a Map; send Object.fromEntries(map)'],
    ['a toJSON that answers nothing', { toJSON: () => undefined }, 'got undefined; send null or leave it out'],
    ['an empty place of a list', new Array(1), 'got undefined; send null or leave it out'],
  ])('names %s', (_what, value, expected) => {
    expect(messageOf({ a: [value] })).toContain(expected);
  });

  it('is named by its path', () => {
    expect(messageOf({ items: [{}, {}, { price: 1n }] })).toMatch(/^payload\.items\[2\]\.price: .*BigInt/);
    expect(messageOf(1n)).toMatch(/^payload: /);
  });

  it('is named with what it refers to if it contains itself', () => {
    const order: Record<string, unknown> = {};
    order.lines = [{ order }];
    expect(messageOf({ order })).toBe(
      'payload.order.lines[0].order: expected a value that JSON can represent, got a circular reference to payload.order; ' +
        'send an id instead',
    );
  });

  it('is reported with the reason if it cannot be read', () => {
    const broken = {
      get a(): never {
        throw new Error('no connection');
      },
    };
    expect(messageOf(broken)).toBe(
      'payload: expected a value that JSON can represent, but reading it failed: no connection',
    );
  });
});
