/** The roofline: the rate of each op beside what the chip can reach at its intensity. */

import { legend, scatter, type Point } from "../charts/scatter";
import { h } from "../dom";
import { badge, missing, section } from "../pieces";
import type { Explained, Op, Utilisation } from "../results";
import { large, ms, percent, plural } from "../text";
import { kindClass } from "./tree";

const MOST = 400;
/** Shares are printed with six decimals: from smaller ones the peak can't be told. */
const TELLING = 0.001;

interface Peaks {
  flops: number | null;
  bytes: number | null;
  why: string | null;
}

export function roofline(
  step: Explained,
  basis: string,
  open?: (op: Op) => void,
): { element: HTMLElement; stop(): void } {
  const peaks = peaksOf(step.utilisation);
  const known = step.ops.filter(
    (op) => op.self_ms > 0 && (op.flops ?? 0) > 0 && (op.bytes_accessed ?? 0) > 0,
  );
  if (known.length === 0) {
    const why = step.ops.some((op) => op.flops !== null)
      ? "no op has both FLOPs and bytes"
      : "the recording has no FLOPs and bytes of its ops";
    return { element: section("Roofline", badge(basis), missing(`Unknown: ${why}.`)), stop() {} };
  }
  const shown = [...known].sort((one, other) => other.self_ms - one.self_ms).slice(0, MOST);
  const kinds = [...new Set(shown.map((op) => op.category))];
  const drawn = scatter({
    label: `Roofline of ${plural(shown.length, "op")}: FLOP/s against FLOPs per byte of device memory; the table of ops has the figures`,
    x: "FLOPs per byte",
    y: "FLOP/s",
    tick: (value) => (value >= 1e4 ? large(value, "").replace(/\.0+ /, " ") : String(value)).trim(),
    points: shown.map((op) => point(op, kinds.indexOf(op.category), open)),
    room: { x: ridge(peaks), y: [peaks.flops].filter((peak) => peak !== null) },
    lines: (low, high) => roof(peaks, low, high),
  });
  const time = (ops: readonly Op[]) => ops.reduce((sum, op) => sum + op.self_ms, 0);
  const share = percent(time(shown) / (time(step.ops) || 1), 0);
  const covered = `${plural(shown.length, "op")} with ${share} of the self time; ${step.ops.length > shown.length ? "the others have no FLOPs, no bytes, or little time" : "all of them"}. `;
  const said =
    peaks.why ??
    `Peaks of ${step.utilisation.chip}: ${large(peaks.flops, "FLOP/s")}, ${large(peaks.bytes, "B/s")}.`;
  const element = section(
    "Roofline",
    h("span", {}, step.utilisation.chip ?? "", " ", badge(basis)),
    drawn.element,
    legend(kinds, kindClass),
    h("p", { class: "fine" }, covered, said),
  );
  return { element, stop: drawn.stop };
}

function point(op: Op, series: number, open?: (op: Op) => void): Point {
  const flops = (op.flops as number) * op.count;
  const moved = (op.bytes_accessed as number) * op.count;
  const rate = (flops / op.self_ms) * 1e3;
  return {
    x: flops / moved,
    y: rate,
    series,
    kind: kindClass(op.category),
    title: `${op.op} (${op.category}): ${large(rate, "FLOP/s")}, ${(flops / moved).toPrecision(3)} FLOPs per byte, ${ms(op.self_ms)} ms`,
    open: open && (() => open(op)),
  };
}

/** The chip's peaks follow from the rates and the shares of the peaks that they are. */
function peaksOf(use: Utilisation): Peaks {
  const peak = (rate: number | null, share: number | null) =>
    rate !== null && share !== null && share >= TELLING ? rate / share : null;
  const flops = peak(use.flops_per_s, use.hfu);
  const bytes = peak(use.bytes_per_s, use.hbm_share);
  if (flops !== null && bytes !== null) return { flops, bytes, why: null };
  if (!use.chip)
    return { flops, bytes, why: "The chip is not known, so there is no roof: name it with --target." };
  return {
    flops,
    bytes,
    why: `The step reaches too small a share of ${use.chip}'s peaks to tell them from it, so a part of the roof is missing.`,
  };
}

function ridge({ flops, bytes }: Peaks): number[] {
  return flops !== null && bytes !== null ? [flops / bytes] : [];
}

function roof(peaks: Peaks, low: [number, number], high: [number, number]) {
  const lines: { text: string; from: [number, number]; to: [number, number] }[] = [];
  const knee = ridge(peaks)[0] ?? null;
  if (peaks.flops !== null) {
    lines.push({
      text: `${large(peaks.flops, "FLOP/s")}`,
      from: [Math.max(knee ?? low[0], low[0]), peaks.flops],
      to: [high[0], peaks.flops],
    });
  }
  if (peaks.bytes !== null) {
    const start = Math.max(low[0], low[1] / peaks.bytes);
    const end = knee ?? Math.min(high[0], high[1] / peaks.bytes);
    lines.push({ text: "", from: [start, start * peaks.bytes], to: [end, end * peaks.bytes] });
  }
  return lines;
}
