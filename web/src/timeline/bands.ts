/** The ruler above the tracks: the axis, then the steps, programs and phases of each side. */

import { visible } from "../text";
import { axisOf, length, ticks } from "./axis";
import type { Scene } from "./scene";
import { type Side, stepRow } from "./sides";
import type { Viewport } from "./viewport";

const AXIS = 24;
const BAND = 19;

export interface Band {
  side: Side;
  kind: "steps" | "programs" | "phases";
  y: number;
  height: number;
  title: string;
}

export function bandsOf(sides: Side[], scale: number): Band[] {
  const found: Band[] = [];
  const height = Math.round(BAND * scale);
  const y = () => Math.round(AXIS * scale) + found.length * height;
  for (const side of sides) {
    const letter = side.letter ? `${side.letter} ` : "";
    if (side.page.steps.step.length > 0)
      found.push({ side, kind: "steps", y: y(), height, title: `${letter}steps` });
    if (side.page.programs.length > 0)
      found.push({ side, kind: "programs", y: y(), height, title: `${letter}programs` });
    if (side.page.phases.phase.length > 0)
      found.push({ side, kind: "phases", y: y(), height, title: `${letter}phases` });
  }
  return found;
}

export function rulerHeight(bands: Band[], scale: number): number {
  return Math.round(AXIS * scale) + bands.reduce((sum, band) => sum + band.height, 0) + 2;
}

interface Bar {
  start: number;
  end: number;
  text: () => string;
  strong: boolean;
  /** How dark it is, from 0 to 1; null: as its band is. */
  shade?: number;
}

export function drawRuler(context: CanvasRenderingContext2D, scene: Scene, bands: Band[]): void {
  const { viewport, palette } = scene;
  context.fillStyle = palette.css.panel;
  context.fillRect(0, 0, viewport.width, rulerHeight(bands, palette.scale));
  context.font = palette.font;
  context.textBaseline = "middle";
  drawAxis(context, scene);
  for (const band of bands) {
    drawBars(context, scene, barsOf(scene, band), band);
  }
  context.fillStyle = palette.css.line;
  context.fillRect(0, rulerHeight(bands, palette.scale) - 1, viewport.width, 1);
}

function drawAxis(context: CanvasRenderingContext2D, { viewport, palette, sides }: Scene): void {
  const axis = axisOf(sides, viewport);
  const height = Math.round(AXIS * palette.scale);
  for (const tick of ticks(viewport, axis.zero, palette.scale)) {
    context.fillStyle = palette.css.line;
    context.fillRect(Math.round(tick.x), height - (tick.minor ? 5 : 9), 1, tick.minor ? 5 : 9);
    context.fillStyle = palette.css.muted;
    const from = tick.x + 4;
    const fits = from >= 0 && fitting(context, tick.text, viewport.width - from) === tick.text;
    if (!tick.minor && fits) context.fillText(tick.text, from, height / 2 - 1);
  }
}

function barsOf({ viewport }: Scene, { kind, side }: Band): Iterable<Bar> {
  if (kind === "steps") return stepBars(side);
  return kind === "programs" ? programBars(side) : phaseBars(side, viewport);
}

function drawBars(
  context: CanvasRenderingContext2D,
  { viewport, palette }: Scene,
  bars: Iterable<Bar>,
  band: Band,
): void {
  let last = -1;
  for (const bar of bars) {
    const x = viewport.x(bar.start - band.side.offset);
    const end = viewport.x(bar.end - band.side.offset);
    if (end < 0 || x > viewport.width || end - Math.max(last, x) < 0.7) continue;
    last = end;
    const left = Math.max(x, -2);
    const right = Math.min(end, viewport.width + 2);
    context.fillStyle =
      bar.shade !== undefined ? palette.css.muted : band.kind === "steps" ? palette.css.idle : palette.css.panel;
    context.globalAlpha = bar.shade ?? (bar.strong ? 1 : 0.55);
    context.fillRect(left, band.y + 1, Math.max(right - left - 1, 0.5), band.height - 3);
    context.globalAlpha = 1;
    context.fillStyle = palette.css.line;
    if (right - left > 3) context.fillRect(left, band.y + 1, 1, band.height - 3);
    context.fillStyle = palette.css.text;
    const from = Math.max(left, 0) + 6;
    if (right - from > 24)
      context.fillText(fitting(context, bar.text(), right - from - 6), from, band.y + band.height / 2);
  }
}

