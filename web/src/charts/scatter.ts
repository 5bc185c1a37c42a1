/** Points on logarithmic axes; what is zero lies in a band of its own at the edge. */

import { fill, h, svg } from "../dom";
import { logarithmic, textScale } from "./axis";

export interface Point {
  x: number;
  y: number;
  /** Index of the series: its color and shape. */
  series: number;
  /** Category of an op, if the series are categories: its color, as in the icicle. */
  kind?: string;
  title: string;
  open?: (() => void) | undefined;
}

interface Line {
  text: string;
  from: [number, number];
  to: [number, number];
}

interface Options {
  label: string;
  x: string;
  y: string;
  tick(value: number): string;
  points: readonly Point[];
  /** Values that the axes have to reach, too. */
  room?: { x: readonly number[]; y: readonly number[] };
  /** In values of the axes. */
  lines?: (low: [number, number], high: [number, number]) => Line[];
  /** Both axes have one scale, so that the diagonal means equal. */
  square?: boolean;
}

const EDGE = { left: 62, right: 14, top: 18, bottom: 40, zero: 36 };
const SHAPES = 6;

/** Drawn anew when its width changes. `stop` ends that. */
export function scatter(options: Options): { element: HTMLElement; stop(): void } {
  const element = h("div", { class: "chart", role: "img", "aria-label": options.label });
  let width = 0;
  const observer = new ResizeObserver(() => {
    const now = Math.floor(element.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    const grown = textScale();
    const inner = width / grown;
    fill(element, drawing(options, inner, Math.round(Math.max(220, Math.min(inner * 0.62, 460))), grown));
  });
  observer.observe(element);
  return { element, stop: () => observer.disconnect() };
}

function drawing(options: Options, width: number, height: number, grown: number): SVGElement {
  const xs = options.points.map((point) => point.x);
  const ys = options.points.map((point) => point.y);
  const { x: moreX, y: moreY } = options.room ?? { x: [], y: [] };
  const scaleX = logarithmic(options.square ? [...xs, ...ys] : [...xs, ...moreX]);
  const scaleY = logarithmic(options.square ? [...xs, ...ys] : [...ys, ...moreY]);
  const zeroX = xs.some((x) => x <= 0) ? EDGE.zero * 1.5 : 0; // labels lie side by side
  const zeroY = ys.some((y) => y <= 0) ? EDGE.zero : 0;
  const inner = {
    left: EDGE.left + zeroX,
    right: width - EDGE.right,
    top: EDGE.top,
    bottom: height - EDGE.bottom - zeroY,
  };
  const px = (x: number) =>
    x <= 0 ? EDGE.left + zeroX / 2 : inner.left + scaleX.at(x) * (inner.right - inner.left);
  const py = (y: number) =>
    y <= 0 ? inner.bottom + zeroY / 2 : inner.bottom - scaleY.at(y) * (inner.bottom - inner.top);
  const bottom = height - EDGE.bottom;
  const grid = [
    ...scaleX.ticks.flatMap((tick) => [
      svg("line", { class: "grid", x1: px(tick), x2: px(tick), y1: inner.top, y2: bottom }),
      svg(
        "text",
        { class: "tick", x: px(tick), y: bottom + 16, "text-anchor": "middle" },
        options.tick(tick),
      ),
    ]),
    ...scaleY.ticks.flatMap((tick) => [
      svg("line", { class: "grid", x1: EDGE.left, x2: inner.right, y1: py(tick), y2: py(tick) }),
      svg(
        "text",
        { class: "tick", x: EDGE.left - 8, y: py(tick) + 4, "text-anchor": "end" },
        options.tick(tick),
      ),
    ]),
    zeroX > 0 && svg("text", { class: "tick", x: px(0), y: bottom + 16, "text-anchor": "middle" }, "0"),
    zeroY > 0 && svg("text", { class: "tick", x: EDGE.left - 8, y: py(0) + 4, "text-anchor": "end" }, "0"),
    svg("text", { class: "axis", x: inner.right, y: height - 6, "text-anchor": "end" }, `${options.x} →`),
    svg(
      "text",
      { class: "axis", x: 14, y: inner.top, "text-anchor": "end", transform: `rotate(-90 14 ${inner.top})` },
      `${options.y} →`,
    ),
  ];
  const low: [number, number] = [scaleX.ticks[0] as number, scaleY.ticks[0] as number];
  const high: [number, number] = [scaleX.ticks.at(-1) as number, scaleY.ticks.at(-1) as number];
  const lines = (options.lines?.(low, high) ?? []).flatMap(({ text, from, to }) => {
    const [x1, y1, x2, y2] = [px(from[0]), py(from[1]), px(to[0]), py(to[1])];
    const turn = (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI;
    const along = `translate(${x2} ${y2}) rotate(${turn.toFixed(1)})`;
    return [
      svg("line", { class: "guide", x1, y1, x2, y2 }),
      svg("text", { class: "guide-text", x: -8, y: -6, "text-anchor": "end", transform: along }, text),
    ];
  });
  const points = options.points.map((point) => marker(point, px(point.x), py(point.y)));
  return svg(
    "svg",
    {
      width: width * grown,
      height: height * grown,
      viewBox: `0 0 ${width} ${height}`,
      "aria-hidden": "true",
    },
    ...grid,
    ...lines,
    ...points,
  );
}

function marker(point: Point, x: number, y: number): SVGElement {
  const mark = svg(
    "path",
    {
      class: `mark series-${point.series % SHAPES}${point.kind ? ` mark-${point.kind}` : ""}`,
      d: shape(point.series),
      transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
    },
    svg("title", {}, point.title),
  );
  if (point.open) {
    mark.classList.add("opens");
    mark.addEventListener("click", point.open);
  }
  return mark;
}

/** Series differ in shape as well as in color. */
function shape(series: number): string {
  return [
    "M-4.5 0A4.5 4.5 0 1 0 4.5 0A4.5 4.5 0 1 0 -4.5 0Z",
    "M-4 -4H4V4H-4Z",
    "M0 -5.2L5 4H-5Z",
    "M0 -5.6L5.6 0L0 5.6L-5.6 0Z",
    "M-5 -4H5L0 5.2Z",
    "M-1.7 -5H1.7V-1.7H5V1.7H1.7V5H-1.7V1.7H-5V-1.7H-1.7Z",
  ][series % SHAPES] as string;
}

/** The key to the series; `kindOf` returns the kind that colors one. */
export function legend(series: readonly string[], kindOf?: (name: string) => string): HTMLElement {
  const items = series.map((name, at) =>
    h(
      "li",
      {},
      svg(
        "svg",
        { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" },
        svg("path", { class: `mark series-${at % SHAPES}${kindOf ? ` mark-${kindOf(name)}` : ""}`, d: shape(at) }),
      ),
      name,
    ),
  );
  return h("ul", { class: "legend" }, ...items);
}
