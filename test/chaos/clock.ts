/** The clock of the witness: monotonic, the same for every process of the machine, in milliseconds. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
