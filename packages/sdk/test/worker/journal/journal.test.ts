/** The journal on a real file system; processes that die are real ones. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmod,
  type FileHandle,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  rm,
  stat,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Journal, type JournalOptions } from '../../../src/worker/journal/journal.js';
import { JournalState } from '../../../src/worker/journal/journal-state.js';
import { JOURNAL_VERSION, RecordWriter, readJournal } from '../../../src/worker/journal/records.js';
import { gate } from '../../support/gate.js';

const WRITER = fileURLToPath(new URL('../../support/journal-process.mjs', import.meta.url));

let folder: string;
let journals: Journal[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'drover-journal-'));
});
afterEach(async () => {
  for (const journal of journals) await journal.close(true);
  journals = [];
  await rm(folder, { recursive: true });
});

const sessionOf = (id: string) => ({ id, resumeKey: `key of ${id}` });

const logged: string[] = [];
const log = (_fields: object, message: string) => void logged.push(message);
const logger = { debug() {}, info() {}, warn: log, error: log };

async function journalOf(options: Partial<JournalOptions> = {}): Promise<Journal> {
  const defaults = { folder, session: sessionOf('session'), discardDamaged: false, logger, troubled() {} };
  const journal = await Journal.open({ ...defaults, ...options });
  journals.push(journal);
  return journal;
}

/** As if its process had died: nothing more is written, and the lock is there but its owner is not. */
async function afterCrash<T>(read: (journal: Journal) => T): Promise<T> {
  await rm(join(folder, 'lock'), { force: true });
  const journal = await journalOf({ session: sessionOf('later') });
  const result = read(journal);
  await journal.close(true);
  journals.pop();
  return result;
}

const job = (id: string) => ({ id, fence: 1, type: 't', onLost: 'rerun' as const });
const outcome = (id: string) => ({ id, fence: 1, text: JSON.stringify({ id, fence: 1, kind: 'succeeded', runMs: 1 }) });

