/** The axis of time with readable units, and how lengths of time are written. */

import { decimal } from "../text";
import { type Side, stepAt, stepRow } from "./sides";
import type { Viewport } from "./viewport";

const UNITS: readonly [number, string][] = [
  [1e12, "s"],
  [1e9, "ms"],
  [1e6, "µs"],
  [1e3, "ns"],
  [1, "ps"],
];
const BETWEEN = 110;

/** A length of time with three or four figures: 131.2 ms, 4.07 µs. */
export function length(ps: number): string {
  const size = Math.abs(ps);
  const [unit, name] = UNITS.find(([unit]) => size >= unit) ?? [1, "ps"];
  const value = ps / unit;
  const digits = unit === 1 ? 0 : Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 10 ? 2 : 3;
  return size === 0 ? "0" : `${decimal(value, digits)} ${name}`;
}

export interface Tick {
  x: number;
  text: string;
  /** Between two that are labelled. */
  minor: boolean;
}

export interface Axis {
  /** From which ticks count, common time. */
  zero: number;
  about: string;
}

/** Counts from the start of the step on screen, or of the capture where several are. */
export function axisOf(side: Side, viewport: Viewport): Axis {
  const { page, offset } = side;
  const row = stepRow(page, viewport.start + offset + viewport.length * 0.25);
  const step = row < 0 ? null : stepAt(page, row);
  if (step && viewport.end + offset > step.start && viewport.length < 2.5 * (step.end - step.start)) {
    return { zero: step.start - offset, about: `from step ${step.number}` };
  }
  return { zero: -offset, about: "from the start" };
}

export function ticks(viewport: Viewport, zero: number, scale: number): Tick[] {
  const step = rounded(viewport.unit * BETWEEN * scale);
  const [unit, name] = UNITS.find(([unit]) => step >= unit) ?? [1, "ps"];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
  const parts =
    step / 10 ** Math.floor(Math.log10(step) + 1e-9) < 1.5 ? 5 : step.toPrecision(1).startsWith("2") ? 4 : 5;
  const found: Tick[] = [];
  const first = Math.floor((viewport.start - zero) / step);
  for (let at = first; zero + at * step <= viewport.end; at++) {
    const value = (at * step) / unit;
    found.push({
      x: viewport.x(zero + at * step),
      text: `${decimal(value, digits)} ${name}`.replace("-", "−"),
      minor: false,
    });
    for (let part = 1; part < parts; part++) {
      found.push({ x: viewport.x(zero + (at + part / parts) * step), text: "", minor: true });
    }
  }
  return found;
}

/** 1, 2 or 5 times a power of ten, at least so much. */
function rounded(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return ([1, 2, 5].find((factor) => factor * power >= least) ?? 10) * power;
}