function* stepBars({ page }: Side): Iterable<Bar> {
  const { step, start, end, ms, steady } = page.steps;
  for (let row = 0; row < step.length; row++) {
    const next = start[row + 1] ?? Infinity;
    yield {
      start: start[row]!,
      end: Math.min(end[row]!, next),
      text: () => {
        const kind = steady[row] ? "" : " · not steady";
        const shown = page.chosen ? " · explained" : steady[row] ? " · typical" : "";
        const typical = step[row] === page.typical ? shown : "";
        const time = ms[row] === null ? "" : ` · ${length(ms[row]! * 1e9)}`;
        return `step ${step[row]}${time}${typical}${kind}`;
      },
      strong: steady[row]!,
    };
  }
}

function* programBars({ page }: Side): Iterable<Bar> {
  for (const program of page.programs) {
    const text = () => visible(program.name);
    for (let at = 0; at < program.start.length; at++)
      yield { start: program.start[at]!, end: program.end[at]!, text, strong: true };
  }
}

const SHADES: Record<string, number> = { forward: 0.08, backward: 0.2, remat: 0.32, optimizer: 0.14 };
/** Pixels in which the phase with most time counts: phases alternate from kernel to kernel. */
const PATCH = 2;

/** The phases on the screen; where short ones alternate, those with most time. */
function* phaseBars({ page, offset }: Side, viewport: Viewport): Iterable<Bar> {
  const { phase, start, end } = page.phases;
  const names = [...new Set(phase)];
  const width = PATCH * viewport.unit;
  // The grid stands still while the window moves.
  const first = Math.floor((viewport.start + offset) / width);
  const patches = Math.ceil((viewport.end + offset) / width) - first;
  const times = names.map(() => new Float64Array(patches));
  for (let row = 0; row < phase.length; row++) {
    const of = times[names.indexOf(phase[row]!)]!;
    const [from, to] = [start[row]! / width - first, end[row]! / width - first];
    const last = Math.min(Math.ceil(to), patches);
    for (let at = Math.max(Math.floor(from), 0); at < last; at++)
      of[at]! += Math.min(to, at + 1) - Math.max(from, at);
  }
  let began = 0;
  let kind = -1;
  for (let at = 0; at <= patches; at++) {
    let most = -1;
    for (let each = 0; at < patches && each < names.length; each++)
      if (times[each]![at]! > (most < 0 ? 0 : times[most]![at]!)) most = each;
    if (most === kind) continue;
    const name = names[kind];
    const [from, to] = [(first + began) * width, (first + at) * width];
    if (name) yield { start: from, end: to, text: () => visible(name), strong: true, shade: SHADES[name] ?? 0 };
    [began, kind] = [at, most];
  }
}

/** The step's row at a place of the ruler; -1: there is none. */
export function stepUnder(bands: Band[], y: number, time: number): { side: Side; row: number } | null {
  const band = bands.find((each) => y >= each.y && y < each.y + each.height);
  if (band?.kind !== "steps") return null;
  const row = stepRow(band.side.page, time + band.side.offset);
  return row < 0 ? null : { side: band.side, row };
}

const MOST_WIDTHS = 20_000;
const widths = new Map<string, number>();

/** As much of a text as fits. */
export function fitting(context: CanvasRenderingContext2D, text: string, width: number): string {
  const key = `${context.font} ${text}`;
  let whole = widths.get(key);
  if (whole === undefined) {
    if (widths.size > MOST_WIDTHS) widths.clear();
    whole = context.measureText(text).width;
    widths.set(key, whole);
  }
  if (whole <= width) return text;
  const letters = Math.floor((text.length * width) / whole) - 2;
  return letters > 1 ? `${text.slice(0, letters)}…` : "";
}
