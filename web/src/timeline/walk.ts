/** Ways from one span to another: its neighbours, other occurrences of its op, the other end of its pair. */

import type { Level } from "../page";
import type { Scene } from "./scene";
import type { Side } from "./sides";
import { type Spot, spotOf } from "./spots";
import type { Tile } from "./tile";

/** Tiles that are looked through at most for one answer. */
export const MOST_TILES = 384;

/** The span of a track at a moment (own time) or else the nearest; `row`, `op`: only of these. */
export async function nearest(
  scene: Scene,
  side: Side,
  track: number,
  time: number,
  row: number | null = null,
  op: number | null = null,
): Promise<Spot | null> {
  const tiles = await around(scene, side, track, time);
  let best: Spot | null = null;
  let least = Infinity;
  for (const tile of tiles) {
    for (let each = row ?? 0; each <= (row ?? tile.rows - 1); each++) {
      const at = tile.segments.before(each, time);
      const ofRow = tile.segments.ofRow(each);
      const next = at < 0 ? ofRow[0] : ofRow[ofRow.indexOf(at) + 1];
      for (const candidate of [at, next]) {
        if (candidate === undefined || candidate < 0) continue;
        const spot = spotOf(side, tile, candidate);
        if (op !== null && spot.op !== op) continue;
        const far = Math.max(spot.start - time, time - spot.start - spot.dur, 0);
        if (far < least) [best, least] = [spot, far];
      }
    }
  }
  return best;
}

/** The span before (-1) or after (1) in the same row. */
export async function neighbour(scene: Scene, spot: Spot, by: 1 | -1): Promise<Spot | null> {
  return find(scene, spot, by, (tile, at) => tile.segments.row[at] === spot.row);
}

/** The same op before or after, in the same track. */
export async function occurrence(scene: Scene, spot: Spot, by: 1 | -1): Promise<Spot | null> {
  return find(scene, spot, by, (tile, at) => tile.segments.op?.[at] === spot.op);
}

async function find(
  scene: Scene,
  spot: Spot,
  by: 1 | -1,
  wanted: (tile: Tile, at: number) => boolean,
): Promise<Spot | null> {
  const level = spot.side.page.tracks[spot.track]?.levels[0];
  if (!level) return null;
  const first = tileAt(level, spot.start);
  for (
    let tile = first, looked = 0;
    tile >= 0 && tile < level.start.length && looked < MOST_TILES;
    tile += by, looked++
  ) {
    const found = await scene.tiles.load({ side: spot.side.index, track: spot.track, level: 0, tile });
    if (!found) return null;
    const { start, count } = found.segments;
    for (let at = by > 0 ? found.segments.from(spot.start) : count - 1; at >= 0 && at < count; at += by) {
      const beyond = by > 0 ? start[at]! > spot.start : start[at]! < spot.start;
      if (beyond && wanted(found, at)) return spotOf(spot.side, found, at);
    }
  }
  return null;
}

/** The tile that a moment falls in: the last that starts before. */
function tileAt(level: Level, time: number): number {
  let found = 0;
  for (let tile = 1; tile < level.start.length && level.start[tile]! <= time; tile++) found = tile;
  return found;
}

/** Tiles of the finest level around a moment: the one it falls in, and that after. */
async function around(scene: Scene, side: Side, track: number, time: number): Promise<Tile[]> {
  const level = side.page.tracks[track]?.levels[0];
  if (!level || level.width > 0) return [];
  const at = tileAt(level, time);
  const ids = [at, at + 1, at - 1].map((tile) => ({ side: side.index, track, level: 0, tile }));
  const found = await Promise.all(ids.map((id) => scene.tiles.load(id)));
  return found.filter((tile) => tile !== null);
}

export interface Occurrences {
  count: number;
  /** Place of the selected one, from 1. */
  place: number;
  total: number;
  longest: number;
  /** False: only part of the track was looked through. */
  whole: boolean;
}

/** How often an op runs in its track. */
export async function occurrences(scene: Scene, spot: Spot): Promise<Occurrences> {
  const level = spot.side.page.tracks[spot.track]?.levels[0];
  const known: Occurrences = { count: 0, place: 0, total: 0, longest: 0, whole: true };
  const tiles = level?.start.length ?? 0;
  for (const tile of nearestFirst(tiles, level ? tileAt(level, spot.start) : 0)) {
    const found = known.whole
      ? await scene.tiles.load({ side: spot.side.index, track: spot.track, level: 0, tile: tile.number })
      : null;
    known.whole = known.whole && tile.looked < MOST_TILES;
    if (!found) {
      known.whole = false;
      continue;
    }
    const { start, dur, op } = found.segments;
    for (let at = 0; at < start.length; at++) {
      if (op?.[at] !== spot.op) continue;
      known.count++;
      known.total += dur[at]!;
      known.longest = Math.max(known.longest, dur[at]!);
      if (start[at]! <= spot.start) known.place++;
    }
  }
  return known;
}

function nearestFirst(count: number, from: number): { number: number; looked: number }[] {
  const order = Array.from({ length: count }, (_, number) => number);
  order.sort((one, other) => Math.abs(one - from) - Math.abs(other - from));
  return order.map((number, looked) => ({ number, looked }));
}

/** The start of an asynchronous operation whose end this is, or the end whose start it is. */
export async function partnerOf(scene: Scene, spot: Spot): Promise<Spot | null> {
  const pair = spot.side.ops?.pair;
  if (!pair || spot.op === null) return null;
  const before = pair[spot.op];
  if (before !== null && before !== undefined && before !== spot.op) return closest(scene, spot, before, -1);
  const after = pair.indexOf(spot.op);
  return after >= 0 && after !== spot.op ? closest(scene, spot, after, 1) : null;
}

/** The nearest span of another op on the same device, before or after. */
async function closest(scene: Scene, spot: Spot, op: number, by: 1 | -1): Promise<Spot | null> {
  const { tracks } = spot.side.page;
  const device = tracks[spot.track]?.device;
  let best: Spot | null = null;
  for (const [number, track] of tracks.entries()) {
    if (track.device !== device || track.kind === "summary" || track.kind === "fold") continue;
    const found = await find(
      scene,
      { ...spot, track: number },
      by,
      (tile, at) => tile.segments.op?.[at] === op,
    );
    if (found && (!best || Math.abs(found.start - spot.start) < Math.abs(best.start - spot.start)))
      best = found;
  }
  return best;
}
