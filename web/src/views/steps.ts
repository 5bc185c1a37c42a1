/** Step times over the run; slow steps are marked, and open in the timeline. A prediction has one step. */

import { curve } from "../charts/curve";
import { h } from "../dom";
import { badge, missing, section } from "../pieces";
import { explained } from "../results";
import { ms, percent, plural, tick } from "../text";
import type { TimelinePage } from "../page";
import type { Context } from "../view";

interface Steps {
  step: number[];
  ms: number[];
  steady: boolean[];
}

const SLOW = 1.1;
const NAMED = 8;
/** The scale reaches at least this multiple of the median; steps left out may lie above it. */
const HIGHEST = 1.15;

export function stepsOverRun(context: Context, basis: string): { element: HTMLElement | null; stop(): void } {
  const timeline = context.page.timelines[0];
  if (basis === "predicted") return { element: null, stop() {} };
  if (!timeline)
    return {
      element: section(
        "Steps of the run",
        null,
        missing("Single steps are unknown: the page holds no timeline."),
      ),
      stop() {},
    };
  const steps = timed(timeline.steps);
  if (steps.step.length < 2)
    return {
      element: section("Steps of the run", badge(basis), missing(few(context, steps.step.length))),
      stop() {},
    };
  const steady = steps.ms.filter((_, at) => steps.steady[at]);
  const median = middle(steady.length > 0 ? steady : steps.ms);
  const slow = steps.ms.map((value, at) => !!steps.steady[at] && value > SLOW * median);
  const top = Math.max(...steps.ms.filter((_, at) => steps.steady[at]), median * HIGHEST);
  const open = (at: number) => context.navigate("timeline", { step: String(steps.step[at]) });
  const drawn = curve({
    label: `Step times over the run: ${plural(steps.step.length, "step")}, median ${ms(median)} ms, ${plural(count(slow), "slow step")}`,
    height: 190,
    x: steps.step,
    curves: curves(steps, slow, median, top),
    xText: (value) => (Number.isInteger(value) ? String(value) : ""),
    counts: true,
    yText: tick,
    open,
  });
  const element = section(
    "Steps of the run",
    h("span", {}, `${plural(steps.step.length, "step")}, ms `, badge(basis)),
    drawn.element,
    key(),
    offScale(steps, top),
    slowOnes(steps, slow, median, open),
  );
  return { element, stop: drawn.stop };
}

/** Steps whose time on devices is known. */
function timed(steps: TimelinePage["steps"]): Steps {
  const known = steps.ms.every((value) => value !== null);
  return known ? { ...steps, ms: steps.ms as number[] } : { step: [], ms: [], steady: [] };
}

function few(context: Context, found: number): string {
  const whole = explained(context.page)?.steps;
  if (found === 0 || whole?.count === 0)
    return "No step was recorded whole, so there is no curve.";
  return "One step was recorded, so there is no curve: profile more steps to see how they differ.";
}

function curves(steps: Steps, slow: boolean[], median: number, top: number) {
  const only = (wanted: (at: number) => boolean) =>
    steps.ms.map((value, at) => (wanted(at) ? Math.min(value, top) : null));
  return [
    {
      title: "median",
      stroke: "--muted",
      values: steps.ms.map(() => median),
      style: "line" as const,
      dash: [4, 4],
    },
    {
      title: "steps",
      stroke: "--compute",
      values: only((at) => !slow[at] && !!steps.steady[at]),
      style: "points" as const,
      size: 6,
    },
    {
      title: "left out",
      stroke: "--control",
      values: only((at) => !slow[at] && !steps.steady[at]),
      style: "points" as const,
      size: 4,
    },
    {
      title: "slow",
      stroke: "--exposed",
      values: only((at) => slow[at] as boolean),
      style: "points" as const,
      size: 9,
    },
  ];
}

function key(): HTMLElement {
  return h(
    "ul",
    { class: "legend" },
    h("li", {}, h("span", { class: "dot-key fill-compute" }), "step"),
    h(
      "li",
      {},
      h("span", { class: "dot-key big fill-exposed" }),
      `slow: more than ${percent(SLOW - 1, 0)} over the median`,
    ),
    h("li", {}, h("span", { class: "dot-key small fill-control" }), "left out of the statistics"),
  );
}

/** The first steps of a run compile, and may take a hundred times as long as the others. */
function offScale(steps: Steps, top: number): HTMLElement | null {
  const beyond = steps.ms.flatMap((value, at) =>
    value > top ? [`step ${steps.step[at]} with ${ms(value)} ms`] : [],
  );
  if (beyond.length === 0) return null;
  const more = beyond.length > NAMED ? ` and ${beyond.length - NAMED} more` : "";
  return h(
    "p",
    { class: "fine" },
    `Left out of the statistics and above the scale: ${beyond.slice(0, NAMED).join(", ")}${more}.`,
  );
}

function slowOnes(
  steps: Steps,
  slow: boolean[],
  median: number,
  open: (at: number) => void,
): HTMLElement | null {
  const order = steps.ms
    .map((_, at) => at)
    .filter((at) => slow[at])
    .sort((a, b) => (steps.ms[b] as number) - (steps.ms[a] as number));
  if (order.length === 0) return h("p", { class: "fine" }, "No slow steps.");
  const buttons = order.slice(0, NAMED).map((at) => {
    const over = `+${percent((steps.ms[at] as number) / median - 1, 0)}`;
    return h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: "chip", onclick: () => open(at) },
        `step ${steps.step[at]}: ${ms(steps.ms[at])} ms, ${over}`,
      ),
    );
  });
  return h(
    "ul",
    { class: "chips", "aria-label": "Slowest steps, in the timeline" },
    ...buttons,
    order.length > NAMED && h("li", { class: "muted" }, `and ${order.length - NAMED} more`),
  );
}

function middle(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  if (sorted.length === 0) return NaN;
  return sorted.length % 2
    ? (sorted[half] as number)
    : ((sorted[half - 1] as number) + (sorted[half] as number)) / 2;
}

function count(flags: boolean[]): number {
  return flags.filter(Boolean).length;
}
