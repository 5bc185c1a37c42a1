/** Rectangles with Canvas 2D, where a browser has no WebGL2: the same picture, drawn one by one. */

import { inWindow, STACK } from "./instances";
import {
  DIM,
  FASTER,
  FAINTEST,
  type Frame,
  MATCH,
  NEW,
  type Painter,
  type Placement,
  SLOWER,
} from "./painter";
import type { ColourName } from "./palette";
import { NO_OP } from "./sides";

export function canvasPainter(canvas: HTMLCanvasElement): Painter {
  // Where there is no WebGL2 there is no GPU either: drawing by the CPU alone is four times as fast.
  const context = canvas.getContext("2d", { willReadFrequently: true }) as CanvasRenderingContext2D;
  const painter = {
    how: "Canvas 2D" as const,
    rectangles: 0,
    paint: (frame: Frame) => {
      paint(canvas, context, frame);
      painter.rectangles = frame.placements.reduce((sum, { drawn }) => sum + drawn.count, 0);
    },
    dispose() {},
  };
  return painter;
}

function paint(canvas: HTMLCanvasElement, context: CanvasRenderingContext2D, frame: Frame): void {
  canvas.width = Math.max(1, Math.round(frame.width * frame.ratio));
  canvas.height = Math.max(1, Math.round(frame.height * frame.ratio));
  context.setTransform(frame.ratio, 0, 0, frame.ratio, 0, 0);
  // Shares of a pixel are added, as with WebGL2: neighbors leave no seam.
  context.globalCompositeOperation = "lighter";
  const hatched = pattern(context, frame);
  for (const placement of frame.placements) paintTile(context, frame, placement, hatched);
}

function paintTile(
  context: CanvasRenderingContext2D,
  frame: Frame,
  placement: Placement,
  hatched: CanvasPattern | string,
): void {
  const { drawn } = placement;
  context.save();
  if (placement.hole) clipOut(context, frame, placement.hole);
  const floats = new Float32Array(drawn.buffer);
  const shorts = new Uint16Array(drawn.buffer);
  const words = new Uint32Array(drawn.buffer);
  const [first, count] = inWindow(drawn, frame.start, frame.start + frame.width * frame.unit);
  for (let at = first; at < first + count; at++) {
    const x = (floats[at * 8]! - frame.start + floats[at * 8 + 1]!) / frame.unit;
    const end = (floats[at * 8 + 2]! - frame.start + floats[at * 8 + 3]!) / frame.unit;
    if (end <= 0 || x >= frame.width) continue;
    const row = shorts[at * 16 + 13]! - drawn.base;
    const y = placement.y + row * placement.pitch - frame.scroll;
    if (y > frame.height || y + placement.height < 0) continue;
    const [left, right] = [Math.max(x, -8), Math.min(end, frame.width + 8)];
    const gap = placement.isSpans && right - left > 5 ? 1 : 0;
    const mark = words[at * 8 + 7]! === NO_OP ? 0 : (frame.marks.of[words[at * 8 + 7]!] ?? 0);
    context.globalAlpha = alphaOf(frame, mark, placement.isSparse, right - left);
    let from = 0;
    for (let each = 0; each < STACK.length; each++) {
      const to = shorts[at * 16 + 8 + each]! / 65535;
      if (to <= from) continue;
      context.fillStyle = fill(frame, placement, each, mark, hatched);
      context.fillRect(
        left,
        y + (1 - to) * placement.height,
        Math.max(right - left - gap, 0.05),
        (to - from) * placement.height,
      );
      from = to;
    }
  }
  context.restore();
}

function alphaOf(frame: Frame, mark: number, isSparse: boolean, width: number): number {
  const strength = frame.marks.dims && !(mark & MATCH) ? DIM : 1;
  return isSparse && width < FAINTEST ? strength * Math.max(width, FAINTEST) : strength;
}

function fill(
  frame: Frame,
  placement: Placement,
  each: number,
  mark: number,
  hatched: CanvasPattern | string,
): CanvasPattern | string {
  const { css } = frame.palette;
  if (frame.marks.colours)
    return css[mark & SLOWER ? "bad" : mark & FASTER ? "good" : mark & NEW ? "accent" : "control"];
  const name = each === STACK.length - 1 && placement.isHost ? "host" : (STACK[each] as ColourName);
  return name === "exposed" ? hatched : css[name];
}

function clipOut(context: CanvasRenderingContext2D, frame: Frame, [start, end]: [number, number]): void {
  const from = Math.min(Math.max((start - frame.start) / frame.unit, 0), frame.width);
  const to = Math.min(Math.max((end - frame.start) / frame.unit, 0), frame.width);
  context.beginPath();
  context.rect(0, 0, from, frame.height);
  context.rect(to, 0, frame.width - to, frame.height);
  context.clip();
}

function pattern(context: CanvasRenderingContext2D, frame: Frame): CanvasPattern | string {
  const { css } = frame.palette;
  const cell = document.createElement("canvas");
  cell.width = cell.height = 7;
  const inner = cell.getContext("2d");
  if (!inner) return css.exposed;
  inner.fillStyle = css.exposed;
  inner.fillRect(0, 0, 7, 7);
  inner.strokeStyle = css.bg;
  inner.globalAlpha = 0.62;
  inner.lineWidth = 1.7;
  inner.beginPath();
  for (const by of [-7, 0, 7]) {
    inner.moveTo(by - 1, 8);
    inner.lineTo(by + 8, -1);
  }
  inner.stroke();
  return context.createPattern(cell, "repeat") ?? css.exposed;
}
