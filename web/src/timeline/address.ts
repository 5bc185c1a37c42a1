/** The address of what is shown: kept up to date, and followed when a page is opened with one. */

import { visible } from "../text";
import type { Context } from "../view";
import type { Scene } from "./scene";
import { type Side, stepAt } from "./sides";
import type { Selection } from "./selection";
import { type Spot, spotOf } from "./spots";
import { nearest } from "./walk";

const REST = 250;

export class Address {
  private timer = 0;
  private readonly step: Record<string, string | null> = { step: null };

  constructor(
    private readonly context: Context,
    private readonly scene: () => Scene,
  ) {}

  /** Writes the address once the window rests; `step`: the window is that of a step. */
  write(step: number | null = null): void {
    this.step.step = step === null ? null : String(step);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.now(), REST);
  }

  stop(): void {
    clearTimeout(this.timer);
  }

  private now(): void {
    const { viewport, selection } = this.scene();
    const ofStep = this.step.step ?? null;
    this.context.setParams({
      step: ofStep,
      from: ofStep === null ? String(Math.round(viewport.start)) : null,
      to: ofStep === null ? String(Math.round(viewport.end)) : null,
      op: selection?.op == null ? null : String(selection.op),
      track: selection ? String(selection.track) : null,
      at: selection ? String(selection.start) : null,
      side: selection && selection.side.index > 0 ? String(selection.side.index) : null,
      finding: selection?.finding ?? null,
      search: null,
    });
  }
}

export interface Places {
  selection: Selection;
  /** Shows the worst place of a finding; false: there is none. */
  finding(code: string): boolean;
  search(text: string): void;
  named: Promise<unknown>;
}

/** Goes where an address says; returns what of it this page does not have, or nothing. */
export function follow(params: URLSearchParams, scene: Scene, places: Places): string {
  const side = scene.sides[number(params, "side") ?? 0] ?? scene.sides[0];
  if (!side) return "";
  const [from, to] = [number(params, "from"), number(params, "to")];
  const step = number(params, "step");
  const op = number(params, "op");
  const text = params.get("search");
  if (text) places.search(text);
  const finding = params.get("finding");
  if (finding && places.finding(finding)) return "";
  const isPlaced = from !== null && to !== null && to > from;
  if (isPlaced) scene.viewport.set(from, to);
  const isThere = isPlaced || step === null || toStep(scene, side, step);
  scene.changed();
  if (op !== null) void toOp(params, scene, side, op, places, isPlaced);
  if (!isThere) return `no step ${step} here`;
  return finding && side.page.complete ? `no place of a finding ${visible(finding)} here` : "";
}

export function toStep(scene: Scene, side: Side, step: number): boolean {
  const found = stepAt(side.page, side.page.steps.step.indexOf(step));
  if (found) scene.viewport.fit(found.start - side.offset, found.end - side.offset);
  return found !== null;
}

async function toOp(
  params: URLSearchParams,
  scene: Scene,
  side: Side,
  op: number,
  places: Places,
  isPlaced: boolean,
): Promise<void> {
  await places.named;
  const track = number(params, "track");
  const at = number(params, "at");
  const found =
    track !== null && at !== null ? await nearest(scene, side, track, at) : await anywhere(scene, side, op);
  if (!found || found.op !== op) return;
  if (isPlaced) places.selection.set(found);
  else places.selection.zoom(found);
}

/** The op's span nearest to the middle of the window. */
async function anywhere(scene: Scene, side: Side, op: number): Promise<Spot | null> {
  let best: Spot | null = null;
  let least = Infinity;
  const middle = (scene.viewport.start + scene.viewport.end) / 2 + side.offset;
  for (const [number, track] of side.page.tracks.entries()) {
    const level = track.levels[0];
    if (!level || track.kind === "summary" || track.kind === "fold") continue;
    for (let tile = 0; tile < level.start.length; tile++) {
      const gap = Math.max(level.start[tile]! - middle, middle - level.end[tile]!, 0);
      if (gap >= least) continue;
      const loaded = await scene.tiles.load({ side: side.index, track: number, level: 0, tile });
      for (let at = 0; loaded && at < loaded.segments.count; at++) {
        if (loaded.segments.op?.[at] !== op) continue;
        const far = Math.abs(loaded.segments.start[at]! - middle);
        if (far < least) [best, least] = [spotOf(side, loaded, at), far];
      }
    }
  }
  return best;
}

function number(params: URLSearchParams, name: string): number | null {
  const text = params.get(name);
  const value = text === null || text === "" ? NaN : Number(text);
  return Number.isFinite(value) ? value : null;
}
