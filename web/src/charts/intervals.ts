/** Dots with intervals on one axis, a row each: estimates beside each other. */

import { fill, h, svg } from "../dom";
import { linear, textScale } from "./axis";

export interface Interval {
  name: string;
  /** Where the dot is; null: nothing is known. */
  value: number | null;
  range: readonly [number, number] | null;
  /** Fainter, above the first: the prediction beside the measurement. */
  second?: { value: number; range: readonly [number, number] | null } | null;
  /** Single figures that the estimate is made of. */
  each?: readonly number[];
  tone: "measured" | "predicted" | "quiet";
  /** Behind the plot: the figures as text. */
  text: string;
}

interface Options {
  label: string;
  rows: readonly Interval[];
  /** `step`: from mark to mark, which its text has to tell apart. */
  tick(value: number, step: number): string;
  /** A vertical line here, such as no change. */
  zero?: number;
  /** Half the width of a band around `zero`: what noise alone makes. */
  band?: number;
  axis: string;
}

const ROW = 30;

export function intervals(options: Options): { element: HTMLElement; stop(): void } {
  const element = h("div", {
    class: "chart intervals",
    role: "img",
    "aria-label": `${options.label}: ${options.rows.map((row) => `${row.name} ${row.text}`).join("; ")}`,
  });
  let width = 0;
  const observer = new ResizeObserver(() => {
    const now = Math.floor(element.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    const scale = textScale();
    fill(element, drawing(options, width / scale, scale));
  });
  observer.observe(element);
  return { element, stop: () => observer.disconnect() };
}

/** `grown`: the drawing is made for text of 14 pixels, and shown so much larger. */
function drawing(options: Options, width: number, grown: number): SVGElement {
  const names = Math.min(Math.max(110, width * 0.3), 520);
  const texts = Math.min(Math.max(90, width * 0.2), 220);
  const left = names + 12;
  const right = width - texts - 12;
  const bottom = options.rows.length * ROW + 14;
  const scale = linear(...extent(options), Math.max(3, Math.floor((right - left) / 110)));
  const [first = 0, second = 1] = scale.ticks;
  const px = (value: number) => left + scale.at(value) * (right - left);
  const grid = scale.ticks.flatMap((tick) => [
    svg("line", { class: "grid", x1: px(tick), x2: px(tick), y1: 4, y2: bottom }),
    svg(
      "text",
      { class: "tick", x: px(tick), y: bottom + 16, "text-anchor": "middle" },
      options.tick(tick, second - first),
    ),
  ]);
  const { zero, band } = options;
  const around =
    zero === undefined
      ? []
      : [
          band
            ? svg("rect", {
                class: "band",
                x: px(zero - band),
                width: px(zero + band) - px(zero - band),
                y: 4,
                height: bottom - 4,
              })
            : null,
          svg("line", { class: "zero", x1: px(zero), x2: px(zero), y1: 4, y2: bottom }),
        ];
  const rows = options.rows.flatMap((row, at) => {
    const y = at * ROW + 4 + ROW / 2;
    return [
      svg(
        "foreignObject",
        { x: 0, y: y - 11, width: names, height: 22 },
        h("div", { class: "interval-name", title: row.name }, row.name),
      ),
      ...marks(row, y, px),
      svg("text", { class: "interval-text", x: width, y: y + 4, "text-anchor": "end" }, row.text),
    ];
  });
  const height = bottom + 40;
  const axis = svg(
    "text",
    { class: "axis", x: right, y: height - 4, "text-anchor": "end" },
    `${options.axis} →`,
  );
  return svg(
    "svg",
    {
      width: width * grown,
      height: height * grown,
      viewBox: `0 0 ${width} ${height}`,
      "aria-hidden": "true",
    },
    ...grid,
    ...around,
    ...rows,
    axis,
  );
}

function marks(row: Interval, y: number, px: (value: number) => number): SVGElement[] {
  const made: SVGElement[] = [];
  const line = (range: readonly [number, number], at: number, css: string) =>
    made.push(
      svg("path", { class: `reach ${css}`, d: `M${px(range[0])} ${at - 4}v8m0 -4H${px(range[1])}m0 -4v8` }),
    );
  if (row.second) {
    if (row.second.range) line(row.second.range, y - 6, "tone-second");
    made.push(svg("circle", { class: "dot tone-second", cx: px(row.second.value), cy: y - 6, r: 3.5 }));
  }
  const at = row.second ? y + 5 : y;
  for (const value of row.each ?? [])
    made.push(svg("circle", { class: "each", cx: px(value), cy: at, r: 2.5 }));
  if (row.range) line(row.range, at, `tone-${row.tone}`);
  if (row.value !== null)
    made.push(svg("circle", { class: `dot tone-${row.tone}`, cx: px(row.value), cy: at, r: 5 }));
  return made;
}

function extent({ rows, zero, band }: Options): [number, number] {
  const values = rows.flatMap((row) => [
    ...(row.value === null ? [] : [row.value]),
    ...(row.range ?? []),
    ...(row.each ?? []),
    ...(row.second ? [row.second.value, ...(row.second.range ?? [])] : []),
  ]);
  if (zero !== undefined) values.push(zero - (band ?? 0), zero + (band ?? 0));
  if (values.length === 0) return [0, 1];
  const low = Math.min(...values);
  const high = Math.max(...values);
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - room, high + room];
}
