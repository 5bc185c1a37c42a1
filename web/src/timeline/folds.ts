/**
 * What a fold shows beside the mean: a band between the device that computes least and the one that
 * computes most, and a line at the median.
 */

import type { Frame } from "./painter";
import type { Drawn } from "./spots";
import type { Viewport } from "./viewport";

/** How strong the band and the line are. */
export const BAND = 0.2;
export const LINE = 0.9;
/** Numbers of each bucket: left, right, then the heights of most, median and least. */
export const FOLDED = 5;

/** The buckets of a fold in CSS pixels of the screen. */
export function foldOf({ lane, cover }: Drawn, viewport: Viewport, scroll: number): number[] {
  const found: number[] = [];
  const bottom = lane.y + lane.height - scroll;
  const { offset } = lane.side;
  for (const { tiles } of cover.layers) {
    for (const { segments } of tiles) {
      const { busy_min: least, busy_median: median, busy_max: most } = segments.columns;
      if (!least || !median || !most) continue;
      const last = segments.from(viewport.end + offset);
      for (let at = Math.max(segments.from(viewport.start + offset) - 1, 0); at < last; at++) {
        if (most[at]! <= 0) continue;
        const dur = segments.dur[at]!;
        const x = viewport.x(segments.start[at]! - offset);
        const height = lane.height / dur;
        found.push(
          x,
          x + dur / viewport.unit,
          bottom - most[at]! * height,
          bottom - median[at]! * height,
          bottom - least[at]! * height,
        );
      }
    }
  }
  return found;
}

export function drawFolds(context: CanvasRenderingContext2D, { folds, palette }: Frame): void {
  context.fillStyle = palette.css.text;
  for (const fold of folds) {
    for (let at = 0; at < fold.length; at += FOLDED) {
      const [x, end, most, median, least] = fold.slice(at, at + FOLDED) as [number, number, number, number, number];
      context.globalAlpha = BAND;
      context.fillRect(x, most, end - x, least - most);
      context.globalAlpha = LINE;
      context.fillRect(x, median - 0.5, Math.max(end - x, 0.3), 1);
    }
  }
  context.globalAlpha = 1;
}
