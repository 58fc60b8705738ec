/**
 * The worker's journal: which jobs it has started, how they ended, and what servers have acknowledged. A process that
 * is restarted with the same folder delivers the outcomes that its predecessor could not, and reports at once which
 * jobs died with it.
 *
 * Invariants:
 * - An outcome is durable before it is sent, and a `hold` job is durably started before its handler is called. A
 *   `rerun` job does not wait: its line is being written when the handler begins. If the machine dies before it is
 *   durable, the end of the lease has the same effect.
 * - Entries are batched: everything that arrives while a record is being made durable goes into the next record. No
 *   timers.
 * - A file is never repaired. It is read once, at the start; a new file replaces it by a rename when it is durable.
 *   The same happens when a file is large and mostly obsolete, and after a failed write: the effect of a failed fsync
 *   is unknown, so the file is not used again.
 * - While nothing can be written (`trouble`), the worker takes no new jobs. Running jobs continue in memory, and
 *   their outcomes are sent. The worker recovers as soon as a new file can be written.
 */
import { randomUUID } from 'node:crypto';
import { type FileHandle, open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { DroverError, type Grant, type PreviousSession } from '@drover/protocol';
import type { Logger } from '../../logger.js';
import { type FolderLock, lockFolder } from './folder-lock.js';
import { JournalState, type Started, type Undelivered } from './journal-state.js';
import { openPrivateFolder, PRIVATE_FILE } from './private-folder.js';
import { JOURNAL_VERSION, type ReadJournal, RecordWriter, readJournal } from './records.js';

/** Smaller files are not compacted. */
const COMPACT_FROM_BYTES = 8 * 1024 * 1024;
/** A file this many times larger than its state is mostly acknowledged. */
const COMPACT_RATIO = 4;
/** Pause between attempts to write again after a failure. */
const RETRY_MS = 1000;
/** Acknowledgements only save work after a crash, so they wait for the next record, but no longer than this. */
const LAZY_MS = 200;

/** Jobs named in one log line. */
const MAX_NAMED = 100;

export type JournalOptions = {
  folder: string;
  /** The session that writes it, with the key that proves it. */
  session: PreviousSession;
  /** Sets a damaged file aside instead of refusing to start. */
  discardDamaged: boolean;
  logger: Logger;
  /** The trouble has started, or (undefined) ended. */
  troubled: (trouble: string | undefined) => void;
  /** For tests that simulate a failing disk. */
  openFile?: (path: string, flags: string, mode: number) => Promise<FileHandle>;
};

export class Journal {
  readonly #options: JournalOptions;
  readonly #path: string;
  readonly #state: JournalState;
  readonly #lock: FolderLock;
  #file: FileHandle | undefined;
  #writer: RecordWriter | undefined;
  #size = 0;
  #lines: string[] = [];
  /** Whether new lines go to a file (the current one or the one being started). If not, the state is enough. */
  #isRecording = false;
  #waiting: (() => void)[] = [];
  #writing: Promise<void> = Promise.resolve();
  /** Set while waiting lines are being written. Lines added meanwhile are written too. */
  #isWriting = false;
  #isWriteDue = false;
  #timer: NodeJS.Timeout | undefined;
  #trouble: string | undefined;
  #isClosed = false;

  private constructor(options: JournalOptions, state: JournalState, lock: FolderLock) {
    this.#options = options;
    this.#path = join(options.folder, 'journal');
    this.#state = state;
    this.#lock = lock;
  }

  /** Locks the folder, reads the old file and begins a new one. Rejects if the old file is damaged or too new. */
  static async open(options: JournalOptions): Promise<Journal> {
    await openPrivateFolder(options.folder, options.logger);
    const lock = await lockFolder(options.folder);
    try {
      const state = await recover(options);
      state.session(options.session);
      const journal = new Journal(options, state, lock);
      await journal.#beginFile();
      return journal;
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  /** Earlier sessions of this folder whose jobs no server has transferred to this session. */
  get previousSessions(): PreviousSession[] {
    return this.#state.sessions.slice(0, -1);
  }

  /** Whether those sessions may have started jobs that are missing here. */
  get isIncomplete(): boolean {
    return this.#state.isIncomplete;
  }

  /** The cluster that its jobs belong to, if a server has ever accepted the worker. */
  get clusterId(): string | undefined {
    return this.#state.clusterId;
  }

  /** Outcomes that no server has acknowledged. */
  undelivered(): Undelivered[] {
    return this.#state.undelivered();
  }

  get isWritable(): boolean {
    return this.#trouble === undefined;
  }

  started(started: Started): void {
    this.#append(this.#state.started(started));
    this.#writeSoon();
  }

  finished(finished: Undelivered): void {
    this.#append(this.#state.finished(finished));
    this.#writeSoon();
  }

  acknowledged(grant: Grant): void {
    const line = this.#state.acknowledged(grant);
    if (line === undefined) return;
    this.#append(line);
    this.#timer ??= setTimeout(() => {
      // The next acknowledgement needs a new timer, whatever the result of this write.
      this.#timer = undefined;
      this.#writeSoon();
    }, LAZY_MS);
  }

  /** Call when a server of this cluster has accepted the worker, with everything that earlier sessions held. */
  adopted(clusterId: string): void {
    if (this.#state.sessions.length < 2 && this.#state.clusterId === clusterId) return;
    this.#append(this.#state.adopted(clusterId));
    this.#writeSoon();
  }

  /** Resolves when all entries so far are durable, or when that is not possible now: see `isWritable`. */
  commit(): Promise<void> {
    if (this.#lines.length === 0 && !this.#isWriting) return Promise.resolve();
    if (this.#trouble !== undefined) return Promise.resolve();
    this.#writeSoon();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** `isFolderFree`: no handler of this process runs any more, so another worker may use the folder. */
  async close(isFolderFree: boolean): Promise<void> {
    await this.commit();
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#writing;
    await this.#closeFile();
    if (isFolderFree) await this.#lock.release();
  }

  #append(line: string): void {
    if (this.#isRecording) this.#lines.push(line);
  }

  /** At the end of this turn, so that all entries of the turn form one record. */
  #writeSoon(): void {
    if (this.#isWriteDue || this.#isWriting || this.#file === undefined) return;
    this.#isWriteDue = true;
    setImmediate(() => {
      this.#isWriteDue = false;
      if (!this.#isWriting) this.#writing = this.#write();
    });
  }

  async #write(): Promise<void> {
    this.#isWriting = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    while (this.#lines.length > 0 || this.#waiting.length > 0) {
      const waiting = this.#waiting;
      this.#waiting = [];
      try {
        if (this.#isMostlyAcknowledged()) await this.#beginFile();
        else await this.#appendRecord();
      } catch (error) {
        await this.#fail(error);
      }
      for (const resolve of waiting) resolve();
    }
    this.#isWriting = false;
  }

  #isMostlyAcknowledged(): boolean {
    return this.#size > COMPACT_FROM_BYTES && this.#size > COMPACT_RATIO * this.#state.bytes;
  }

  async #appendRecord(): Promise<void> {
    const { file, writer } = { file: this.#file, writer: this.#writer };
    if (this.#lines.length === 0 || file === undefined || writer === undefined) return;
    const record = writer.next(this.#lines.join(''));
    this.#lines = [];
    await writeAll(file, record, this.#size);
    this.#size += record.length;
    await file.datasync();
  }

  /** Writes the state to a new file, which replaces the old one when it is durable. */
  async #beginFile(): Promise<void> {
    const { folder, openFile = open } = this.#options;
    const draft = join(folder, 'journal.new');
    const writer = new RecordWriter(randomUUID());
    // The waiting lines are in the state already. New ones are appended after it.
    this.#lines = [];
    this.#isRecording = true;
    const bytes = Buffer.concat([writer.first, writer.next(this.#state.lines())]);
    const file = await openFile(draft, 'w', PRIVATE_FILE);
    try {
      await writeAll(file, bytes, 0);
      await file.sync();
      await rename(draft, this.#path);
      await syncFolder(folder);
    } catch (error) {
      await file.close().catch(() => {}); // the failure that counts is the one that led here
      throw error;
    }
    await this.#closeFile();
    this.#file = file;
    this.#writer = writer;
    this.#size = bytes.length;
    this.#setTrouble(undefined);
  }

  async #fail(error: unknown): Promise<void> {
    const reason = error instanceof Error ? error.message : String(error);
    this.#isRecording = false;
    this.#lines = [];
    const closed = this.#closeFile();
    this.#setTrouble(`the journal in ${this.#options.folder} cannot be written: ${reason}`);
    for (const resolve of this.#waiting.splice(0)) resolve();
    await closed;
    this.#retryLater();
  }

  #retryLater(): void {
    if (this.#isClosed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#writing = this.#retry();
    }, RETRY_MS);
  }

  async #retry(): Promise<void> {
    this.#isWriting = true;
    try {
      await this.#beginFile();
    } catch (error) {
      await this.#fail(error);
    }
    this.#isWriting = false;
    if (this.#lines.length > 0 || this.#waiting.length > 0) this.#writeSoon();
  }

  #setTrouble(trouble: string | undefined): void {
    if (this.#trouble === trouble) return;
    this.#trouble = trouble;
    const { logger } = this.#options;
    if (trouble === undefined) logger.warn({ event: 'journal.recovered' }, 'journal can be written again');
    else logger.error({ event: 'journal.failed', reason: trouble }, 'journal cannot be written; worker takes no jobs');
    this.#options.troubled(trouble);
  }

  async #closeFile(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    // The file may be on a failed disk. It is not used again, so an error here does not matter.
    await file?.close().catch(() => {});
  }
}

/** Reads the folder's last journal. Jobs that were running when their process died are lost. */
async function recover({ folder, discardDamaged, logger }: JournalOptions): Promise<JournalState> {
  const state = new JournalState();
  const path = join(folder, 'journal');
  const bytes = await readIfThere(path);
  if (bytes === undefined) return state;
  const journal = readJournal(bytes);
  if (journal.damage === undefined && journal.version !== JOURNAL_VERSION) {
    const age = journal.version > JOURNAL_VERSION ? 'a newer' : 'an older';
    throw new DroverError(
      'wrong_state',
      `journalDir: ${path} was written by ${age} version of the worker; use that version`,
    );
  }
  if (journal.damage !== undefined) await setAside(path, journal, discardDamaged, logger);
  if (journal.tornBytes > 0) {
    const fields = { event: 'journal.truncated', path, bytes: journal.tornBytes };
    logger.warn(fields, 'journal ends with an incomplete record, which no server has acknowledged');
  }
  for (const body of journal.bodies) state.read(body);
  if (journal.damage !== undefined) state.incomplete();
  const died = state.unfinished();
  for (const { id, fence } of died) {
    state.finished({ id, fence, text: JSON.stringify({ id, fence, kind: 'lost' }) });
  }
  if (died.length > 0) {
    const jobs = died.slice(0, MAX_NAMED).map(({ id, fence }) => `${id} ${fence}`);
    const fields = { event: 'jobs.interrupted', count: died.length, jobs };
    logger.warn(fields, 'jobs were running when the previous process of this folder ended');
  }
  return state;
}

/** A damaged journal is never treated as empty: a person decides. */
async function setAside(path: string, journal: ReadJournal, isAllowed: boolean, logger: Logger): Promise<void> {
  const where = `${path} is damaged at byte ${journal.damage?.at}: ${journal.damage?.reason}`;
  if (!isAllowed) {
    const hint = 'outcomes in it may be lost; to start with its readable part, set discardDamagedJournal';
    throw new DroverError('wrong_state', `journalDir: ${where}; ${hint}`);
  }
  const aside = `${path}.damaged-${Date.now()}`;
  await rename(path, aside);
  const fields = { event: 'journal.discarded', reason: where, aside, readable: journal.bodies.length };
  logger.error(fields, 'damaged journal was moved aside');
}

async function readIfThere(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A file system that is nearly full writes only a part and reports it. */
async function writeAll(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/** Without it, the new name may not survive a power failure. */
async function syncFolder(folder: string): Promise<void> {
  // Windows cannot open a folder; its file system keeps renames in order by itself.
  if (process.platform === 'win32') return;
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
