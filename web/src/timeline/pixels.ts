/**
 * Rectangles drawn by the CPU, where there is no GPU: without one, WebGL2 takes some 5 µs for each
 * rectangle, and a page of several layers is slow to put together.
 *
 * The picture is that of the shaders. What covers a pixel whole is written at once. Of a column of
 * pixels that is covered in part, the time of each kind is summed up first: so areas stay true where
 * hundreds of rectangles meet in one column, and each pixel is written once.
 */

import { BAND, FOLDED, LINE } from "./folds";
import { inWindow, STACK, STRIDE } from "./instances";
import {
  DIM,
  FAINTEST,
  FASTER,
  type Frame,
  HATCH,
  HATCHED,
  MATCH,
  NEW,
  type Painter,
  type Placement,
  SLOWER,
} from "./painter";
import { NO_OP } from "./sides";
import * as tone from "./tones";

/** Of a column: how much of it is covered, how much by each kind, and the sum of shades. */
const KIND = 1;
const SHADE = KIND + tone.KINDS;
const SUMS = SHADE + 1;
/** Until so many pixels, a loop is faster than `fill`. */
const NARROW = 12;

export class Pixels implements Painter {
  readonly how = "Canvas 2D";
  readonly merges = false;
  rectangles = 0;
  private image: ImageData | null = null;
  private pixels = new Uint32Array(0);
  private width = 0;
  private height = 0;
  private tones: tone.Tones | null = null;
  /** Whether a pixel is in a stripe, by the sum of its coordinates. */
  private striped = new Uint8Array(0);

  /** Of the lane that is drawn: where its rows are, and their sums between two columns. */
  private lane: Placement | null = null;
  private tops: number[] = [];
  private bottoms: number[] = [];
  private sums = new Float32Array(0);
  private from: number[] = [];
  private to: number[] = [];
  /** Columns that something else covers. */
  private hole: [number, number] = [0, 0];

  /** Of the rectangle that is drawn: kinds, until which height each reaches, and how it looks. */
  private row = 0;
  private parts = 0;
  private readonly kinds = new Uint8Array(STACK.length);
  private readonly ends = new Float32Array(STACK.length);
  private readonly stripes = new Uint8Array(STACK.length);
  private shade = 0;
  private strength = 1;
  private faintest = 0;

  paint(frame: Frame, context: CanvasRenderingContext2D): void {
    const image = this.sized(frame);
    if (this.tones?.palette !== frame.palette) this.tones = new tone.Tones(frame.palette);
    this.hatch(frame);
    this.pixels.fill(this.tones.background);
    this.rectangles = 0;
    for (const placement of frame.placements) {
      if (placement.y !== this.lane?.y) this.begin(frame, placement);
      this.tile(frame, placement);
    }
    this.finish();
    for (const fold of frame.folds) this.fold(fold, frame.ratio);
    context.putImageData(image, 0, 0);
  }

  dispose(): void {
    this.image = null;
  }

