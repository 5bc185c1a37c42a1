/**
 * Rectangles of a tile that lie too close for the screen, put together in buckets of one or two
 * pixels: the levels of a page are eightfold, so up to 16 would share a pixel. As there, times of
 * classes are added, and what covers whole buckets stays one rectangle (docs/formats/levels.md).
 */

import { type Instances, STACK, STRIDE, Writer } from "./instances";
import { NO_OP } from "./sides";
import type { Tile } from "./tile";

/** Rectangles of a pixel from which on they are put together. */
const DENSE = 1.5;
const MOST_KEPT = 3;

/** What to draw of a tile where a pixel is `unit` picoseconds. */
export function drawnAt(tile: Tile, unit: number): Instances | null {
  const { drawn, segments } = tile;
  if (!drawn || drawn.count < 64) return drawn;
  const extent = segments.start[segments.count - 1]! - segments.start[0]!;
  if (drawn.count < (DENSE * tile.rows * extent) / unit) return drawn;
  const width = 2 ** Math.ceil(Math.log2(unit));
  let found = tile.merged.get(width);
  if (found) return found;
  found = merged(drawn, tile.rows, width);
  if (tile.merged.size >= MOST_KEPT) tile.merged.delete(tile.merged.keys().next().value as number);
  tile.merged.set(width, found);
  return found;
}

/** The bucket of a row that is being filled. */
class Bucket {
  number = -1;
  private readonly times = new Float64Array(STACK.length);
  private op = NO_OP;
  private longest = 0;

  constructor(
    private readonly writer: Writer,
    private readonly row: number,
    private readonly width: number,
  ) {}

  add(number: number, length: number, heights: ArrayLike<number>, op: number): void {
    if (number !== this.number) this.flush(number);
    for (let each = 0; each < STACK.length; each++) this.times[each]! += heights[each]! * length;
    if (length <= this.longest) return;
    this.longest = length;
    this.op = op;
  }

  flush(next: number): void {
    if (this.longest > 0) {
      for (let each = 0; each < STACK.length; each++)
        this.times[each] = Math.min(this.times[each]! / this.width, 1);
      this.writer.add(
        this.number * this.width,
        (this.number + 1) * this.width,
        this.times,
        this.row,
        this.op,
      );
    }
    this.times.fill(0);
    this.longest = 0;
    this.number = next;
  }
}

function merged(drawn: Instances, rows: number, width: number): Instances {
  const writer = new Writer(1024);
  const buckets = Array.from({ length: rows }, (_, row) => new Bucket(writer, row, width));
  const floats = new Float32Array(drawn.buffer);
  const shorts = new Uint16Array(drawn.buffer);
  const words = new Uint32Array(drawn.buffer);
  const heights = new Float64Array(STACK.length);
  for (let at = 0; at < drawn.count; at++) {
    const start = floats[at * 8]! + floats[at * 8 + 1]!;
    const end = floats[at * 8 + 2]! + floats[at * 8 + 3]!;
    const short = at * (STRIDE / 2) + 8;
    for (let each = 0; each < STACK.length; each++) heights[each] = shorts[short + each]! / 65535;
    const row = shorts[short + 5]! - drawn.base;
    const op = words[at * 8 + 7]!;
    const bucket = buckets[row] as Bucket;
    const [first, last] = [Math.floor(start / width), Math.floor(end / width)];
    const [head, tail] = [Math.min((first + 1) * width, end), Math.max(last * width, start)];
    bucket.add(first, head - start, heights, op);
    if (last > first + 1) {
      bucket.flush(last);
      writer.add(head, tail, heights, row, op);
    }
    if (last > first && end > tail) bucket.add(last, end - tail, heights, op);
  }
  for (const bucket of buckets) bucket.flush(-1);
  return writer.done();
}
