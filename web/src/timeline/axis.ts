/** The axis of time with readable units, and how lengths of time are written. */

import { roundStep } from "../charts/axis";
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

/** So many ticks from where they count, their numbers are too long to be read. */
const FAR = 10_000;

/** Counts from the start of the step on screen of any side, or of the capture where several are; or from a round moment later. */
export function axisOf(sides: readonly Side[], viewport: Viewport): Axis {
  const starts = sides.map((side) => stepOn(side, viewport)).filter((start) => start !== null);
  const axis = starts[0] ?? { zero: -(sides[0]?.offset ?? 0), about: sides.length ? "from the start" : "" };
  const step = stepOf(viewport, 1);
  if (viewport.start - axis.zero < FAR * step) return axis;
  const round = step * 1000;
  const later = Math.floor((viewport.start - axis.zero) / round) * round;
  const [unit, name] = UNITS.find(([unit]) => later >= unit) ?? [1, "ps"];
  const digits = Math.max(0, Math.ceil(-Math.log10(round / unit) - 1e-9));
  return { zero: axis.zero + later, about: `${axis.about} + ${decimal(later / unit, digits)} ${name}` };
}

function stepOn({ page, offset, letter }: Side, viewport: Viewport): Axis | null {
  const row = stepRow(page, viewport.start + offset + viewport.length * 0.25);
  const step = row < 0 ? null : stepAt(page, row);
  if (step && viewport.end + offset > step.start && viewport.length < 2.5 * (step.end - step.start)) {
    return { zero: step.start - offset, about: `from step ${step.number}${letter && ` of ${letter}`}` };
  }
  return null;
}

export function ticks(viewport: Viewport, zero: number, scale: number): Tick[] {
  const step = stepOf(viewport, scale);
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

function stepOf(viewport: Viewport, scale: number): number {
  return roundStep(Math.max(viewport.unit * BETWEEN * scale, 1));
}
