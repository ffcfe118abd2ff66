// Values of the last half hour, in memory.

/** How long values are kept. */
export const HISTORY_MS = 30 * 60_000;
/** The highest number of points, whatever the interval between them is. */
const POINTS = 1800;
/** The highest number of columns. Further ones are not kept. */
const COLUMNS = 600;
/** A pause of this many intervals is a gap in a chart. */
const GAP = 4;

type Value = number | null;

/** Columns of values with common times. */
export class History {
  /** Seconds since 1970, ascending. */
  times: number[] = [];
  #columns = new Map<string, Value[]>();

  /** Adds a row. Columns that it lacks get a gap. `interval` is the time between rows in milliseconds. */
  add(now: number, interval: number, row: Map<string, number | undefined>): void {
    const last = this.times.at(-1);
    const seconds = now / 1000;
    if (last !== undefined && seconds <= last) return;
    if (last !== undefined && seconds - last > (GAP * interval) / 1000) this.#push(last + 0.001, new Map());
    this.#push(seconds, row);
    this.#trim(seconds - HISTORY_MS / 1000);
  }

  /** The values of a column, one for each time. */
  column(name: string): Value[] {
    return this.#columns.get(name) ?? this.times.map(() => null);
  }

  #push(seconds: number, row: Map<string, number | undefined>): void {
    for (const name of row.keys()) {
      if (!this.#columns.has(name) && this.#columns.size < COLUMNS) this.#columns.set(name, this.times.map(() => null));
    }
    this.times.push(seconds);
    for (const [name, values] of this.#columns) values.push(row.get(name) ?? null);
  }

  #trim(oldest: number): void {
    let excess = this.times.findIndex((time) => time >= oldest);
    excess = Math.max(excess, this.times.length - POINTS);
    if (excess <= 0) return;
    this.times.splice(0, excess);
    for (const [name, values] of this.#columns) {
      values.splice(0, excess);
      if (values.every((value) => value === null)) this.#columns.delete(name);
    }
  }
}
