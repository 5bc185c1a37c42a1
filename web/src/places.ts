/** Links from figures to the timeline. */

import type { OpTable } from "./page";
import type { Context } from "./view";

/** Whether the timeline can show where a finding costs most. */
export function findingPlace(context: Context, code: string): (() => void) | null {
  const known = context.page.timelines.some((timeline) =>
    timeline.findings.some((finding) => finding.code === code && finding.places.length > 0),
  );
  return known ? () => context.navigate("timeline", { finding: code }) : null;
}

/** How to open the timeline at an op, if there is one. */
export function opOpener(
  context: Context,
  side = 0,
): ((op: string, program?: string | null) => void) | undefined {
  const timeline = context.page.timelines[side];
  if (!timeline) return undefined;
  return (op, program = null) => {
    void context.source.ops(timeline.ops).then(
      (ops) => {
        const row = rowOf(ops, op, program);
        const params: Record<string, string> = row < 0 ? { search: op } : { op: String(row) };
        context.navigate("timeline", side ? { ...params, side: String(side) } : params);
      },
      () => context.navigate("timeline", { search: op }),
    );
  };
}

/** Names of ops repeat between programs; the op of this very name comes before one that is only listed so. */
function rowOf(ops: OpTable, op: string, program: string | null): number {
  let found = -1;
  let best = 0;
  for (let row = 0; row < ops.name.length; row++) {
    const named = ops.name[row] === op || ops.op[row] === op;
    if (!named && ops.listed[row] !== op) continue;
    const fit = (program === null || ops.program[row] === program ? 2 : 0) + (named ? 2 : 1);
    if (fit > best) [found, best] = [row, fit];
  }
  return found;
}
