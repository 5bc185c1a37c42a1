/** Curves over time with uPlot: in the colors of the page, as wide as their place. */

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { textScale } from "./axis";
import { fill, h } from "../dom";
import { color, onTheme } from "../theme";

export interface Curve {
  title: string;
  /** A color variable, such as "--compute". */
  stroke: string;
  values: (number | null)[];
  /** Points only, or steps from value to value. */
  style: "line" | "points" | "steps";
  size?: number;
  dash?: number[];
}

interface Options {
  label: string;
  height: number;
  x: readonly number[];
  curves: readonly Curve[];
  xText(value: number): string;
  yText(value: number): string;
  yFrom?: number;
  /** x counts something: marks stand at whole numbers only. */
  counts?: boolean;
  /** A click on, or near, the point with this index. */
  open?: (at: number) => void;
}

export function curve(options: Options): { element: HTMLElement; stop(): void } {
  const element = h("div", { class: "chart curve", role: "img", "aria-label": options.label });
  let plot: uPlot | null = null;
  let width = 0;
  const draw = () => {
    if (width === 0) return;
    plot?.destroy();
    fill(element);
    plot = new uPlot(settings(options, width), data(options), element);
    if (options.open) listen(plot, options.open);
  };
  const observer = new ResizeObserver(() => {
    const now = Math.floor(element.clientWidth);
    if (now === width) return;
    width = now;
    if (plot && width > 0) plot.setSize({ width, height: high(options) });
    else draw();
  });
  observer.observe(element);
  const forget = onTheme(draw);
  const stop = () => {
    observer.disconnect();
    forget();
    plot?.destroy();
  };
  return { element, stop };
}

/** Heights grow with the text. */
function high(options: Options): number {
  return Math.round(options.height * textScale());
}

function data(options: Options): uPlot.AlignedData {
  return [options.x as number[], ...options.curves.map((one) => one.values)];
}

function listen(plot: uPlot, open: (at: number) => void): void {
  plot.over.style.cursor = "pointer";
  plot.over.addEventListener("click", () => {
    const at = plot.cursor.idx;
    if (at !== null && at !== undefined) open(at);
  });
}

const WHOLE = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((by) => by * 10 ** power)).flat();

function settings(options: Options, width: number): uPlot.Options {
  const font = `${(12 * textScale()).toFixed(1)}px ${getComputedStyle(document.body).fontFamily}`;
  const axis = {
    stroke: color("--muted"),
    font,
    grid: { stroke: color("--line"), width: 1 },
    ticks: { stroke: color("--line"), width: 1, size: 4 },
  };
  const range = ((_: uPlot, low: number, top: number) => {
    const over = (top - low || Math.abs(top) || 1) * 0.1;
    return [options.yFrom ?? low - over, top + over];
  }) as uPlot.Range.Function;
  const [first, last] = [options.x[0] ?? 0, options.x.at(-1) ?? 1];
  // Points at the ends are drawn whole.
  const room = options.curves.some(({ style }) => style === "points") ? (last - first || 1) * 0.015 : 0;
  return {
    width,
    height: high(options),
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    scales: { x: { time: false, range: [first - room, last + room] }, y: { range } },
    axes: [
      {
        ...axis,
        size: 28 * textScale(),
        // Labels stand apart, however wide the page and however long they are.
        space: Math.max(50, (options.xText(last).length + 3) * 7 * textScale()),
        values: (_, ticks) => ticks.map(options.xText),
        ...(options.counts ? { incrs: WHOLE } : {}),
      },
      { ...axis, size: 56 * textScale(), values: (_, ticks) => ticks.map(options.yText) },
    ],
    series: [{}, ...options.curves.map(series)],
  };
}

function series(one: Curve): uPlot.Series {
  const stroke = color(one.stroke);
  const base: uPlot.Series = { label: one.title, stroke, width: one.style === "points" ? 0 : 1.5 };
  if (one.dash) base.dash = one.dash;
  if (one.style === "points")
    return {
      ...base,
      points: { show: true, size: (one.size ?? 5) * textScale(), fill: stroke, stroke, width: 0 },
    };
  if (one.style === "steps") {
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    return { ...base, ...(stepped ? { paths: stepped } : {}), fill: `${stroke}33`, points: { show: false } };
  }
  return { ...base, points: { show: false } };
}
