/** What a page holds: the types of docs/formats/levels.md. Times are picoseconds from the start. */

export interface Page {
  format: 2;
  version: string;
  title: string;
  /** The command that made the page, to be shown and repeated. */
  command: string;
  /** The text reports, as HTML made by `counterpoint.view`; safe to insert. */
  reports: { title: string; html: string }[];
  /** What the commands print with --json, by command: explain, compare, network, predict, tune. */
  results: Record<string, unknown>;
  /** None, one, or two that are compared. */
  timelines: TimelinePage[];
}

export type Basis = "measured" | "predicted";

export interface TimelinePage {
  name: string;
  basis: Basis;
  /** False while the app still computes levels: the page is fetched again, with more tracks behind these. */
  complete: boolean;
  /** The profile is still being read: only the steps and programs that it marks are known. */
  preview: boolean;
  /** Of a preview: the host that marked the steps, if there are several; otherwise null. */
  marked_by: string | null;
  end: number;
  devices: { name: string; host: string; chip: string | null }[];
  /**
   * One entry per step number: from the first device's start to the last device's end. `ms` is null
   * where only the host marked the steps, which devices may run later.
   */
  steps: { step: number[]; start: number[]; end: number[]; ms: (number | null)[]; steady: boolean[] };
  /** The typical step that a single file holds in full; null: there is no step. */
  typical: number | null;
  /** The user chose that step: it need not be typical. */
  chosen: boolean;
  /** The range of a predicted step, if it is known. */
  range_ms: [number, number] | null;
  /** What the allocators of devices had given out, in bytes, from each moment on; empty: not recorded. */
  memory: MemoryCurve[];
  /** The step's programs on the first device. */
  programs: { name: string; start: number[]; end: number[] }[];
  /** Stretches of one phase on the first device, by its kernels; empty if fewer than two are known. */
  phases: { phase: string[]; start: number[]; end: number[] };
  tracks: Track[];
  /** Block of JSON: OpTable. */
  ops: string;
  findings: FindingPlaces[];
}

export interface MemoryCurve {
  device: number;
  at: number[];
  used: number[];
  most: number;
  limit: number | null;
  /** Since the program began. */
  peak: number | null;
}

export type Kind = "summary" | "fold" | "compute" | "collective" | "copy" | "control" | "host" | "transfer";

/** Classes of time. `hidden`: a collective runs and so does compute; `exposed`: it runs alone. */
export type Class = "compute" | "hidden" | "exposed" | "copy" | "control" | "host";

export interface Track {
  /** Row number in `devices`; null for the host's threads and folded devices. */
  device: number | null;
  title: string;
  kind: Kind;
  /** Spans that overlap lie in different rows, 0 at the top. */
  rows: number;
  classes: Class[];
  /** Finest first. Level 0 holds the spans themselves (of a summary: the intervals), width 0. */
  levels: Level[];
}

export interface Level {
  /** Width of a bucket in picoseconds; each is 8 times the one before. */
  width: number;
  /** Tiles in order; a tile holds segments that start in [start[i], start[i + 1]). */
  start: number[];
  /** Where the last segment of the tile ends. */
  end: number[];
  count: number[];
  /** False: not in this file; a coarser level is. */
  has: boolean[];
}

/** Name of the block with a tile. */
export function tileName(timeline: number, track: number, level: number, tile: number): string {
  return `${timeline}.${track}.${level}.${tile}`;
}

/**
 * Columns of a tile's block. Every level: start, dur (ps), row. Level 0 of spans: op (row of the
 * OpTable), span (row of Timeline.spans), and in collective tracks `exposed` (ps) and `cuts`, the
 * moments at which the device's exposed time begins and ends, in turns, where spans are exposed in
 * part. Otherwise: the
 * time of each class (ps, summed over `devices` in a fold; the rest is idle), count (spans that
 * start there) and op, the one with the most time (0xffffffff: none). A fold also has busy_min,
 * busy_median, busy_max: ps that single devices compute.
 */
export type Columns = Record<string, Float64Array | Uint32Array | Uint16Array | Uint8Array>;

export interface FindingPlaces {
  code: string;
  title: string;
  /** The worst first; without an op: time in which the device of a summary is idle. */
  places: { track: number; start: number; dur: number; op: number | null; what: string }[];
}

/** Attributes of the ops by row; a missing value is null. */
export interface OpTable {
  name: string[];
  op: (string | null)[];
  program: (string | null)[];
  opcode: (string | null)[];
  category: (string | null)[];
  lane: string[];
  collective: (string | null)[];
  bytes: (number | null)[];
  group_size: (number | null)[];
  bus_factor: (number | null)[];
  scope: (string | null)[];
  source: (string | null)[];
  phase: (string | null)[];
  flops: (number | null)[];
  bytes_accessed: (number | null)[];
  /** Row of the op that started this one. */
  pair: (number | null)[];
  /** The name that the results give a collective, where it is that of its start; otherwise null. */
  listed: (string | null)[];
  /** How a collective was priced, in a prediction. */
  priced: (string | null)[];
}
