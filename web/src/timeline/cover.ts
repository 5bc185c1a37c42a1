/** Which level of a track is drawn where: the coarsest that looks exact, a coarser one where it is missing. */

import type { Level, Track } from "../page";
import type { Tile, TileId } from "./tile";

/** Pixels that a bucket may be wide. */
const FINE = 2;
/** Of a fold: between narrow ones the limits leap up and down. */
const FINE_FOLD = 6;

/** Tiles of one level; what a finer layer covers is left out (`hole`). */
export interface Layer {
  level: number;
  tiles: Tile[];
  hole: [number, number] | null;
}

export interface Cover {
  layers: Layer[];
  /** What should be fetched: of the best level that there is. */
  missing: TileId[];
}

interface Sight {
  side: number;
  track: number;
  /** Own time of the side. */
  start: number;
  end: number;
  /** Picoseconds of a pixel. */
  unit: number;
}

export interface Shelf {
  get(id: TileId): Tile | null;
  exists(id: TileId): boolean;
}

/** The level that would be drawn if all tiles were there. */
export function bestLevel(track: Track, unit: number): number {
  const fine = track.kind === "fold" ? FINE_FOLD : FINE;
  let found = 0;
  track.levels.forEach((level, number) => {
    if (level.width > 0 && level.width <= fine * unit) found = number;
  });
  return found;
}

export function cover(track: Track, sight: Sight, shelf: Shelf): Cover {
  const best = bestLevel(track, sight.unit);
  const layers: Layer[] = [];
  const missing: TileId[] = [];
  let hole: [number, number] | null = null;
  for (const level of order(track, best, sight, shelf)) {
    const { run, absent, whole } = tilesOf(track.levels[level] as Level, level, sight, shelf);
    // What is coarser comes no earlier than what is wanted: only what is here is drawn meanwhile.
    if (missing.length === 0) missing.push(...absent);
    if (run.length === 0) continue;
    layers.push({ level, tiles: run, hole });
    if (whole) return { layers, missing };
    hole = hull(hole, span(track.levels[level] as Level, run));
  }
  // Nothing as coarse or coarser is here: a finer level may be, from before.
  for (let level = best - 1; level >= 0 && layers.length === 0; level--) {
    const { run } = tilesOf(track.levels[level] as Level, level, sight, shelf);
    if (run.length > 0) layers.push({ level, tiles: run, hole: null });
  }
  return { layers, missing };
}

/**
 * The levels in the order in which they are wanted. A file may lack the best one but have the spans
 * of a step, which come before coarser levels.
 */
function order(track: Track, best: number, sight: Sight, shelf: Shelf): number[] {
  const numbers = track.levels.map((_, number) => number);
  const coarser = numbers.slice(best + 1);
  const level = track.levels[best];
  const lacks = level?.start.some(
    (start, tile) =>
      start < sight.end &&
      (level.end[tile] as number) > sight.start &&
      !shelf.exists({ side: sight.side, track: sight.track, level: best, tile }),
  );
  return [best, ...(lacks ? numbers.slice(0, best).reverse() : []), ...coarser];
}

/** The longest run of tiles on screen that are here, and those that could be fetched. */
function tilesOf(
  level: Level,
  number: number,
  sight: Sight,
  shelf: Shelf,
): { run: Tile[]; absent: TileId[]; whole: boolean } {
  const absent: TileId[] = [];
  let run: Tile[] = [];
  let longest: Tile[] = [];
  let all = 0;
  for (let tile = 0; tile < level.start.length; tile++) {
    if ((level.start[tile] as number) >= sight.end || (level.end[tile] as number) <= sight.start) continue;
    all++;
    const id = { side: sight.side, track: sight.track, level: number, tile };
    const here = shelf.get(id);
    if (here?.drawn) run.push(here);
    else {
      if (shelf.exists(id)) absent.push(id);
      run = [];
    }
    if (run.length > longest.length) longest = run;
  }
  return { run: longest, absent, whole: longest.length === all };
}

function span(level: Level, run: Tile[]): [number, number] {
  const first = run[0]?.id.tile ?? 0;
  const last = run[run.length - 1]?.id.tile ?? 0;
  return [level.start[first] ?? 0, level.start[last + 1] ?? level.end[last] ?? 0];
}

function hull(one: [number, number] | null, other: [number, number]): [number, number] {
  return one ? [Math.min(one[0], other[0]), Math.max(one[1], other[1])] : other;
}
