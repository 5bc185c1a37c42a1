/** The time of a step, its spread, and where it goes. */

import { parts, sharesOf, stackedBar } from "../charts/bar";
import { h, type Child } from "../dom";
import { badge, figure, missing, section, swatch, unknown } from "../pieces";
import type { Explained, Predicted, StepTimes } from "../results";
import { ms, msRange, percent, plural } from "../text";
import { windowName } from "./window";

/** So many devices have bars of their own. */
const DEVICES = 16;

export function stepTime(step: Explained, basis: string, foreseen: Predicted | null): HTMLElement {
  const { steps } = step;
  const shown = steps.median_ms ?? steps.window_ms;
  const number = h(
    "p",
    { class: "headline" },
    h("span", { class: "big" }, figure(shown, ms, "no step and no run of a program was recorded whole")),
    h("span", { class: "unit" }, "ms"),
    h("span", { class: "what" }, whatOf(step, basis)),
  );
  return section(
    "Step time",
    badge(basis),
    number,
    spread(step, foreseen),
    breakdown(step),
    h("p", { class: "fine" }, steps.how),
  );
}

function whatOf({ steps }: Explained, basis: string): string {
  if (basis === "predicted") return "predicted step";
  if (steps.median_ms === null)
    return steps.window_ms === null ? "" : `${windowName(steps)}: no step was recorded whole`;
  return steps.count === 1 ? "the one whole step" : "median step";
}

function totalOf(steps: StepTimes): string {
  if (steps.window === "step") return "step";
  return steps.window === "profile" ? windowName(steps) : "total";
}

function spread({ steps }: Explained, foreseen: Predicted | null): HTMLElement {
  const facts: [string, Child][] = [];
  if (foreseen?.prediction.range_ms) {
    const covers = foreseen.prediction.range_covers;
    const said = covers
      ? `${percent(covers.share, 0)} of ${plural(covers.published_steps, "published step")} lie in such a range`
      : null;
    facts.push(["range", h("span", { title: said }, msRange(foreseen.prediction.range_ms))]);
  } else if (steps.count > 1) {
    facts.push([
      "min to max",
      figure(steps.min_ms, () => `${ms(steps.min_ms)} to ${ms(steps.max_ms)} ms`, "too few steps"),
    ]);
    facts.push([
      "p10 to p90",
      figure(
        steps.p10_ms,
        () => `${ms(steps.p10_ms)} to ${ms(steps.p90_ms)} ms`,
        `too few steps to tell: ${steps.count} were recorded whole`,
      ),
    ]);
  } else {
    facts.push([
      "spread",
      unknown(
        steps.count === 1
          ? "one step has no spread: profile more steps"
          : "no step was recorded whole: profile more steps",
      ),
    ]);
  }
  facts.push(["steps", String(steps.count)]);
  if (steps.execution_ms !== null) facts.push(["in its program", `${ms(steps.execution_ms)} ms`]);
  if (steps.run_median_ms !== null)
    facts.push([
      "by the run's own log",
      `${ms(steps.run_median_ms)} ms over ${plural(steps.run_steps ?? 0, "step")}`,
    ]);
  return h(
    "dl",
    { class: "facts-line" },
    ...facts.flatMap(([name, value]) => [h("div", {}, h("dt", {}, name), h("dd", {}, value))]),
  );
}

function breakdown(step: Explained): HTMLElement {
  const { breakdown: found, steps } = step;
  const known = found && found.compute_ms !== null ? parts(found) : null;
  if (!known) return missing(`Where ${windowName(steps)} goes is unknown: no op on a device was recorded in it.`);
  const whole = known.reduce((sum, part) => sum + part.ms, 0);
  const shares = sharesOf(known);
  const rows = known.map((part, at) =>
    h(
      "tr",
      { class: part.ms === 0 ? "zero" : null },
      h("th", { scope: "row" }, swatch(part.kind), part.title),
      h("td", { class: "num" }, `${ms(part.ms)}`),
      h("td", { class: "num" }, shares[at]),
    ),
  );
  const total = h(
    "tr",
    { class: "total" },
    h("th", { scope: "row" }, totalOf(steps)),
    h("td", { class: "num" }, ms(whole)),
    h("td", { class: "num" }, "100%"),
  );
  return h(
    "div",
    {},
    stackedBar(known, whole, `Where ${windowName(steps)} goes`),
    h(
      "div",
      { class: "parts-and-devices" },
      h(
        "table",
        { class: "data parts" },
        h("caption", { class: "sr" }, `Where ${windowName(steps)} goes: milliseconds, mean over devices`),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "where it goes"),
            h("th", { scope: "col", class: "num" }, "ms"),
            h("th", { scope: "col", class: "num" }, "share"),
          ),
        ),
        h("tbody", {}, ...rows, total),
      ),
      devices(step),
    ),
  );
}

/** A bar for each device, where there are several but not too many to see. */
function devices({ device_breakdowns: each }: Explained): HTMLElement | null {
  if (each.length < 2) return null;
  const bars = each.slice(0, DEVICES).map((one) => ({ device: one.device, parts: parts(one) }));
  const total = (of: readonly { ms: number }[]) => of.reduce((sum, part) => sum + part.ms, 0);
  const most = Math.max(...bars.map((bar) => total(bar.parts))) || 1;
  const rows = bars.map((bar) =>
    h(
      "li",
      {},
      h("span", { class: "num" }, String(bar.device)),
      stackedBar(bar.parts, most, `Device ${bar.device}`),
    ),
  );
  const more =
    each.length > DEVICES && h("p", { class: "fine" }, `and ${plural(each.length - DEVICES, "device")} more`);
  return h("div", { class: "devices" }, h("h3", {}, "each device"), h("ul", {}, ...rows), more);
}
