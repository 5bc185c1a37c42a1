/** A segment that a user points at or selects. */

import type { Class } from "../page";
import type { Cover } from "./cover";
import { STACK } from "./instances";
import type { Side } from "./sides";
import type { Tile } from "./tile";
import { opOf } from "./tiles";
import type { Lane } from "./tracks";

export interface Spot {
  side: Side;
  track: number;
  level: number;
  row: number;
  /** Own time of the side. */
  start: number;
  dur: number;
  op: number | null;
  /** Of a collective, where known. */
  exposed: number | null;
  /** Of an interval or a bucket: time of each class. A span is of one class and has none. */
  times: Partial<Record<Class, number>> | null;
  /** Spans that start in a bucket. */
  count: number | null;
  /** Of a fold: the least, the median and the most time that a device computes. */
  busy: [number, number, number] | null;
  /** Of idle time, in which nothing is drawn: the finding that it shows. */
  finding: string | null;
}

/** Idle time of a device, the place of a finding. */
export function gapSpot(side: Side, track: number, start: number, dur: number, finding: string): Spot {
  const empty = { op: null, exposed: null, times: {}, count: null, busy: null };
  return { side, track, level: 0, row: 0, start, dur, ...empty, finding };
}

export function spotOf(side: Side, tile: Tile, at: number): Spot {
  const { columns, start, dur, row } = tile.segments;
  const track = side.page.tracks[tile.id.track];
  const isSpan = tile.id.level === 0 && track?.kind !== "summary" && track?.kind !== "fold";
  const value = (name: string) => columns[name]?.[at] ?? 0;
  const classes: Class[] = [...STACK, "host"];
  return {
    side,
    track: tile.id.track,
    level: tile.id.level,
    row: row[at] ?? 0,
    start: start[at] ?? 0,
    dur: dur[at] ?? 0,
    op: opOf(tile, at),
    exposed: isSpan && columns.exposed ? value("exposed") : null,
    times: isSpan
      ? null
      : Object.fromEntries(classes.filter((name) => columns[name]).map((name) => [name, value(name)])),
    count: isSpan || !columns.count ? null : value("count"),
    busy: columns.busy_min ? [value("busy_min"), value("busy_median"), value("busy_max")] : null,
    finding: null,
  };
}

export function isSame(one: Spot | null, other: Spot | null): boolean {
  if (!one || !other) return one === other;
  return (
    one.side === other.side &&
    one.track === other.track &&
    one.row === other.row &&
    one.start === other.start &&
    one.level === other.level
  );
}

/** Whether this is a span of an op, not a sum. */
export function isSpan(spot: Spot): boolean {
  return spot.times === null;
}

/** What is drawn of a lane, to find what lies at a place. */
export interface Drawn {
  lane: Lane;
  cover: Cover;
}

/** The segment of a lane at a moment (own time); `reach`: picoseconds that still count as a hit. */
export function spotAt({ lane, cover }: Drawn, y: number, time: number, reach: number): Spot | null {
  const row = Math.floor((y - lane.y) / lane.pitch);
  for (const layer of cover.layers) {
    if (layer.hole && time >= layer.hole[0] && time < layer.hole[1]) continue;
    for (const tile of layer.tiles) {
      if (row < 0 || row >= tile.rows) continue;
      const exact = tile.segments.at(row, time);
      const at = exact >= 0 ? exact : near(tile, row, time, reach);
      if (at >= 0) return spotOf(lane.side, tile, at);
    }
  }
  return null;
}

function near(tile: Tile, row: number, time: number, reach: number): number {
  const { segments } = tile;
  const last = segments.before(row, time + reach);
  return last >= 0 && segments.start[last]! + segments.dur[last]! >= time - reach ? last : -1;
}
