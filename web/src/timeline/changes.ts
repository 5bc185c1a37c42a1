/** Ops coloured by what changed between two Timelines. */

import type { Page } from "../page";
import { compared } from "../results";
import { FASTER, NEW, SLOWER } from "./painter";
import type { Scene } from "./scene";

/** Whether any op is slower, faster or on one side alone. */
export function isChanged(page: Page): boolean {
  return (compared(page)?.ops ?? []).some((change) => change.clear || isAlone(change));
}

/** Whether one side lacks it: its time there is 0, which is no change of an op. */
function isAlone({ a, b }: { a: readonly string[]; b: readonly string[] }): boolean {
  return a.length === 0 || b.length === 0;
}

export function hasChanges(page: Page): boolean {
  return page.timelines.length > 1 && (compared(page)?.ops.length ?? 0) > 0;
}

/** Marks ops of both sides as slower or faster than on the other one, or as only on one. */
export function markChanges(scene: Scene, page: Page, colours: boolean): void {
  const size = scene.sides.reduce((sum, side) => sum + (side.ops?.name.length ?? 0), 0);
  const marks = new Uint8Array(size);
  marks.set(scene.marks.of.subarray(0, size));
  for (let at = 0; at < size; at++) marks[at]! &= ~(SLOWER | FASTER | NEW);
  const said = new Map<string, number>();
  for (const change of compared(page)?.ops ?? []) {
    const mark = isAlone(change) ? NEW : !change.clear ? 0 : (change.difference_ms ?? 0) > 0 ? SLOWER : FASTER;
    for (const op of change.a) said.set(`0 ${op}`, mark);
    for (const op of change.b) said.set(`1 ${op}`, mark);
  }
  for (const side of scene.sides) {
    side.ops?.name.forEach((name, row) => {
      const mark = said.get(`${side.index} ${name}`) ?? said.get(`${side.index} ${side.ops?.op[row]}`) ?? 0;
      marks[side.opBase + row]! |= mark;
    });
  }
  scene.marks = { ...scene.marks, of: marks, colours };
}
