/** What both painters of rectangles take: a GPU by WebGL2 (rectangles.ts), or the CPU (pixels.ts). */

import type { Palette } from "./palette";
import type { Instances } from "./instances";

/** A tile on screen. Times are common, lengths CSS pixels. */
export interface Placement {
  drawn: Instances;
  rows: number;
  y: number;
  /** From one row to the next, and how much of it is drawn. */
  pitch: number;
  height: number;
  hole: [number, number] | null;
  isSpans: boolean;
  isHost: boolean;
  /** Few enough that each may be seen although it is narrower than a pixel. */
  isSparse: boolean;
}

/** What is said of ops by colour or by dimming: one byte for each op of all sides. */
export interface Marks {
  of: Uint8Array;
  /** Ops without MATCH are dim. */
  dims: boolean;
  /** SLOWER, FASTER and NEW replace the colours of classes. */
  colours: boolean;
}

export const MATCH = 1;
export const SLOWER = 2;
export const FASTER = 4;
export const NEW = 8;

export interface Frame {
  start: number;
  /** Picoseconds of a CSS pixel. */
  unit: number;
  width: number;
  height: number;
  scroll: number;
  ratio: number;
  placements: Placement[];
  /** Buckets of folds (folds.ts). */
  folds: number[][];
  palette: Palette;
  marks: Marks;
}

export interface Painter {
  readonly how: "WebGL2" | "Canvas 2D";
  /** Whether it draws fewer rectangles faster, so that those too dense for the screen are merged. */
  readonly merges: boolean;
  /** Rectangles of the latest frame. */
  readonly rectangles: number;
  /** `over`: the canvas on top, which names and marks are drawn on next. */
  paint(frame: Frame, over: CanvasRenderingContext2D): void;
  dispose(): void;
}

/** Alpha of what a search doesn't find. */
export const DIM = 0.22;
/** A span of less than a pixel is at least so visible, in a track with few. */
export const FAINTEST = 0.14;
/** Pixels from stripe to stripe of the hatching, and how wide one is. */
export const HATCH = 7;
export const HATCHED = 2.4;
