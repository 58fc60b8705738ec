/** Assignments as frames: joined, and never longer than a worker takes. */
import { LIMITS, newId } from '@drover/protocol';
import { expect, test } from 'vitest';
import { sendAssignments } from '../../../src/workers/stream/frames.js';

function framesOf(jobs: { id: string; payload: unknown }[]): string[] {
  const frames: string[] = [];
  const granted = jobs.map((job) => ({ id: job.id, fence: 1, assignment: JSON.stringify(job) }));
  sendAssignments(granted, (frame) => void frames.push(frame));
  return frames;
}

const sentIn = (frames: string[]) => frames.flatMap((frame) => JSON.parse(frame).jobs as { id: string }[]);

test('small jobs share one frame, in their order', () => {
  const jobs = Array.from({ length: 1000 }, () => ({ id: newId(), payload: { n: 1 } }));
  const frames = framesOf(jobs);
  expect(frames).toHaveLength(1);
  expect(sentIn(frames)).toEqual(jobs);
});

test('large payloads are spread over frames that a worker takes', () => {
  const payload = 'x'.repeat(1024 * 1024 - 2);
  const jobs = Array.from({ length: 12 }, () => ({ id: newId(), payload }));
  const frames = framesOf(jobs);
  expect(sentIn(frames).map(({ id }) => id)).toEqual(jobs.map(({ id }) => id));
  const longest = Math.max(...frames.map((frame) => frame.length));
  expect(longest).toBeLessThan(6 * 1024 * 1024);
  expect(longest).toBeLessThan(LIMITS.frameBytes);
});

test('no jobs are no frame', () => {
  expect(framesOf([])).toEqual([]);
});
