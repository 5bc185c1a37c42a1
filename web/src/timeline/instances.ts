/**
 * Rectangles of a tile, as the vertex shader reads them: 32 bytes for each, 0 where there is none.
 *
 *     0  f32 x 4  start and end, each as the nearest f32 and the rest: exact to the picosecond
 *    16  u16 x 4  height until which compute, hidden, exposed and copied time reach (of 65535)
 *    24  u16 x 2  the same for control or host; lane: place in the texture with positions
 *    28  u32      op among those of all sides (NO_OP: none)
 */

import type { Class, OpTable, Track } from "../page";
import { NO_OP, type Side } from "./sides";
import type { Segments } from "./tile";

export const STRIDE = 32;
/** Instances in a row of the texture that holds them: each tile has whole rows. */
export const ACROSS = 512;
const FULL = 65535;

export interface Instances {
  buffer: ArrayBuffer;
  /** Without those that fill the last row. */
  count: number;
  /** Number that was added to each row to make its lane. */
  base: number;
  /** First start and last end of each CHUNK of them. */
  extents: Float64Array;
}

/** Instances of which some are seen or none: a narrow window draws few of a tile. */
export const CHUNK = 64;

/** Stacked from the bottom. In tracks of a host the last one stands for its threads. */
export const STACK: readonly Class[] = ["compute", "hidden", "exposed", "copy", "control"];

export class Writer {
  private buffer: ArrayBuffer;
  private floats!: Float32Array;
  private shorts!: Uint16Array;
  private words!: Uint32Array;
  count = 0;

  constructor(capacity: number) {
    this.buffer = new ArrayBuffer(Math.max(capacity, 16) * STRIDE);
    this.look();
  }

  /** `heights`: until where each class of STACK reaches, between 0 and 1. */
  add(start: number, end: number, heights: ArrayLike<number>, row: number, op: number): void {
    if ((this.count + 1) * STRIDE > this.buffer.byteLength) this.grow();
    const at = this.count++;
    const float = at * 8;
    const short = at * 16 + 8;
    this.floats[float] = start;
    this.floats[float + 1] = start - this.floats[float]!;
    this.floats[float + 2] = end;
    this.floats[float + 3] = end - this.floats[float + 2]!;
    for (let each = 0; each < STACK.length; each++)
      this.shorts[short + each] = Math.round(heights[each]! * FULL);
    this.shorts[short + 5] = row;
    this.words[at * 8 + 7] = op;
  }

  done(): Instances {
    const rows = Math.ceil(this.count / ACROSS);
    const buffer = new ArrayBuffer(rows * ACROSS * STRIDE);
    new Uint8Array(buffer).set(new Uint8Array(this.buffer, 0, this.count * STRIDE));
    return { buffer, count: this.count, base: 0, extents: extentsOf(new Float32Array(buffer), this.count) };
  }

  private grow(): void {
    const larger = new Uint8Array(this.buffer.byteLength * 2);
    larger.set(new Uint8Array(this.buffer));
    this.buffer = larger.buffer;
    this.look();
  }

  private look(): void {
    this.floats = new Float32Array(this.buffer);
    this.shorts = new Uint16Array(this.buffer);
    this.words = new Uint32Array(this.buffer);
  }
}

function extentsOf(floats: Float32Array, count: number): Float64Array {
  const extents = new Float64Array(Math.ceil(count / CHUNK) * 2);
  for (let at = 0; at < count; at++) {
    const chunk = Math.floor(at / CHUNK) * 2;
    const start = floats[at * 8]! + floats[at * 8 + 1]!;
    const end = floats[at * 8 + 2]! + floats[at * 8 + 3]!;
    const isFirst = at % CHUNK === 0;
    extents[chunk] = isFirst ? start : Math.min(extents[chunk]!, start);
    extents[chunk + 1] = isFirst ? end : Math.max(extents[chunk + 1]!, end);
  }
  return extents;
}

