/** The step in one page: its time, where it goes, what could be saved, how well the chip is used. */

import { meter, parts, stackedBar } from "../charts/bar";
import { fill, h, type Child } from "../dom";
import { badge, figure, missing, notes, section, swatch, unknown } from "../pieces";
import { basisOf, explained, predicted, type Explained, type Predicted } from "../results";
import { bytes, large, ms, msRange, percent, plural } from "../text";
import type { View } from "../view";
import { findings } from "./findings";
import { stepsOverRun } from "./steps";

const DEVICES = 16;

export const overview: View = {
  id: "overview",
  title: "Overview",
  available: (page) => explained(page) !== null,
  mount(root, context) {
    const step = explained(context.page);
    if (!step) return { show() {}, unmount() {} };
    const basis = basisOf(context.page);
    const run = stepsOverRun(context, basis);
    const side = h(
      "div",
      { class: "stack" },
      utilisation(step, basis),
      phases(step, basis),
      memory(context.page),
      machine(step, predicted(context.page)),
      notes("Notes", step.notes),
    );
    const main = h(
      "div",
      { class: "stack" },
      stepTime(step, basis, predicted(context.page)),
      run.element,
      findings(step, context),
    );
    fill(root, h("div", { class: "overview" }, main, side));
    return { show() {}, unmount: run.stop };
  },
};

