/**
 * One texture with the instances of tiles: they are uploaded when they first come on screen, then
 * stay. The vertex shader reads it, four times for each rectangle: software that draws without a
 * GPU treats every instance of an instanced call as a call of its own, 25 µs each.
 */

import { ACROSS, type Instances, STRIDE } from "./instances";
import type { Placement } from "./painter";

const TEXELS = ACROSS * 2;
const SMALLEST = 64;
const MOST_LANES = 1 << 16;
/** Rows off screen that are kept, beside as many as are on it. */
const SPARE = 128;

/** The first lane, and the first rectangle, of instances. */
interface Slot {
  lane: number;
  first: number;
}

export class Arena {
  readonly texture: WebGLTexture;
  /** Rows and lanes in use. */
  rows = 0;
  lanes = 0;
  private capacity = 0;
  private readonly slots = new Map<Instances, Slot>();

  constructor(private readonly gl: WebGL2RenderingContext) {
    this.texture = gl.createTexture() as WebGLTexture;
  }

  /** Instances, with those that only fill a row. */
  get count(): number {
    return this.rows * ACROSS;
  }

  /** Uploads what is not there; others may go. */
  hold(placements: Placement[]): void {
    const missing = placements.filter(({ drawn }) => !this.slots.has(drawn));
    if (missing.length === 0) return;
    const added = total(missing, rowsOf);
    const used = total(placements, rowsOf);
    const full =
      this.rows + added > this.capacity || this.lanes + total(missing, ({ rows }) => rows) > MOST_LANES;
    if (full || this.rows + added > 2 * used + SPARE) this.renew(placements, used);
    else for (const placement of missing) this.put(placement);
  }

  /** Where they are; null: there was no room for them. */
  slotOf(drawn: Instances): Slot | null {
    return this.slots.get(drawn) ?? null;
  }

  private renew(placements: Placement[], used: number): void {
    const { gl } = this;
    this.slots.clear();
    this.rows = this.lanes = 0;
    const most = gl.getParameter(gl.MAX_TEXTURE_SIZE) as number;
    this.capacity = Math.min(Math.max(SMALLEST, 2 * used + SPARE), most);
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    gl.texImage2D(
      gl.TEXTURE_2D,
      0,
      gl.RGBA32UI,
      TEXELS,
      this.capacity,
      0,
      gl.RGBA_INTEGER,
      gl.UNSIGNED_INT,
      null,
    );
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
    for (const placement of placements) this.put(placement);
  }

  private put(placement: Placement): void {
    const { gl } = this;
    const { drawn } = placement;
    const rows = rowsOf(placement);
    if (this.slots.has(drawn) || this.rows + rows > this.capacity) return;
    const by = this.lanes - drawn.base;
    const shorts = new Uint16Array(drawn.buffer);
    if (by !== 0) for (let at = 13; at < drawn.count * (STRIDE / 2); at += STRIDE / 2) shorts[at]! += by;
    drawn.base = this.lanes;
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    gl.texSubImage2D(
      gl.TEXTURE_2D,
      0,
      0,
      this.rows,
      TEXELS,
      rows,
      gl.RGBA_INTEGER,
      gl.UNSIGNED_INT,
      new Uint32Array(drawn.buffer),
    );
    this.slots.set(drawn, { lane: this.lanes, first: this.rows * ACROSS });
    this.rows += rows;
    this.lanes += placement.rows;
  }
}

function rowsOf({ drawn }: Placement): number {
  return drawn.buffer.byteLength / (ACROSS * STRIDE);
}

function total(placements: Placement[], of: (placement: Placement) => number): number {
  return placements.reduce((sum, placement) => sum + of(placement), 0);
}