/** The first of the instances in a window, and how many from there on hold all of them. */
export function inWindow(drawn: Instances, start: number, end: number): [number, number] {
  const { extents, count } = drawn;
  let first = 0;
  let last = extents.length / 2;
  while (first < last && extents[first * 2 + 1]! < start) first++;
  while (last > first && extents[last * 2 - 2]! > end) last--;
  return [first * CHUNK, Math.max(Math.min(last * CHUNK, count) - first * CHUNK, 0)];
}

export function instances(
  segments: Segments,
  side: Side,
  track: Track,
  level: number,
): Instances {
  const isSpans = level === 0 && track.kind !== "summary" && track.kind !== "fold";
  return isSpans ? spans(segments, side) : buckets(segments, side, track);
}

function buckets(segments: Segments, side: Side, track: Track): Instances {
  const writer = new Writer(segments.count);
  const columns = STACK.map((name) => segments.columns[name]);
  columns[STACK.length - 1] ??= segments.columns.host;
  const devices = track.kind === "fold" ? side.page.devices.length : 1;
  const heights = new Float64Array(STACK.length);
  for (let at = 0; at < segments.count; at++) {
    const whole = segments.dur[at]! * devices;
    let sum = 0;
    for (let each = 0; each < columns.length; each++) {
      sum += columns[each]?.[at] ?? 0;
      heights[each] = Math.min(sum / whole, 1);
    }
    if (!(whole > 0) || sum === 0) continue;
    const start = segments.start[at]! - side.offset;
    const op = segments.op?.[at] ?? NO_OP;
    writer.add(
      start,
      start + segments.dur[at]!,
      heights,
      segments.row[at]!,
      op === NO_OP ? op : op + side.opBase,
    );
  }
  return writer.done();
}

/** Heights of a span that is of one class. */
const WHOLE: Record<string, readonly number[]> = {
  compute: [1, 1, 1, 1, 1],
  hidden: [0, 1, 1, 1, 1],
  exposed: [0, 0, 1, 1, 1],
  copy: [0, 0, 0, 1, 1],
  control: [0, 0, 0, 0, 1],
};
const LAST = WHOLE.control as readonly number[];

function spans(segments: Segments, side: Side): Instances {
  const writer = new Writer(segments.count);
  const lanes = (side.ops as OpTable).lane;
  const { exposed, cuts } = segments.columns;
  for (let at = 0; at < segments.count; at++) {
    const op = segments.op?.[at] ?? NO_OP;
    const lane = lanes[op] ?? "host";
    const own = segments.start[at]!;
    const length = segments.dur[at]!;
    const row = segments.row[at]!;
    const start = own - side.offset;
    const alone = exposed?.[at] ?? 0;
    const of = op === NO_OP ? op : op + side.opBase;
    if (lane !== "collective") writer.add(start, start + length, WHOLE[lane] ?? LAST, row, of);
    else if (alone <= 0) writer.add(start, start + length, WHOLE.hidden!, row, of);
    else if (alone >= length) writer.add(start, start + length, WHOLE.exposed!, row, of);
    else cut(writer, cuts ?? [], side.offset, own, own + length, row, of);
  }
  return writer.done();
}

/** Adds a collective in pieces; `borders`: where exposed time begins and ends, in turns. */
function cut(
  writer: Writer,
  borders: ArrayLike<number>,
  offset: number,
  start: number,
  end: number,
  row: number,
  op: number,
): void {
  let next = after(borders, start);
  for (let from = start; from < end; next++) {
    const to = Math.min(borders[next] ?? Infinity, end);
    writer.add(from - offset, to - offset, next % 2 ? WHOLE.exposed! : WHOLE.hidden!, row, op);
    from = to;
  }
}

/** Number of borders at or before a moment. */
function after(borders: ArrayLike<number>, time: number): number {
  let low = 0;
  let high = borders.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (borders[middle]! <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}
