/**
 * Which processes run and for what kind of job, in memory shared by threads: the thread that keeps the worker's lease
 * must be able to kill them while a handler blocks the main thread.
 *
 * Only the main thread writes. A process is removed in the turn in which Node reaps it, and its pid is not reused
 * before that, so a reader never kills another process.
 */
import { randomUUID } from 'node:crypto';
import { killTree } from './process-tree.js';

/** The fields of a row: the process's id (0: the row is free), the number in its mark, and its duty. */
const PID = 0;
const NUMBER = 1;
const DUTY = 2;
const ROW_LENGTH = 3;

const DUTIES = { idle: 0, rerun: 1, hold: 2 } as const;
export type Duty = 'idle' | 'rerun' | 'hold';

/** Can be posted to another thread. */
export type SharedProcessTable = { readonly owner: string; readonly rows: Int32Array };

export class ProcessTable {
  readonly shared: SharedProcessTable;
  #lastNumber = 0;

  /** `size` is the maximum number of processes. Each has a row from its start until it is reaped. */
  constructor(size: number) {
    const buffer = new SharedArrayBuffer(size * ROW_LENGTH * Int32Array.BYTES_PER_ELEMENT);
    this.shared = { owner: randomUUID(), rows: new Int32Array(buffer) };
  }

  /** A mark that is unique among the processes of all workers on this machine. */
  nextMark(): { number: number; mark: string } {
    const number = ++this.#lastNumber;
    return { number, mark: markOf(this.shared.owner, number) };
  }

  /** Returns the row. */
  add(pid: number, number: number): number {
    const { rows } = this.shared;
    for (let row = 0; row < rows.length; row += ROW_LENGTH) {
      if (rows[row + PID] !== 0) continue;
      rows[row + NUMBER] = number;
      rows[row + DUTY] = DUTIES.idle;
      Atomics.store(rows, row + PID, pid);
      return row;
    }
    throw new RangeError('the process table is full: more processes than slots');
  }

  setDuty(row: number, duty: Duty): void {
    Atomics.store(this.shared.rows, row + DUTY, DUTIES[duty]);
  }

  remove(row: number): void {
    Atomics.store(this.shared.rows, row + PID, 0);
  }
}

/** Kills the processes with this duty, or all. Can be called from any thread. Returns how many there were. */
export function killProcesses({ owner, rows }: SharedProcessTable, duty?: Duty): number {
  let killed = 0;
  for (let row = 0; row < rows.length; row += ROW_LENGTH) {
    const pid = Atomics.load(rows, row + PID);
    if (pid === 0 || (duty !== undefined && Atomics.load(rows, row + DUTY) !== DUTIES[duty])) continue;
    killTree({ pid, mark: markOf(owner, rows[row + NUMBER] as number) });
    killed++;
  }
  return killed;
}

function markOf(owner: string, number: number): string {
  return `${owner}.${number}`;
}
