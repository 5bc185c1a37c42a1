/** What lies over the rectangles: names, outlines, the arrow of a pair, a range. */

import { visible } from "../text";
import { fitting } from "./bands";
import { length } from "./axis";
import { FASTER, NEW, SLOWER } from "./painter";
import { inkOn, type Colour } from "./palette";
import type { Scene } from "./scene";
import { stepAt } from "./sides";
import type { Drawn, Spot } from "./spots";
import { type Lane, laneOf } from "./tracks";

const LABELLED = 34;
const MOST_LABELS = 600;

export function drawOverlay(context: CanvasRenderingContext2D, scene: Scene, height: number): void {
  context.font = scene.palette.font;
  context.textBaseline = "middle";
  drawSteps(context, scene, height);
  let left = MOST_LABELS;
  for (const drawn of scene.drawn) {
    const track = drawn.lane.side.page.tracks[drawn.lane.track];
    if (track?.kind !== "fold" && track?.kind !== "summary") left = drawLabels(context, scene, drawn, left);
  }
  if (scene.partner && scene.selection) drawPair(context, scene, scene.partner, scene.selection);
  if (scene.hovered) outline(context, scene, scene.hovered, scene.palette.css.text, 1);
  if (scene.partner) outline(context, scene, scene.partner, scene.palette.css.focus, 1);
  if (scene.selection) outline(context, scene, scene.selection, scene.palette.css.focus, 2);
  if (scene.range) drawRange(context, scene, scene.range, height);
}

/** Lines where steps begin. */
function drawSteps(
  context: CanvasRenderingContext2D,
  { sides, viewport, palette }: Scene,
  height: number,
): void {
  const side = sides[0];
  if (!side) return;
  context.fillStyle = palette.css.line;
  let last = -20;
  side.page.steps.start.forEach((_, row) => {
    const step = stepAt(side.page, row);
    const x = Math.round(viewport.x((step?.start ?? 0) - side.offset));
    if (x < 0 || x > viewport.width || x - last < 20) return;
    context.fillRect(x, 0, 1, height);
    last = x;
  });
}

function drawLabels(
  context: CanvasRenderingContext2D,
  scene: Scene,
  { lane, cover }: Drawn,
  most: number,
): number {
  const names = lane.side.ops?.name;
  if (!names || lane.height < 10 * scene.palette.scale) return most;
  const first = scene.viewport.start + lane.side.offset;
  const last = scene.viewport.end + lane.side.offset;
  const shortest = LABELLED * scene.viewport.unit;
  for (const layer of cover.layers) {
    if (layer.level > 0) continue;
    for (const tile of layer.tiles) {
      const { segments } = tile;
      const until = segments.from(last);
      for (let at = 0; at < until && most > 0; at++) {
        const start = segments.start[at]!;
        const end = start + segments.dur[at]!;
        if (end <= first || end - start < shortest) continue;
        const from = Math.max(start, first);
        if (Math.min(end, last) - from < shortest) continue;
        most--;
        const op = segments.op?.[at] ?? 0;
        const y = lane.y + segments.row[at]! * lane.pitch + lane.height / 2 - scene.scroll;
        drawLabel(
          context,
          scene,
          lane,
          op,
          scene.viewport.x(from - lane.side.offset),
          scene.viewport.x(Math.min(end, last) - lane.side.offset),
          y,
        );
      }
    }
  }
  return most;
}

function drawLabel(
  context: CanvasRenderingContext2D,
  scene: Scene,
  lane: Lane,
  op: number,
  x: number,
  end: number,
  y: number,
): void {
  const name = visible(lane.side.ops?.name[op] ?? "");
  const text = fitting(context, name, end - x - 8);
  if (!text) return;
  const colour = colourOf(scene, lane, op);
  // A dim span shows the background, and the hatching has its colour.
  const mark = scene.marks.of[op + lane.side.opBase] ?? 0;
  const dim = scene.marks.dims && !(mark & 1);
  if (lane.side.ops?.lane[op] === "collective" && !scene.marks.colours) {
    const width = Math.min(context.measureText(text).width + 6, end - x - 2);
    context.fillStyle = scene.palette.css.panel;
    context.globalAlpha = 0.86;
    context.fillRect(x + 1, y - 7 * scene.palette.scale, width, 14 * scene.palette.scale);
    context.globalAlpha = 1;
    context.fillStyle = scene.palette.css.text;
  } else context.fillStyle = dim ? scene.palette.css.muted : inkOn(colour);
  context.fillText(text, x + 4, y + 0.5);
}

