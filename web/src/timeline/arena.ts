/** One buffer of instances on the GPU: a tile is uploaded when it first comes on screen, then stays. */

import { STRIDE } from "./instances";
import type { Tile } from "./tile";

const SMALLEST = 1 << 16;
const MOST_LANES = 1 << 16;
/** Instances off screen that are kept, beside as many as are on it. */
const SPARE = 1 << 16;

interface Slot {
  first: number;
  lane: number;
}

export class Arena {
  readonly buffer: WebGLBuffer;
  /** Instances and lanes in use. */
  count = 0;
  lanes = 0;
  private capacity = 0;
  private readonly slots = new Map<Tile, Slot>();

  constructor(private readonly gl: WebGL2RenderingContext) {
    this.buffer = gl.createBuffer() as WebGLBuffer;
  }

  /** Uploads what is not there; tiles that are not named may go. */
  hold(tiles: Tile[]): void {
    const missing = tiles.filter((tile) => tile.drawn && !this.slots.has(tile));
    const added = missing.reduce((sum, tile) => sum + (tile.drawn?.count ?? 0), 0);
    const lanes = missing.reduce((sum, tile) => sum + tile.rows, 0);
    const used = tiles.reduce((sum, tile) => sum + (tile.drawn?.count ?? 0), 0);
    const full = this.count + added > this.capacity || this.lanes + lanes > MOST_LANES;
    const stale = missing.length > 0 && this.count + added > 2 * used + SPARE;
    if (full || stale) this.renew(tiles, used);
    else for (const tile of missing) this.put(tile);
  }

  laneOf(tile: Tile): number {
    return this.slots.get(tile)?.lane ?? 0;
  }

  /** Lanes of every tile, to say which are drawn. */
  residents(): IterableIterator<[Tile, Slot]> {
    return this.slots.entries();
  }

  private renew(tiles: Tile[], used: number): void {
    this.slots.clear();
    this.count = this.lanes = 0;
    this.capacity = Math.max(SMALLEST, Math.ceil(used * 1.5));
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.buffer);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, this.capacity * STRIDE, this.gl.DYNAMIC_DRAW);
    for (const tile of tiles) this.put(tile);
  }

  private put(tile: Tile): void {
    const drawn = tile.drawn;
    if (!drawn || this.slots.has(tile)) return;
    const by = this.lanes - drawn.base;
    const shorts = new Uint16Array(drawn.buffer);
    if (by !== 0) for (let at = 13; at < shorts.length; at += STRIDE / 2) shorts[at]! += by;
    drawn.base = this.lanes;
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.buffer);
    this.gl.bufferSubData(this.gl.ARRAY_BUFFER, this.count * STRIDE, new Uint8Array(drawn.buffer));
    this.slots.set(tile, { first: this.count, lane: this.lanes });
    this.count += drawn.count;
    this.lanes += tile.rows;
  }
}