  private sized({ width, height, ratio }: Frame): ImageData {
    this.width = Math.max(1, Math.round(width * ratio));
    this.height = Math.max(1, Math.round(height * ratio));
    if (this.image?.width === this.width && this.image.height === this.height) return this.image;
    this.image = new ImageData(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.striped = new Uint8Array(this.width + this.height);
    return this.image;
  }

  /** The hatching moves with the time it lies on. */
  private hatch({ start, unit, ratio }: Frame): void {
    const period = HATCH * ratio;
    const first = (((start / unit) * ratio) % period) + period + 1;
    for (let at = 0; at < this.striped.length; at++)
      this.striped[at] = (at + first) % period < HATCHED * ratio ? 1 : 0;
  }

  private begin({ ratio, scroll }: Frame, lane: Placement): void {
    this.finish();
    this.lane = lane;
    const { rows } = lane;
    const tops = Array.from({ length: rows }, (_, row) => (lane.y + row * lane.pitch - scroll) * ratio);
    this.tops = tops.map((top) => Math.floor(top + 0.5));
    this.bottoms = tops.map((top) =>
      Math.max(Math.floor(top + lane.height * ratio + 0.5), Math.floor(top + 0.5) + 1),
    );
    const needed = rows * this.width * SUMS;
    if (this.sums.length < needed) this.sums = new Float32Array(needed);
    this.from = tops.map(() => this.width);
    this.to = tops.map(() => 0);
  }

  private tile(frame: Frame, placement: Placement): void {
    const { drawn, isSpans, isSparse } = placement;
    const { start, ratio, marks } = frame;
    const scale = ratio / frame.unit;
    const floats = new Float32Array(drawn.buffer);
    const shorts = new Uint16Array(drawn.buffer);
    const words = new Uint32Array(drawn.buffer);
    const hole = placement.hole ?? [start, start];
    this.hole = [(hole[0] - start) * scale, (hole[1] - start) * scale];
    this.faintest = isSparse ? FAINTEST : 0;
    const last = placement.isHost ? tone.HOST : tone.CONTROL;
    const [first, count] = inWindow(drawn, start, start + frame.width * frame.unit);
    for (let at = first; at < first + count; at++) {
      const x = (floats[at * 8]! - start + floats[at * 8 + 1]!) * scale;
      let end = (floats[at * 8 + 2]! - start + floats[at * 8 + 3]!) * scale;
      if (end <= 0 || x >= this.width) continue;
      if (isSpans && end - x > 5 * ratio) end -= ratio;
      const short = at * (STRIDE / 2) + 8;
      const op = words[at * 8 + 7]!;
      const mark = op === NO_OP ? 0 : (marks.of[op] ?? 0);
      this.row = shorts[short + 5]! - drawn.base;
      this.strength = marks.dims && !(mark & MATCH) ? DIM : 1;
      this.shade = op === NO_OP || !isSpans ? tone.PLAIN : Math.imul(op, 2654435761) >>> 24;
      this.stack(shorts, short, last, marks.colours ? changed(mark) : -1);
      this.rectangle(Math.max(x, 0), Math.min(end, this.width));
      this.rectangles++;
    }
  }

  /** Reads which kinds a rectangle has; `change`: it has the colour of a change instead; -1: none. */
  private stack(shorts: Uint16Array, at: number, last: number, change: number): void {
    let from = 0;
    this.parts = 0;
    for (let each = 0; each < STACK.length; each++) {
      const to = shorts[at + each]!;
      if (to <= from) continue;
      this.kinds[this.parts] = change >= 0 ? change : each === STACK.length - 1 ? last : each;
      this.stripes[this.parts] = each === tone.EXPOSED ? 1 : 0;
      this.ends[this.parts++] = to / 65535;
      from = to;
    }
  }

  private rectangle(x: number, end: number): void {
    const [first, last] = [Math.ceil(x), Math.floor(end)];
    if (first > last) return this.part(last, end - x);
    if (first > x) this.part(first - 1, first - x);
    if (end > last) this.part(last, end - last);
    if (last <= first) return;
    const [from, to] = this.hole;
    if (to <= from) return this.whole(first, last);
    this.whole(first, Math.min(last, Math.ceil(from - 0.5)));
    this.whole(Math.max(first, Math.ceil(to - 0.5)), last);
  }

  /** Adds what covers a part of a column. */
  private part(column: number, share: number): void {
    if (column + 0.5 > this.hole[0] && column + 0.5 < this.hole[1]) return;
    if (column < 0 || column >= this.width) return;
    const { sums, row } = this;
    const covered = Math.max(share, this.faintest) * this.strength;
    const at = (row * this.width + column) * SUMS;
    sums[at]! += covered;
    sums[at + SHADE]! += covered * this.shade;
    let from = 0;
    for (let each = 0; each < this.parts; each++) {
      sums[at + KIND + this.kinds[each]!]! += covered * (this.ends[each]! - from);
      from = this.ends[each]!;
    }
    if (column < this.from[row]!) this.from[row] = column;
    if (column >= this.to[row]!) this.to[row] = column + 1;
  }

  /** Writes the columns that a rectangle covers whole. */
  private whole(first: number, last: number): void {
    if (first >= last) return;
    const { whole, stripes, dim, dimStripes } = this.tones as tone.Tones;
    const isDim = this.strength < 1;
    const [top, bottom] = [this.tops[this.row]!, this.bottoms[this.row]!];
    let low = bottom;
    for (let each = 0; each < this.parts; each++) {
      const high = Math.round(bottom - this.ends[each]! * (bottom - top));
      const of = this.kinds[each]! * tone.SHADES + this.shade;
      const colour = (isDim ? dim : whole)[of]!;
      const stripe = this.stripes[each] ? (isDim ? dimStripes : stripes)[of]! : colour;
      this.fill(first, last, high, low, colour, stripe);
      low = high;
    }
  }

  private fill(first: number, last: number, top: number, bottom: number, colour: number, stripe: number): void {
    const { pixels, striped, width } = this;
    const end = Math.min(bottom, this.height);
    for (let y = Math.max(top, 0); y < end; y++) {
      const [from, to] = [y * width + first, y * width + last];
      if (colour !== stripe)
        for (let at = from; at < to; at++) pixels[at] = striped[at - y * width + y] ? stripe : colour;
      else if (last - first > NARROW) pixels.fill(colour, from, to);
      else for (let at = from; at < to; at++) pixels[at] = colour;
    }
  }

  /** Writes the columns of a lane that are covered in part. */
  private finish(): void {
    for (let row = 0; this.lane && row < this.lane.rows; row++) {
      const [from, to] = [this.from[row]!, this.to[row]!];
      for (let column = from; column < to; column++) this.column(row, column);
      if (to > from)
        this.sums.fill(0, (row * this.width + from) * SUMS, (row * this.width + to) * SUMS);
    }
    this.lane = null;
  }

  private column(row: number, column: number): void {
    const { sums } = this;
    const at = (row * this.width + column) * SUMS;
    const covered = sums[at]!;
    if (covered <= 0) return;
    const tones = this.tones as tone.Tones;
    const shade = sums[at + SHADE]! / covered;
    const opacity = Math.min(covered, 1);
    const [top, bottom] = [this.tops[row]!, this.bottoms[row]!];
    let low = bottom;
    let reached = 0;
    for (let kind = 0; kind < tone.KINDS; kind++) {
      const area = sums[at + KIND + kind]!;
      if (area <= 0) continue;
      reached = Math.min(reached + area / covered, 1);
      const high = Math.round(bottom - reached * (bottom - top));
      const colour = tones.mixed(kind, shade, opacity, false);
      const stripe = kind === tone.EXPOSED ? tones.mixed(kind, shade, opacity, true) : colour;
      this.fill(column, column + 1, high, low, colour, stripe);
      low = high;
    }
  }

  private fold(fold: number[], ratio: number): void {
    for (let at = 0; at < fold.length; at += FOLDED) {
      const first = Math.max(fold[at]! * ratio, 0);
      const last = Math.min(fold[at + 1]! * ratio, this.width);
      const [most, least] = [Math.round(fold[at + 2]! * ratio), Math.round(fold[at + 4]! * ratio)];
      const thick = Math.max(Math.round(ratio), 1);
      const median = Math.round(fold[at + 3]! * ratio - thick / 2);
      for (let column = Math.floor(first); column < last; column++) {
        const share = Math.min(column + 1, last) - Math.max(column, first);
        this.blend(column, most, least, share * BAND);
        this.blend(column, median, median + thick, share * LINE);
      }
    }
  }

  /** Lays the colour of text over a piece of a column. */
  private blend(column: number, top: number, bottom: number, opacity: number): void {
    const { pixels, width } = this;
    const by = Math.round(opacity * 256);
    const { text } = this.tones as tone.Tones;
    const end = Math.min(bottom, this.height);
    for (let y = Math.max(top, 0); y < end; y++) {
      const at = y * width + column;
      const old = pixels[at]!;
      const pair = (((old & 0xff00ff) * (256 - by) + (text & 0xff00ff) * by) >>> 8) & 0xff00ff;
      const green = (((old & 0x00ff00) * (256 - by) + (text & 0x00ff00) * by) >>> 8) & 0x00ff00;
      pixels[at] = (0xff000000 | pair | green) >>> 0;
    }
  }
}

/** The kind whose colour an op has where colours say what changed. */
function changed(mark: number): number {
  return mark & SLOWER ? tone.SLOWER : mark & FASTER ? tone.FASTER : mark & NEW ? tone.NEW : tone.CONTROL;
}
