/** Search by name, scope, source line or category: which ops match, and where they run. */

import type { OpTable } from "../page";
import { MATCH } from "./painter";
import type { Scene } from "./scene";
import type { Side } from "./sides";
import { isOfHost, laneOf } from "./tracks";
import { type Spot, spotOf } from "./spots";
import { MOST_TILES } from "./walk";

/** Tiles that are looked through together. */
const AT_ONCE = 32;

const FIELDS = ["name", "op", "listed", "scope", "source", "category", "collective"] as const;

interface Hit {
  side: Side;
  track: number;
  tile: number;
  at: number;
  /** Common time. */
  start: number;
}

export class Search {
  text = "";
  /** Ops that match. */
  ops = 0;
  /** Place of the one shown, from 1; 0: none is. */
  place = 0;
  /** False: only spans near the window were looked through, or some aren't in this file. */
  whole = true;
  private hits: Hit[] = [];
  private run = 0;
  private collecting: Promise<void> | null = null;

  constructor(
    private readonly scene: () => Scene,
    private readonly told: () => void,
  ) {}

  get count(): number {
    return this.hits.length;
  }

  /** Looks for a text; "" ends the search. */
  async look(text: string): Promise<void> {
    const scene = this.scene();
    const run = ++this.run;
    this.text = text.trim();
    this.hits = [];
    this.place = 0;
    this.whole = true;
    this.ops = this.mark(scene);
    scene.changed();
    this.told();
    this.collecting = this.ops > 0 ? this.collect(scene, run) : null;
    await this.collecting;
  }

  /** The next (1) or previous (-1) span that matches. */
  async go(by: 1 | -1): Promise<Spot | null> {
    if (this.collecting) await this.collecting;
    if (this.hits.length === 0) return null;
    const scene = this.scene();
    const { length } = this.hits;
    if (this.place === 0)
      this.place = this.hits.findIndex((hit) => hit.start >= scene.viewport.start) + (by > 0 ? 1 : 0) || 1;
    else this.place = ((this.place - 1 + by + length) % length) + 1;
    this.told();
    const hit = this.hits[this.place - 1] as Hit;
    const tile = await scene.tiles.load({ side: hit.side.index, track: hit.track, level: 0, tile: hit.tile });
    return tile && spotOf(hit.side, tile, hit.at);
  }

  /** Marks the ops that match, for all sides. */
  private mark(scene: Scene): number {
    const size = scene.sides.reduce((sum, side) => sum + (side.ops?.name.length ?? 0), 0);
    const marks = new Uint8Array(size);
    marks.set(scene.marks.of.subarray(0, size));
    const words = this.text.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const side of scene.sides) {
      const rows = side.ops?.name.length ?? 0;
      for (let row = 0; row < rows; row++) {
        const matches = words.length > 0 && isMatch(side.ops as OpTable, row, words);
        if (matches) found++;
        marks[side.opBase + row] = matches
          ? marks[side.opBase + row]! | MATCH
          : marks[side.opBase + row]! & ~MATCH;
      }
    }
    scene.marks = { ...scene.marks, of: marks, dims: words.length > 0 };
    return found;
  }

  private async collect(scene: Scene, run: number): Promise<void> {
    const found: Hit[] = [];
    const places = this.places(scene);
    for (let first = 0; first < places.length; first += AT_ONCE) {
      const some = places.slice(first, first + AT_ONCE);
      const tiles = await Promise.all(
        some.map(({ side, track, tile, looked }) =>
          looked < MOST_TILES ? scene.tiles.load({ side: side.index, track, level: 0, tile }) : null,
        ),
      );
      if (run !== this.run) return;
      tiles.forEach((loaded, number) => {
        if (!loaded) {
          this.whole = false;
          return;
        }
        const { side, track, tile } = some[number]!;
        const { op, start } = loaded.segments;
        for (let at = 0; at < start.length; at++) {
          if (scene.marks.of[(op?.[at] ?? 0) + side.opBase]! & MATCH)
            found.push({ side, track, tile, at, start: start[at]! - side.offset });
        }
      });
    }
    // What hosts do counts where it is shown, or where nothing else matches.
    const shown = found.filter(
      (hit) =>
        !isOfHost(hit.side.page.tracks[hit.track]) || laneOf(scene.rows, hit.side.index, hit.track),
    );
    this.hits = (shown.length > 0 ? shown : found).sort((one, other) => one.start - other.start);
    this.told();
  }

  /** Tiles with spans, those near the window first. */
  private places(scene: Scene): { side: Side; track: number; tile: number; looked: number }[] {
    const middle = (scene.viewport.start + scene.viewport.end) / 2;
    const found: { side: Side; track: number; tile: number; far: number }[] = [];
    for (const side of scene.sides) {
      side.page.tracks.forEach((track, number) => {
        const level = track.levels[0];
        if (!level || track.kind === "summary" || track.kind === "fold") return;
        level.start.forEach((start, tile) => {
          const far = Math.max(
            start - side.offset - middle,
            middle - (level.end[tile] ?? start) + side.offset,
            0,
          );
          found.push({ side, track: number, tile, far });
        });
      });
    }
    return found.sort((one, other) => one.far - other.far).map((place, looked) => ({ ...place, looked }));
  }
}

function isMatch(ops: OpTable, row: number, words: string[]): boolean {
  return words.every((word) => FIELDS.some((field) => ops[field][row]?.toLowerCase().includes(word)));
}
