/** A decoded tile: its segments, where to find them by row and time, and what is drawn of them. */

import { type Columns, tileName } from "../page";
import type { Instances } from "./instances";

export interface TileId {
  side: number;
  track: number;
  level: number;
  tile: number;
}

export function nameOf(id: TileId): string {
  return tileName(id.side, id.track, id.level, id.tile);
}

/** Segments of one tile by start; times are those of the side. */
export class Segments {
  readonly start: Float64Array;
  readonly dur: Float64Array;
  readonly row: ArrayLike<number>;
  readonly op: ArrayLike<number> | null;
  readonly count: number;
  private readonly order: Uint32Array;
  private readonly first: Uint32Array;

  constructor(
    readonly columns: Columns,
    rows: number,
  ) {
    this.start = doubles(columns.start);
    this.dur = doubles(columns.dur);
    this.count = this.start.length;
    this.row = columns.row ?? new Uint8Array(this.count);
    this.op = columns.op ?? null;
    this.first = new Uint32Array(rows + 2);
    this.order = new Uint32Array(this.count);
    this.sortByRow(rows);
  }

  private sortByRow(rows: number): void {
    const next = this.first;
    for (let at = 0; at < this.count; at++) next[Math.min(this.row[at] as number, rows - 1) + 2]!++;
    for (let row = 2; row < next.length; row++) next[row]! += next[row - 1]!;
    for (let at = 0; at < this.count; at++)
      this.order[next[Math.min(this.row[at] as number, rows - 1) + 1]!++] = at;
  }

  /** The last segment of a row that starts at or before a moment; -1: none. */
  before(row: number, time: number): number {
    let low = this.first[row] ?? 0;
    let high = this.first[row + 1] ?? 0;
    const floor = low;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[this.order[middle]!]! <= time) low = middle + 1;
      else high = middle;
    }
    return low > floor ? this.order[low - 1]! : -1;
  }

  /** The segment of a row at a moment; -1: none. */
  at(row: number, time: number): number {
    const found = this.before(row, time);
    return found >= 0 && this.start[found]! + this.dur[found]! > time ? found : -1;
  }

  /** The segments of a row in order of time, as places in the columns. */
  ofRow(row: number): Uint32Array {
    return this.order.subarray(this.first[row] ?? 0, this.first[row + 1] ?? 0);
  }

  /** The first segment that starts at or after a moment. */
  from(time: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle]! < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export interface Tile {
  id: TileId;
  segments: Segments;
  rows: number;
  /** Null until the table of ops is there. */
  drawn: Instances | null;
  /** What is drawn where it would be too dense, by width of the buckets. */
  merged: Map<number, Instances>;
}

function doubles(column: Columns[string] | undefined): Float64Array {
  if (column instanceof Float64Array) return column;
  return column ? Float64Array.from(column) : new Float64Array(0);
}
