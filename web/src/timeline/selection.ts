/** What is selected, moved by keys and clicks, and said aloud. */

import { visible } from "../text";
import { length } from "./axis";
import type { Scene } from "./scene";
import { stepAt, stepRow } from "./sides";
import { isSame, isSpan, type Spot } from "./spots";
import { nearest, neighbour, occurrence, partnerOf } from "./walk";

/** Part of the screen that a span fills when it is gone to. */
export const SHARE = 0.2;

export class Selection {
  constructor(
    private readonly scene: () => Scene,
    /** Shows details and says what is selected; null: nothing. */
    private readonly told: (spot: Spot | null) => void,
    /** Scrolls a track into view. */
    private readonly shown: (spot: Spot) => void,
  ) {}

  set(spot: Spot | null): void {
    const scene = this.scene();
    if (isSame(spot, scene.selection)) return;
    scene.selection = spot;
    scene.partner = null;
    this.told(spot);
    scene.changed();
    if (!spot || !isSpan(spot)) return;
    void partnerOf(scene, spot).then((partner) => {
      if (scene.selection !== spot) return;
      scene.partner = partner;
      scene.changed();
    });
  }

  /** Selects and brings into view, without a change of scale if it is visible. */
  reveal(spot: Spot | null): void {
    if (!spot) return;
    const { side, track, start, dur } = spot;
    const scene = this.scene();
    scene.uncover(side, track);
    scene.viewport.reveal(start - side.offset, start + dur - side.offset);
    this.shown(spot);
    this.set(spot);
  }

  /** Selects and zooms so that it fills a fifth of the width. */
  zoom(spot: Spot | null): void {
    if (!spot) return;
    const scene = this.scene();
    scene.uncover(spot.side, spot.track);
    scene.viewport.fit(spot.start - spot.side.offset, spot.start + spot.dur - spot.side.offset, SHARE);
    this.shown(spot);
    this.set(spot);
  }

  /** Next span of the row, or the first one on screen. */
  async along(by: 1 | -1): Promise<void> {
    const scene = this.scene();
    const spot = scene.selection;
    this.reveal(spot && isSpan(spot) ? await neighbour(scene, spot, by) : await this.first());
  }

  /** The span at the same time in the next row or track with one. */
  async across(by: 1 | -1): Promise<void> {
    const scene = this.scene();
    const spot = scene.selection;
    if (!spot) return this.reveal(await this.first());
    const rows = spot.side.page.tracks[spot.track]?.rows ?? 1;
    const middle = this.moment(spot);
    if (spot.row + by >= 0 && spot.row + by < rows) {
      return this.reveal(await nearest(scene, spot.side, spot.track, middle, spot.row + by));
    }
    const lanes = scene.rows.lanes.filter((lane) => this.holdsSpans(lane.side.index, lane.track));
    const at = lanes.findIndex((lane) => lane.side === spot.side && lane.track === spot.track);
    for (let next = at + by; next >= 0 && next < lanes.length; next += by) {
      const lane = lanes[next]!;
      const time = middle - spot.side.offset + lane.side.offset;
      const found = await nearest(scene, lane.side, lane.track, time);
      if (found) return this.reveal(found);
    }
  }

  async again(by: 1 | -1): Promise<void> {
    const scene = this.scene();
    if (scene.selection && isSpan(scene.selection)) this.reveal(await occurrence(scene, scene.selection, by));
  }

  /** A place in a span that is on screen. */
  private moment(spot: Spot): number {
    const { viewport } = this.scene();
    const start = Math.max(spot.start, viewport.start + spot.side.offset);
    const end = Math.min(spot.start + spot.dur, viewport.end + spot.side.offset);
    return end > start ? (start + end) / 2 : spot.start + spot.dur / 2;
  }

  private async first(): Promise<Spot | null> {
    const scene = this.scene();
    const { viewport } = scene;
    for (const lane of scene.rows.lanes) {
      if (lane.y < scene.scroll || !this.holdsSpans(lane.side.index, lane.track)) continue;
      const found = await nearest(
        scene,
        lane.side,
        lane.track,
        (viewport.start + viewport.end) / 2 + lane.side.offset,
      );
      if (found) return found;
    }
    return null;
  }

  private holdsSpans(side: number, track: number): boolean {
    const kind = this.scene().sides[side]?.page.tracks[track]?.kind;
    return kind !== "summary" && kind !== "fold";
  }
}

/** The selection in one sentence. */
export function sentence(spot: Spot): string {
  const { side } = spot;
  const track = side.page.tracks[spot.track];
  const name = spot.finding ? "idle" : spot.op === null ? "time" : visible(side.ops?.name[spot.op] ?? "an op");
  const step = stepAt(side.page, stepRow(side.page, spot.start));
  const inside =
    step && spot.start < step.end ? `, ${length(spot.start - step.start)} into step ${step.number}` : "";
  const exposed = spot.exposed ? `, ${length(spot.exposed)} exposed` : "";
  const device =
    track?.device === null || track === undefined ? "" : `${side.page.devices[track.device]?.name ?? ""}, `;
  return `${name}, ${length(spot.dur)} ${side.page.basis}${exposed}${inside}; ${device}${visible(track?.title ?? "")}`;
}