function stepTime(step: Explained, basis: string, foreseen: Predicted | null): HTMLElement {
  const { steps } = step;
  const shown = steps.median_ms ?? steps.window_ms;
  const number = h(
    "p",
    { class: "headline" },
    h("span", { class: "big" }, figure(shown, ms, "no step and no run of its program was recorded whole")),
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
    return steps.window_ms === null ? "" : "one run of its program: no step was recorded whole";
  return steps.count === 1 ? "the one whole step" : "median step";
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
  if (!known) return missing("Where the step goes is unknown: no op on a device was recorded in it.");
  const whole = known.reduce((sum, part) => sum + part.ms, 0);
  const rows = known.map((part) =>
    h(
      "tr",
      { class: part.ms === 0 ? "zero" : null },
      h("th", { scope: "row" }, swatch(part.kind), part.title),
      h("td", { class: "num" }, `${ms(part.ms)}`),
      h("td", { class: "num" }, part.ms === 0 ? "0" : percent(part.ms / whole)),
    ),
  );
  const total = h(
    "tr",
    { class: "total" },
    h("th", { scope: "row" }, steps.window === "step" ? "step" : "run of the program"),
    h("td", { class: "num" }, ms(whole)),
    h("td", { class: "num" }, "100%"),
  );
  return h(
    "div",
    {},
    stackedBar(known, whole, "Where the step goes"),
    h(
      "div",
      { class: "parts-and-devices" },
      h(
        "table",
        { class: "data parts" },
        h("caption", { class: "sr" }, "Where the step goes: milliseconds, mean over devices"),
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

function utilisation({ utilisation: use }: Explained, basis: string): HTMLElement {
  const noChip = "the chip is not known; name it with --target";
  const noFlops = "the program's FLOPs are not known: a profile without its program";
  const rows: [string, number | null, string, string | null][] = [
    ["busy", use.busy_share, "no op was recorded", null],
    [
      "MFU",
      use.mfu,
      use.chip ? noFlops : noChip,
      use.flops_per_s === null ? null : large(use.flops_per_s, "FLOP/s"),
    ],
    [
      "HBM bandwidth",
      use.hbm_share,
      use.chip ? "the bytes that ops move are not known" : noChip,
      use.bytes_per_s === null ? null : large(use.bytes_per_s, "B/s"),
    ],
  ];
  const shown = rows.map(([name, share, reason, rate]) =>
    h(
      "div",
      { class: "use" },
      h("dt", {}, name),
      h(
        "dd",
        {},
        h(
          "b",
          {},
          figure(share, (value) => percent(value), reason),
        ),
        share === null ? null : meter(share),
        h("span", { class: "muted" }, rate),
      ),
    ),
  );
  const partly = use.flops_known_share !== null && use.flops_known_share < 0.995;
  return section(
    "Utilisation",
    h("span", {}, use.chip ?? "", " ", badge(basis)),
    h("dl", { class: "uses" }, ...shown),
    partly &&
      h(
        "p",
        { class: "fine" },
        `FLOPs are known for ${percent(use.flops_known_share, 0)} of the compute time: the true MFU is higher.`,
      ),
  );
}

function phases({ phases: found }: Explained, basis: string): HTMLElement {
  const rows = Object.entries(found ?? {}).flatMap(([key, value]) =>
    value ? [{ name: key.replace(/_ms$/, ""), ms: value }] : [],
  );
  const whole = rows.reduce((sum, row) => sum + row.ms, 0);
  if (rows.length === 0)
    return section(
      "Phases",
      badge(basis),
      missing("Unknown: names of ops tell neither forward nor backward."),
    );
  const shown = rows.map((row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, row.name),
      h("td", { class: "wide" }, meter(row.ms / whole, "compute")),
      h("td", { class: "num" }, ms(row.ms)),
      h("td", { class: "num" }, percent(row.ms / whole)),
    ),
  );
  const head = h(
    "tr",
    {},
    h("th", { scope: "col" }, "phase"),
    h("td", {}),
    h("th", { scope: "col", class: "num" }, "ms"),
    h("th", { scope: "col", class: "num" }, "of busy"),
  );
  return section(
    "Phases",
    badge(basis),
    h(
      "table",
      { class: "data" },
      h("caption", { class: "sr" }, "Busy time by phase"),
      h("thead", {}, head),
      h("tbody", {}, ...shown),
    ),
  );
}

function memory(page: Parameters<typeof predicted>[0]): HTMLElement {
  const step = predicted(page)?.prediction;
  if (!step || step.peak_bytes === null) {
    return section(
      "Memory",
      null,
      missing(
        unknown("neither the recording nor the command kept samples of memory"),
        " Not recorded: profiles of devices hold no memory samples. ",
        h("code", {}, "counterpoint predict"),
        " plans the peak.",
      ),
    );
  }
  const limit = step.available_bytes;
  const share = limit ? step.peak_bytes / limit : null;
  return section(
    "Memory",
    badge("predicted"),
    h(
      "p",
      { class: "headline small" },
      h("span", { class: "big" }, bytes(step.peak_bytes)),
      h("span", { class: "what" }, limit ? `peak, of ${bytes(limit)} that the allocator has` : "peak"),
    ),
    share !== null && meter(share, share > 1 ? "bad" : "accent"),
    h(
      "p",
      { class: "fine" },
      step.fits === null
        ? "Whether it fits is unknown."
        : step.fits
          ? "It fits. The peak is the compiler's plan; memory over time is not simulated."
          : "It does not fit.",
    ),
  );
}

function devicesOf(step: Explained, foreseen: Predicted | null): string {
  const chip = step.utilisation.chip ?? step.device_kind;
  const all = foreseen?.prediction.devices ?? step.devices;
  return `${all} × ${chip}${all === step.devices ? "" : `, of which ${step.devices} was simulated`}`;
}

function machine(step: Explained, foreseen: Predicted | null): HTMLElement {
  const main = step.programs.find((program) => program.is_step);
  const rows: [string, Child][] = [
    ["devices", devicesOf(step, foreseen)],
    foreseen ? ["target", foreseen.prediction.target] : ["hosts", String(step.hosts)],
    [
      "program",
      main
        ? `${main.name}, ${plural(main.executions, "run")} on each device`
        : unknown("no program was recorded"),
    ],
    ["inputs", h("span", {}, ...step.inputs.map((input) => h("span", { class: "path" }, input)))],
  ];
  return section(
    foreseen ? "What was simulated" : "What was read",
    null,
    h("dl", { class: "facts" }, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
  );
}
