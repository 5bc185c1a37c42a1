/** Names of the tracks, left of them; groups open and close. */

import { fill, h } from "../dom";
import { type Band, rulerHeight } from "./bands";
import { axisOf } from "./axis";
import type { Scene } from "./scene";
import type { Layout, Row } from "./tracks";

export class Gutter {
  readonly element = h("div", { class: "tl-gutter" });
  readonly corner = h("div", { class: "tl-corner" });
  private shown: Layout | null = null;
  private titles = "";

  constructor(private readonly toggle: (key: string) => void) {}

  update(scene: Scene): void {
    if (scene.rows === this.shown) return;
    const focused = (document.activeElement as HTMLElement | null)?.dataset?.key;
    this.shown = scene.rows;
    this.element.style.height = `${scene.rows.height}px`;
    fill(this.element, ...scene.rows.rows.map((row) => this.row(row)));
    if (focused) this.element.querySelector<HTMLElement>(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  updateCorner(scene: Scene, bands: Band[]): void {
    const { about } = axisOf(scene.sides, scene.viewport);
    const { scale } = scene.palette;
    const titles = [scale, about, ...bands.map((band) => `${band.y} ${band.title}`)].join("\n");
    if (titles === this.titles) return;
    this.titles = titles;
    this.corner.style.height = `${rulerHeight(bands, scale)}px`;
    const labels = bands.map((band) =>
      h(
        "div",
        {
          class: "tl-band",
          style: `top: ${band.y}px; height: ${band.height}px; line-height: ${band.height}px`,
        },
        band.title,
      ),
    );
    fill(this.corner, h("div", { class: "tl-about", title: about }, about), ...labels);
  }

  private row(row: Row): HTMLElement {
    const place = `top: ${row.y}px; height: ${row.height}px`;
    const title = h("span", { class: "tl-title" }, row.title, row.under && h("small", {}, row.under));
    if (row.open === null)
      return h(
        "div",
        { class: `tl-row tl-${row.kind} ${row.isTall ? "tl-tall" : ""}`, style: place, title: row.hint },
        title,
      );
    const arrow = h("span", { class: "tl-arrow", "aria-hidden": "true" }, row.open ? "▾" : "▸");
    const attributes = {
      type: "button",
      class: `tl-row tl-${row.kind}`,
      style: place,
      title: row.hint,
      "aria-expanded": String(row.open),
      "data-key": row.key,
    };
    return h("button", { ...attributes, onclick: () => this.toggle(row.key) }, arrow, title);
  }
}
