/**
 * CPU time and memory from /proc. A process tree is counted as the processes that live now plus what their parents have
 * inherited from children already gone (cutime, cstime), so that a PostgreSQL backend which came and went
 * between two readings is not lost. Without /proc (not Linux) every reading is undefined.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { loadavg } from 'node:os';

/** USER_HZ: 100 on every Linux platform that Node supports. */
const TICKS_PER_SECOND = 100;

/** CPU seconds used so far by each of these process trees, by the same names. One pass over /proc. */
export function cpuSecondsOfTrees(rootPids) {
  const processes = readProcesses();
  if (processes === undefined) return undefined;
  const childrenOf = new Map();
  for (const [pid, { parent }] of processes) {
    const siblings = childrenOf.get(parent);
    if (siblings) siblings.push(pid);
    else childrenOf.set(parent, [pid]);
  }
  const ticksOf = (pid) => {
    const own = processes.get(pid)?.ticks ?? 0;
    return (childrenOf.get(pid) ?? []).reduce((sum, child) => sum + ticksOf(child), own);
  };
  return mapValues(rootPids, (pid) => (pid === undefined ? 0 : ticksOf(pid) / TICKS_PER_SECOND));
}

/** Memory of each of these processes that is in RAM, by the same names. */
export function residentMegabytes(pids) {
  return mapValues(pids, (pid) => {
    const kilobytes = /^VmRSS:\s+(\d+)/m.exec((pid && readText(`/proc/${pid}/status`)) ?? '')?.[1];
    return kilobytes === undefined ? undefined : Number(kilobytes) / 1024;
  });
}

/** Seconds of the whole machine since boot: busy with processes, and stolen by the hypervisor. */
export function machineCpuSeconds() {
  const line = readText('/proc/stat')?.split('\n', 1)[0];
  if (line === undefined) return undefined;
  const [user, nice, system, , , , , steal] = line.trim().split(/\s+/).slice(1).map(Number);
  return { busy: (user + nice + system) / TICKS_PER_SECOND, steal: (steal ?? 0) / TICKS_PER_SECOND };
}

/**
 * What disturbed a measurement, in cores: CPU that processes other than ours used, and CPU that the hypervisor
 * gave to someone else. The load average is the one before the measurement.
 */
export function watchNoise() {
  const load = loadavg()[0];
  const machineBefore = machineCpuSeconds();
  const oursBefore = cpuSecondsOfTrees({ ours: process.pid })?.ours;
  const startedAt = performance.now();
  return () => {
    const machine = machineCpuSeconds();
    const ours = cpuSecondsOfTrees({ ours: process.pid })?.ours;
    if (machine === undefined || ours === undefined) return { load };
    const seconds = (performance.now() - startedAt) / 1000;
    const foreign = machine.busy - machineBefore.busy - (ours - oursBefore);
    return {
      load: round(load),
      foreign: round(Math.max(0, foreign) / seconds),
      steal: round((machine.steal - machineBefore.steal) / seconds),
    };
  };
}

/** after − before, name by name. */
export function differenceOf(before, after) {
  if (before === undefined || after === undefined) return undefined;
  return mapValues(after, (value, name) => value - (before[name] ?? 0));
}

function readProcesses() {
  let names;
  try {
    names = readdirSync('/proc');
  } catch {
    return undefined;
  }
  const processes = new Map();
  for (const name of names) {
    if (!/^\d+$/.test(name)) continue;
    const stat = readText(`/proc/${name}/stat`);
    if (stat === undefined) continue;
    // The command name is in parentheses and may hold anything: count fields from the last one.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [utime, stime, cutime, cstime] = fields.slice(11, 15).map(Number);
    processes.set(Number(name), { parent: Number(fields[1]), ticks: utime + stime + cutime + cstime });
  }
  return processes;
}

function readText(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined; // the process ended between the listing and the reading, or there is no /proc
  }
}

function mapValues(object, change) {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value, name)]));
}

function round(value) {
  return Math.round(value * 100) / 100;
}