describe('a journal', () => {
  it('tells the next process what was not delivered, what died, and whose it was', async () => {
    const journal = await journalOf({ session: sessionOf('first') });
    for (const id of ['delivered', 'undelivered', 'died']) journal.started(job(id));
    journal.finished(outcome('delivered'));
    journal.finished(outcome('undelivered'));
    journal.acknowledged({ id: 'delivered', fence: 1 });
    await journal.commit();
    const found = await afterCrash((later) => ({ sessions: later.previousSessions, outcomes: later.undelivered() }));
    expect(found.sessions).toEqual([sessionOf('first')]);
    const died = { id: 'died', fence: 1, text: '{"id":"died","fence":1,"kind":"lost"}' };
    expect(found.outcomes).toEqual([outcome('undelivered'), died]);
  });

  it('names earlier sessions until a server has taken over what they held', async () => {
    await (await journalOf({ session: sessionOf('first') })).close(true);
    const second = await journalOf({ session: sessionOf('second') });
    expect(second.previousSessions).toEqual([sessionOf('first')]);
    second.adopted('cluster');
    await second.close(true);
    expect((await journalOf({ session: sessionOf('third') })).previousSessions).toEqual([sessionOf('second')]);
  });

  it('loses nothing that it promised, however often and whenever its process is killed', async () => {
    for (let round = 0; round < 12; round++) {
      const child = spawn(process.execPath, [WRITER, folder, String(round)], { stdio: ['ignore', 'pipe', 'inherit'] });
      let text = '';
      child.stdout.on('data', (part) => {
        text += part;
      });
      const [, signal] = await once(child, 'close');
      expect(signal).toBe('SIGKILL');
      const told = (verb: string) => [...text.matchAll(new RegExp(`^${verb} (.*)$`, 'gm'))].map(([, id]) => String(id));
      const acknowledged = told('acknowledged');
      const found = await afterCrash((journal) => journal.undelivered());
      const kinds = new Map(found.map(({ id, text: json }) => [id, (JSON.parse(json) as { kind: string }).kind]));
      for (const id of told('finished')) if (!acknowledged.includes(id)) expect(kinds.get(id)).toBe('succeeded');
      for (const id of told('started')) if (!acknowledged.includes(id)) expect(kinds.has(id)).toBe(true);
    }
  });

  it('cuts a torn end off and says so', async () => {
    const journal = await journalOf();
    journal.started(job('a'));
    await journal.commit();
    const whole = (await stat(join(folder, 'journal'))).size;
    journal.started(job('b'));
    await journal.commit();
    await truncate(join(folder, 'journal'), whole + 10);
    logged.length = 0;
    expect(await afterCrash((later) => later.undelivered().map(({ id }) => id))).toEqual(['a']);
    expect(logged.join()).toContain('journal ends with an incomplete record');
  });

  it('that is damaged keeps the worker from starting, unless it is told to set it aside', async () => {
    const journal = await journalOf();
    journal.finished(outcome('a'));
    await journal.commit();
    journal.finished(outcome('b'));
    await journal.close(true);
    const path = join(folder, 'journal');
    const bytes = await readFile(path);
    await writeFile(path, Buffer.concat([bytes.subarray(0, 120), Buffer.from('?'), bytes.subarray(121)]));
    await expect(journalOf()).rejects.toThrow(/journal is damaged at byte \d+: .*discardDamagedJournal/);
    const repaired = await journalOf({ discardDamaged: true });
    expect(repaired.undelivered().map(({ id }) => id)).toContain('b');
    const aside = (await readdir(folder)).find((name) => name.startsWith('journal.damaged-'));
    expect((await readFile(join(folder, aside as string))).length).toBe(bytes.length);
    // Until a server has taken over what is left, also for processes that find nothing wrong with the new file.
    expect(repaired.isIncomplete).toBe(true);
    await repaired.close(true);
    const later = await journalOf({ session: sessionOf('later') });
    expect(later.isIncomplete).toBe(true);
    later.adopted('cluster');
    await later.close(true);
    expect((await journalOf()).isIncomplete).toBe(false);
  });

  it.each([
    ['a newer', JOURNAL_VERSION + 1],
    ['an older', JOURNAL_VERSION - 1],
  ])('of %s version is refused and left alone', async (age, version) => {
    const first = new RecordWriter('file', version).first;
    await writeFile(join(folder, 'journal'), first);
    await expect(journalOf()).rejects.toThrow(`written by ${age} version`);
    expect(await readFile(join(folder, 'journal'))).toEqual(first);
  });

  it('writes acknowledgements soon, also after one that came while a slow disk was written to', async () => {
    const [slow, writing] = [gate(), gate()];
    let isSlow = false;
    const openFile = async (path: string, flags: string): Promise<FileHandle> => {
      const file = await open(path, flags);
      const datasync = file.datasync.bind(file);
      file.datasync = async () => {
        if (isSlow) {
          writing.open();
          await slow.passed;
        }
        await datasync();
      };
      return file;
    };
    const journal = await journalOf({ openFile });
    for (const id of ['a', 'b']) journal.finished(outcome(id));
    await journal.commit();
    isSlow = true;
    journal.started(job('c'));
    const committed = journal.commit();
    await writing.passed;
    journal.acknowledged({ id: 'a', fence: 1 });
    // Longer than an acknowledgement waits for company.
    await delay(300);
    slow.open();
    isSlow = false;
    await committed;
    const said = async () => {
      const state = new JournalState();
      for (const body of readJournal(await readFile(join(folder, 'journal'))).bodies) state.read(body);
      return state.undelivered().map(({ id }) => id);
    };
    await expect.poll(said).toEqual(['b']);
    journal.acknowledged({ id: 'b', fence: 1 });
    await expect.poll(said, { timeout: 5000 }).toEqual([]);
  });

  it('stays small when what it says was acknowledged', async () => {
    const journal = await journalOf();
    const big = (n: number) => ({
      id: `j${n}`,
      fence: 1,
      text: JSON.stringify({ id: `j${n}`, fence: 1, x: 'x'.repeat(500_000) }),
    });
    journal.finished(big(1000));
    for (let n = 0; n < 40; n++) {
      journal.finished(big(n));
      await journal.commit();
      journal.acknowledged(big(n));
    }
    await journal.commit();
    expect((await stat(join(folder, 'journal'))).size).toBeLessThan(10_000_000);
    expect(await afterCrash((later) => later.undelivered().map(({ id }) => id))).toEqual(['j1000']);
  });
});

