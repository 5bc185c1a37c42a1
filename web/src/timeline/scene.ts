/** What the parts of the timeline share: the page, the window, what is open, selected and found. */

import type { Page } from "../page";
import type { Source } from "../source";
import type { Marks } from "./painter";
import { type Palette, readPalette } from "./palette";
import { extent, loadOps, type Side, sidesOf, stepAt, typicalStep } from "./sides";
import type { Drawn, Spot } from "./spots";
import { Tiles } from "./tiles";
import { closedAround, type Layout, layout } from "./tracks";
import { Viewport } from "./viewport";

export class Scene {
  sides: Side[];
  viewport: Viewport;
  tiles: Tiles;
  rows: Layout;
  palette: Palette = readPalette();
  marks: Marks = { of: new Uint8Array(0), dims: false, colours: false };
  /** Tracks on screen, as they were drawn last. */
  drawn: Drawn[] = [];
  scroll = 0;
  /** Height of the screen for tracks. */
  room = 0;
  selection: Spot | null = null;
  hovered: Spot | null = null;
  /** The other end of the selected op's pair. */
  partner: Spot | null = null;
  /** Common time. */
  range: [number, number] | null = null;
  /** Keys of groups that are not as at first. */
  readonly toggled = new Set<string>();

  constructor(
    page: Page,
    readonly source: Source,
    /** Draws anew, soon. */
    readonly changed: () => void,
    /** Tables of ops arrived. */
    private readonly named: () => void,
  ) {
    this.sides = sidesOf(page);
    this.viewport = new Viewport(...extent(this.sides));
    this.tiles = this.open();
    this.rows = layout(this.sides, this.toggled, this.palette.scale, this.room);
    this.first();
  }

  /** Takes a newer page; the window stays. Returns false if it only has more tracks than before. */
  renew(page: Page): boolean {
    const newer = sidesOf(page);
    const grew = newer.length === this.sides.length && newer.every((side, at) => grown(this.sides[at], side));
    if (grew) {
      newer.forEach((side, at) => ((this.sides[at] as Side).page = side.page));
      this.relayout();
      return false;
    }
    this.sides = newer;
    this.viewport.limit(...extent(this.sides));
    this.tiles = this.open();
    this.selection = this.hovered = this.partner = null;
    this.relayout();
    return true;
  }

  toggle(key: string): void {
    if (!this.toggled.delete(key)) this.toggled.add(key);
    this.relayout();
  }

  resize(room: number): void {
    this.room = room;
    this.palette = readPalette();
    this.relayout();
  }

  /** Opens the groups that hide a track. */
  uncover(side: Side, track: number): void {
    for (const key of closedAround(side, track, this.toggled)) this.toggle(key);
  }

  relayout(): void {
    this.rows = layout(this.sides, this.toggled, this.palette.scale, this.room);
    this.changed();
  }

  /** The window at first: the typical step of each side; of a preview, all that is known. */
  first(): void {
    const found = this.sides.flatMap(({ page, offset }) => {
      const step = typicalStep(page) ?? stepAt(page, 0);
      return step && !page.preview ? [[step.start - offset, step.end - offset] as const] : [];
    });
    if (found.length === 0) return this.viewport.all();
    this.viewport.fit(Math.min(...found.map(([start]) => start)), Math.max(...found.map(([, end]) => end)));
  }

  private open(): Tiles {
    const ready = loadOps(this.sides, this.source, this.named);
    ready.catch(() => this.changed());
    return new Tiles(this.sides, this.source, ready, this.changed);
  }
}

/** Whether a newer side is the same Timeline of which more was drawn. */
function grown(before: Side | undefined, newer: Side): boolean {
  return before?.page.preview === false && !newer.page.preview && before.offset === newer.offset;
}
