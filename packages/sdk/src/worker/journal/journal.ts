/**
 * The worker's journal: which jobs it has started, how they ended, and what servers have acknowledged. A process
 * that is started again with the same folder delivers the outcomes that its predecessor could not, and tells at
 * once which jobs died with it.
 *
 * What always holds:
 * - an outcome is durable before it is sent, and a `hold` job is durably started before its handler is called. A
 *   `rerun` job does not wait: its line is on its way to the file when the handler begins. Should the machine
 *   die in that moment, the end of the lease tells what the journal cannot.
 * - entries are gathered: whatever came while the last record was made durable is the next record. No timers.
 * - a file is never mended. It is read once, at the start, and a new one takes its place by a rename, when it is
 *   durable. The same happens when a file has grown and says little, and after a failed write: what a failed
 *   fsync has left in a file is not known, so it is not used again.
 * - while nothing can be written (`trouble`), the worker takes no new jobs; what it has goes on in memory, and is
 *   sent. As soon as a new file can be written, all is well again.
 */
import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { DroverError, type Grant } from '@drover/protocol';
import type { Logger } from '../../logger.js';
import { type FolderLock, lockFolder } from './folder-lock.js';
import { JournalState, type Started, type Undelivered } from './journal-state.js';
import { JOURNAL_VERSION, type ReadJournal, RecordWriter, readJournal } from './records.js';

/** Smaller files are not worth a new one. */
const COMPACT_FROM_BYTES = 8 * 1024 * 1024;
/** A file this many times as large as what it has to say is mostly acknowledged. */
const COMPACT_RATIO = 4;
/** Between two attempts to write again after a failure. */
const RETRY_MS = 1000;
/** Acknowledgements only save work after a crash, so they wait for the next record, but no longer than this. */
const LAZY_MS = 200;

/** Jobs that are named in one line of the log. */
const MAX_NAMED = 100;

export type JournalOptions = {
  folder: string;
  sessionId: string;
  /** Sets a damaged file aside instead of refusing to start. */
  discardDamaged: boolean;
  logger: Logger;
  /** The trouble has come, or (undefined) gone. */
  troubled: (trouble: string | undefined) => void;
  /** For tests that make a disk fail. */
  openFile?: (path: string, flags: string) => Promise<FileHandle>;
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
  /** Whether what is said goes to the file, or to the one that is being begun; if not, the state is enough. */
  #isRecording = false;
  #waiting: (() => void)[] = [];
  #writing: Promise<void> = Promise.resolve();
  /** From the first look at what waits to the last: what comes in between is written, what comes later is not. */
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

  /** Locks the folder, reads what is there and begins a new file. Rejects if the old one is damaged or too new. */
  static async open(options: JournalOptions): Promise<Journal> {
    await mkdir(options.folder, { recursive: true });
    const lock = await lockFolder(options.folder);
    try {
      const state = await recover(options);
      state.session(options.sessionId);
      const journal = new Journal(options, state, lock);
      await journal.#beginFile();
      return journal;
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  /** Sessions that had this folder before, whose jobs no server has given to this one yet. */
  get previousSessions(): string[] {
    return this.#state.sessions.slice(0, -1);
  }

  /** Whether those may have started more than this journal knows of. */
  get isIncomplete(): boolean {
    return this.#state.isIncomplete;
  }

  /** The cluster that its jobs are of, if a server has ever taken the worker in. */
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
      // Whatever becomes of this one, the next acknowledgement needs a timer of its own.
      this.#timer = undefined;
      this.#writeSoon();
    }, LAZY_MS);
  }

  /** A server of this cluster has taken the worker in, with everything that earlier sessions held. */
  adopted(clusterId: string): void {
    if (this.#state.sessions.length < 2 && this.#state.clusterId === clusterId) return;
    this.#append(this.#state.adopted(clusterId));
    this.#writeSoon();
  }

  /** Resolves when everything said so far is durable, or when it cannot be made so now: see `isWritable`. */
  commit(): Promise<void> {
    if (this.#lines.length === 0 && !this.#isWriting) return Promise.resolve();
    if (this.#trouble !== undefined) return Promise.resolve();
    this.#writeSoon();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** `isFolderFree`: no handler of this process runs any more, so another worker may have the folder. */
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

  /** At the end of this turn, so that what the turn says is one record. */
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

  /** Writes the state to a new file, and lets it take the place of the old one when it is durable. */
  async #beginFile(): Promise<void> {
    const { folder, openFile = open } = this.#options;
    const draft = join(folder, 'journal.new');
    const writer = new RecordWriter(randomUUID());
    // What waits to be written is in the state already; what comes from now on follows it.
    this.#lines = [];
    this.#isRecording = true;
    const bytes = Buffer.concat([writer.first, writer.next(this.#state.lines())]);
    const file = await openFile(draft, 'w');
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
    if (trouble === undefined) this.#options.logger.warn({}, 'the journal can be written again');
    else this.#options.logger.error({}, `${trouble}; the worker takes no new jobs`);
    this.#options.troubled(trouble);
  }

  async #closeFile(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    // The file may be on a disk that has failed; whatever this says, it is not used again.
    await file?.close().catch(() => {});
  }
}

/** What the folder's last journal says; jobs that were running when their process died are lost. */
async function recover({ folder, discardDamaged, logger }: JournalOptions): Promise<JournalState> {
  const state = new JournalState();
  const path = join(folder, 'journal');
  const bytes = await readIfThere(path);
  if (bytes === undefined) return state;
  const journal = readJournal(bytes);
  if (journal.version > JOURNAL_VERSION) {
    throw new DroverError('wrong_state', `journalDir: ${path} was written by a newer version of this worker`);
  }
  if (journal.damage !== undefined) await setAside(path, journal, discardDamaged, logger);
  if (journal.tornBytes > 0) {
    const fields = { path, bytes: journal.tornBytes };
    logger.warn(
      fields,
      'the end of the journal was being written when its process died; no server has acknowledged it',
    );
  }
  for (const body of journal.bodies) state.read(body);
  if (journal.damage !== undefined) state.incomplete();
  const died = state.unfinished();
  for (const { id, fence } of died) {
    state.finished({ id, fence, text: JSON.stringify({ id, fence, kind: 'lost' }) });
  }
  if (died.length > 0) {
    const jobs = died.slice(0, MAX_NAMED).map(({ id, fence }) => `${id} ${fence}`);
    logger.warn({ count: died.length, jobs }, 'these jobs were started when the last process of this folder died');
  }
  return state;
}

/** Never read as if nothing had been in it: a person decides. */
async function setAside(path: string, journal: ReadJournal, isAllowed: boolean, logger: Logger): Promise<void> {
  const where = `${path} is damaged at byte ${journal.damage?.at}: ${journal.damage?.reason}`;
  if (!isAllowed) {
    const hint = 'outcomes in it may be lost; to go on with what can be read, start with discardDamagedJournal';
    throw new DroverError('wrong_state', `journalDir: ${where}; ${hint}`);
  }
  const aside = `${path}.damaged-${Date.now()}`;
  await rename(path, aside);
  logger.error({ aside, readable: journal.bodies.length }, `${where}; it was set aside`);
}

async function readIfThere(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A file system that is nearly full writes a part and says so. */
async function writeAll(file: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/** Without it, the new name may not survive a loss of power. */
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
