/** A range of time that a user marks: how long it is, and what each device does in it. */

import { fill, h } from "../dom";
import type { Class } from "../page";
import { badge } from "../pieces";
import { length } from "./axis";
import { classTable } from "./details";
import { bestLevel } from "./cover";
import type { Scene } from "./scene";
import type { Side } from "./sides";
import type { Tile } from "./tile";

const MOST_SHOWN = 8;
/** Buckets of a range, at least: at its ends they are counted in part. */
const FINE = 4000;

interface Sum {
  title: string;
  devices: number;
  times: Partial<Record<Class, number>>;
  exact: boolean;
  /** Of its side: the fold, or the only device. */
  isFirst: boolean;
}

/** Fills the panel with the time of each class in the range, for the fold or the first devices. */
export async function showRange(panel: HTMLElement, scene: Scene, close: () => void): Promise<void> {
  const range = scene.range;
  if (!range) return;
  const whole = range[1] - range[0];
  const sums = await Promise.all(
    scene.sides.flatMap((side) =>
      tracksOf(side).map((track, at) => sum(scene, side, track, range, at === 0)),
    ),
  );
  if (scene.range !== range) return;
  panel.hidden = false;
  const button = h(
    "button",
    { type: "button", class: "quiet tl-close", "aria-label": "Close the range", onclick: close },
    "×",
  );
  const parts = sums.map(({ title, devices, times, exact }) =>
    h(
      "section",
      {},
      h("h3", {}, title, exact ? "" : " (counted by buckets)"),
      classTable(times, whole * devices, devices),
    ),
  );
  const few = parts.filter((_, at) => sums[at]?.isFirst);
  const others =
    parts.length > few.length &&
    h("details", {}, h("summary", {}, "Each device"), ...parts.filter((_, at) => !sums[at]?.isFirst));
  const basis = scene.sides[0]?.page.basis ?? "measured";
  fill(
    panel,
    button,
    h("h2", {}, `Range of ${length(whole)}`),
    h("p", { class: "tl-kind" }, badge(basis)),
    ...few,
    others,
  );
}

function tracksOf(side: Side): number[] {
  const all = side.page.tracks.map((_, number) => number);
  const folds = all.filter((number) => side.page.tracks[number]?.kind === "fold");
  const summaries = all.filter((number) => side.page.tracks[number]?.kind === "summary");
  return [...folds, ...summaries].slice(0, MOST_SHOWN);
}

async function sum(
  scene: Scene,
  side: Side,
  number: number,
  range: [number, number],
  isFirst: boolean,
): Promise<Sum> {
  const track = side.page.tracks[number]!;
  const [start, end] = [range[0] + side.offset, range[1] + side.offset];
  const found: Sum = {
    title: titleOf(side, number),
    devices: track.kind === "fold" ? side.page.devices.length : 1,
    times: {},
    exact: true,
    isFirst,
  };
  for (let level = bestLevel(track, (end - start) / FINE); level < track.levels.length; level++) {
    const { start: starts, end: ends, width } = track.levels[level]!;
    const tiles = starts.map((_, tile) => tile).filter((tile) => starts[tile]! < end && ends[tile]! > start);
    const loaded = await Promise.all(
      tiles.map((tile) => scene.tiles.load({ side: side.index, track: number, level, tile })),
    );
    if (loaded.some((tile) => tile === null)) continue;
    found.exact = width === 0 || width * FINE <= (end - start) * 8;
    for (const tile of loaded) add(found, tile as Tile, track.classes, start, end);
    break;
  }
  return found;
}

function add(found: Sum, { segments }: Tile, classes: Class[], start: number, end: number): void {
  const until = segments.from(end);
  for (let at = 0; at < until; at++) {
    const from = segments.start[at]!;
    const dur = segments.dur[at]!;
    const inside = Math.min(from + dur, end) - Math.max(from, start);
    if (inside <= 0) continue;
    for (const name of classes)
      found.times[name] = (found.times[name] ?? 0) + (segments.columns[name]?.[at] ?? 0) * (inside / dur);
  }
}

function titleOf(side: Side, number: number): string {
  const track = side.page.tracks[number];
  const letter = side.letter ? `${side.letter} · ` : "";
  return (
    letter +
    (track?.kind === "fold" ? `mean of ${track.title}` : (side.page.devices[track?.device ?? 0]?.name ?? ""))
  );
}