function colourOf({ palette, marks }: Scene, lane: Lane, op: number): Colour {
  const { rgb } = palette;
  const mark = marks.of[op + lane.side.opBase] ?? 0;
  if (marks.colours)
    return mark & SLOWER ? rgb.bad : mark & FASTER ? rgb.good : mark & NEW ? rgb.accent : rgb.control;
  const of: Record<string, Colour> = {
    compute: rgb.compute,
    collective: rgb.panel,
    copy: rgb.copy,
    control: rgb.control,
    host: rgb.host,
  };
  return of[lane.side.ops?.lane[op] ?? "host"] ?? rgb.host;
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export function boxOf(scene: Scene, spot: Spot): Box | null {
  const lane = laneOf(scene.rows, spot.side.index, spot.track);
  if (!lane) return null;
  const x = scene.viewport.x(spot.start - spot.side.offset);
  const end = scene.viewport.x(spot.start + spot.dur - spot.side.offset);
  return {
    x,
    y: lane.y + spot.row * lane.pitch - scene.scroll,
    width: Math.max(end - x, 3),
    height: lane.height,
  };
}

function outline(
  context: CanvasRenderingContext2D,
  scene: Scene,
  spot: Spot,
  colour: string,
  width: number,
): void {
  const box = boxOf(scene, spot);
  if (!box || box.x > scene.viewport.width + 4 || box.x + box.width < -4) return;
  const x = Math.max(box.x, -6);
  const right = Math.min(box.x + box.width, scene.viewport.width + 6);
  context.strokeStyle = scene.palette.css.panel;
  context.lineWidth = width + 2;
  context.strokeRect(x - 0.5, box.y - 0.5, right - x + 1, box.height + 1);
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.strokeRect(x - 0.5, box.y - 0.5, right - x + 1, box.height + 1);
}

/** From the end of what starts an operation to what waits for it. */
function drawPair(context: CanvasRenderingContext2D, scene: Scene, one: Spot, other: Spot): void {
  const [from, to] = one.start <= other.start ? [one, other] : [other, one];
  const [a, b] = [boxOf(scene, from), boxOf(scene, to)];
  if (!a || !b) return;
  const [x, y] = [a.x + a.width, a.y + a.height / 2];
  const [endX, endY] = [b.x, b.y + b.height / 2];
  const bend = Math.max(Math.abs(endX - x) / 3, 24);
  context.strokeStyle = context.fillStyle = scene.palette.css.focus;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, y);
  context.bezierCurveTo(x + bend, y - 14, endX - bend, endY - 14, endX - 6, endY);
  context.stroke();
  context.beginPath();
  context.moveTo(endX, endY);
  context.lineTo(endX - 8, endY - 4);
  context.lineTo(endX - 8, endY + 4);
  context.fill();
}

function drawRange(
  context: CanvasRenderingContext2D,
  { viewport, palette }: Scene,
  [start, end]: [number, number],
  height: number,
): void {
  const [x, right] = [viewport.x(start), viewport.x(end)];
  context.globalAlpha = 0.14;
  context.fillStyle = palette.css.focus;
  context.fillRect(x, 0, right - x, height);
  context.globalAlpha = 1;
  context.fillRect(x, 0, 1, height);
  context.fillRect(right, 0, 1, height);
  const text = length(end - start);
  const high = 18 * palette.scale;
  const width = context.measureText(text).width + 12;
  const left = Math.min(Math.max((x + right - width) / 2, 4), viewport.width - width - 4);
  context.fillRect(left, 4, width, high);
  context.fillStyle = inkOn(palette.rgb.focus);
  context.fillText(text, left + 6, 4.5 + high / 2);
}