describe('a data folder', () => {
  it('belongs to one worker at a time', async () => {
    await journalOf();
    await expect(journalOf()).rejects.toThrow(`belongs to another worker: process ${process.pid} uses it`);
  });

  it('is taken over from a process that has died', async () => {
    const child = spawn(process.execPath, [WRITER, folder, '0'], { stdio: 'ignore' });
    await once(child, 'close');
    expect(await readdir(folder)).toContain('lock');
    const journal = await journalOf();
    expect(journal.previousSessions).toEqual([sessionOf('s-0')]);
    expect((await readdir(folder)).sort()).toEqual(['journal', 'lock']);
    await journal.close(true);
    expect(await readdir(folder)).toEqual(['journal']);
  });

  it('is taken over though another process has the same id now', async () => {
    const owner = { pid: process.pid, host: (await import('node:os')).hostname(), startedAt: 'another boot 1' };
    await writeFile(join(folder, 'lock'), JSON.stringify(owner));
    await journalOf();
  });

  it('is not taken from a worker on another machine', async () => {
    await writeFile(join(folder, 'lock'), JSON.stringify({ pid: 1, host: 'elsewhere' }));
    await expect(journalOf()).rejects.toThrow(/process 1 on elsewhere uses it; .* remove/);
  });

  it.runIf(process.platform === 'linux')('is taken over though the host has another name by now', async () => {
    const dead = spawn(process.execPath, [WRITER, folder, '0'], { stdio: 'ignore' });
    await once(dead, 'close');
    const owner = JSON.parse(await readFile(join(folder, 'lock'), 'utf8'));
    await writeFile(join(folder, 'lock'), JSON.stringify({ ...owner, host: 'renamed-since' }));
    await journalOf();
  });

  it('is given to one of many that want it at once, though its last owner is dead', async () => {
    await writeFile(
      join(folder, 'lock'),
      JSON.stringify({ pid: 2 ** 22 + 1, host: (await import('node:os')).hostname() }),
    );
    const results = await Promise.allSettled(Array.from({ length: 50 }, () => journalOf()));
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });
});

describe.runIf(process.platform !== 'win32')('who may read it', () => {
  const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);

  it('is its user alone, whatever the umask', async () => {
    const umask = process.umask(0);
    try {
      const own = join(folder, 'state', 'worker');
      await journalOf({ folder: own });
      expect(await modeOf(own)).toBe('700');
      expect((await readdir(own)).sort()).toEqual(['journal', 'lock']);
      for (const name of await readdir(own)) expect([name, await modeOf(join(own, name))]).toEqual([name, '600']);
    } finally {
      process.umask(umask);
    }
  });

  it('is its user alone also for a folder and files that were open to others', async () => {
    await (await journalOf()).close(true);
    await writeFile(join(folder, 'journal.damaged-1'), 'results');
    await writeFile(join(folder, 'journal.new'), 'results');
    await chmod(folder, 0o755);
    for (const name of await readdir(folder)) await chmod(join(folder, name), 0o644);
    await journalOf();
    expect(await modeOf(folder)).toBe('700');
    expect((await readdir(folder)).sort()).toEqual(['journal', 'journal.damaged-1', 'lock']);
    for (const name of await readdir(folder)) expect([name, await modeOf(join(folder, name))]).toEqual([name, '600']);
  });

  it('leaves a folder as it is that holds other things too', async () => {
    await mkdir(join(folder, 'pictures'));
    await chmod(folder, 0o755);
    await journalOf();
    expect(await modeOf(folder)).toBe('755');
    expect(await modeOf(join(folder, 'journal'))).toBe('600');
  });
});

describe('a disk that fails', () => {
  /** A real file whose disk can be told to fail. */
  function failingDisk() {
    const disk = { error: undefined as NodeJS.ErrnoException | undefined, opened: 0 };
    const openFile = async (path: string, flags: string): Promise<FileHandle> => {
      if (disk.error !== undefined) throw disk.error;
      disk.opened++;
      const file = await open(path, flags);
      const datasync = file.datasync.bind(file);
      file.datasync = async () => {
        if (disk.error !== undefined) throw disk.error;
        await datasync();
      };
      return file;
    };
    return { disk, openFile };
  }

  it('is told, and a file whose fsync failed is never used again', async () => {
    const { disk, openFile } = failingDisk();
    const troubles: (string | undefined)[] = [];
    const well = gate();
    const troubled = (trouble: string | undefined) => {
      troubles.push(trouble);
      if (trouble === undefined) well.open();
    };
    const journal = await journalOf({ openFile, troubled });
    disk.error = Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' });
    journal.finished(outcome('a'));
    await journal.commit();
    expect(journal.isWritable).toBe(false);
    expect(troubles).toEqual([expect.stringContaining('cannot be written: EIO')]);
    journal.finished(outcome('b'));
    await journal.commit();
    disk.error = undefined;
    await well.passed;
    expect(disk.opened).toBe(2);
    journal.finished(outcome('c'));
    await journal.commit();
    expect(await afterCrash((later) => later.undelivered().map(({ id }) => id))).toEqual(['a', 'b', 'c']);
  });
});
