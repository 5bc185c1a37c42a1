/** The Timelines on screen: one, or two that are aligned at the start of their typical steps. */

import type { OpTable, Page, TimelinePage } from "../page";
import type { Source } from "../source";

export const NO_OP = 0xffffffff;

export interface Side {
  index: number;
  page: TimelinePage;
  /** Own time less common time: what is drawn is in common time. */
  offset: number;
  ops: OpTable | null;
  /** Where the rows of its OpTable begin among those of all sides. */
  opBase: number;
  /** A or B where there are two. */
  letter: string;
}

export function sidesOf(page: Page): Side[] {
  const timelines = page.timelines.slice(0, 2);
  const anchors = timelines.map(anchor);
  return timelines.map((timeline, index) => ({
    index,
    page: timeline,
    offset: (anchors[index] ?? 0) - (anchors[0] ?? 0),
    ops: null,
    opBase: 0,
    letter: timelines.length > 1 ? (["A", "B"][index] ?? "") : "",
  }));
}

/** Loads the tables of ops; `loaded` is called after each. */
export async function loadOps(sides: Side[], source: Source, loaded: () => void): Promise<void> {
  for (const side of sides) {
    if (side.page.preview) return;
    side.ops = await source.ops(side.page.ops);
    const next = sides[side.index + 1];
    if (next) next.opBase = side.opBase + side.ops.name.length;
    loaded();
  }
}

/** Common time that all sides fill. */
export function extent(sides: Side[]): [number, number] {
  return [
    Math.min(...sides.map((side) => -side.offset)),
    Math.max(...sides.map((side) => side.page.end - side.offset)),
  ];
}

function anchor(timeline: TimelinePage): number {
  return typicalStep(timeline)?.start ?? timeline.steps.start[0] ?? 0;
}

export interface Step {
  number: number;
  start: number;
  end: number;
}

export function typicalStep(timeline: TimelinePage): Step | null {
  return timeline.typical === null ? null : stepAt(timeline, timeline.steps.step.indexOf(timeline.typical));
}

export function stepAt(timeline: TimelinePage, row: number): Step | null {
  const number = timeline.steps.step[row];
  const start = timeline.steps.start[row];
  const end = timeline.steps.end[row];
  return number === undefined || start === undefined || end === undefined ? null : { number, start, end };
}

/** Row of the step at a moment (own time): the latest that began before; -1: none did. */
export function stepRow(timeline: TimelinePage, time: number): number {
  let found = -1;
  timeline.steps.start.forEach((start, row) => {
    if (start <= time && (found < 0 || start >= (timeline.steps.start[found] ?? 0))) found = row;
  });
  return found;
}
