/** A few words about what the pointer is on. */

import { fill, h } from "../dom";
import { large, percent } from "../text";
import { length } from "./axis";
import { isSpan, type Spot } from "./spots";

const AWAY = 14;

export class Tooltip {
  readonly element = h("div", { class: "tl-tooltip", hidden: true, "aria-hidden": "true" });

  show(spot: Spot | null, x: number, y: number, width: number, height: number): void {
    if (this.element.hidden !== (spot === null)) this.element.hidden = spot === null;
    if (!spot) return;
    fill(this.element, ...(isSpan(spot) ? ofSpan(spot) : ofSum(spot)));
    const { offsetWidth, offsetHeight } = this.element;
    const left = x + AWAY + offsetWidth > width ? Math.max(x - AWAY - offsetWidth, 0) : x + AWAY;
    const top = y + AWAY + offsetHeight > height ? Math.max(y - AWAY - offsetHeight, 0) : y + AWAY;
    this.element.style.transform = `translate(${left}px, ${top}px)`;
  }
}

function ofSpan(spot: Spot): Node[] {
  const { ops, page } = spot.side;
  const op = spot.op ?? -1;
  const exposed = spot.exposed ? `, ${length(spot.exposed)} exposed` : "";
  const lines = [
    h("strong", {}, ops?.name[op] ?? "a span"),
    h("div", {}, `${length(spot.dur)} ${page.basis}${exposed}`),
  ];
  const [moved, factor] = [ops?.bytes[op], ops?.bus_factor[op]];
  if (ops?.lane[op] === "collective" && moved && factor && spot.dur > 0)
    lines.push(h("div", {}, `${large((moved * factor * 1e12) / spot.dur, "B/s")} bus bandwidth`));
  const from = ops?.source[op] ?? ops?.scope[op];
  if (from) lines.push(h("div", { class: "tl-from" }, from));
  return lines;
}

function ofSum(spot: Spot): Node[] {
  const track = spot.side.page.tracks[spot.track];
  const devices = track?.kind === "fold" ? spot.side.page.devices.length : 1;
  const whole = spot.dur * devices;
  const parts = Object.entries(spot.times ?? {}).filter(([, value]) => value > 0);
  const shares = parts.map(([name, value]) =>
    h("div", {}, `${NAMES[name] ?? name} ${percent(value / whole)}`),
  );
  return [h("strong", {}, `${length(spot.dur)} ${spot.side.page.basis}`), ...shares];
}

const NAMES: Record<string, string> = {
  hidden: "communication hidden",
  exposed: "communication exposed",
  copy: "copies",
};
