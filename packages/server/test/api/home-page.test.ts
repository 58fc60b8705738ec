import { createHash } from 'node:crypto';
import { ROUTES } from '@drover/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { VERSION } from '../../src/version.js';
import { type ApiBench, createApiBench } from './api-bench.js';

let api: ApiBench;
beforeAll(async () => {
  api = await createApiBench();
});
afterAll(() => api.close());

test('a browser gets a page with the version and links that lead somewhere', async () => {
  const { status, text, headers } = await api.call('/');
  expect([status, headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
  expect(text).toContain('<title>Drover</title>');
  expect(text).toContain(VERSION);
  const links = [...text.matchAll(/<a href="([^"]+)"/g)].map(([, path]) => path as string);
  expect(links).toContain(ROUTES.openApi.path);
  for (const path of links) expect([path, (await api.call(path)).status]).toEqual([path, 200]);
  expect((await api.call('/', { method: 'HEAD' })).status).toBe(200);
});

test('the page loads nothing, runs nothing and may be shown in no other page', async () => {
  const { text, headers } = await api.call('/');
  const style = /<style>(.*)<\/style>/s.exec(text)?.[1] as string;
  const hash = createHash('sha256').update(style).digest('base64');
  expect(headers['content-security-policy']).toBe(
    `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  );
  expect(headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' });
  // nothing from elsewhere, and no style that the policy refuses
  expect(text).not.toMatch(/<script|\sstyle=|@import|url\(|(?:src|href)="(?!\/|data:)/);
});
