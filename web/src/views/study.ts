/** A study: what each arm gains, with its interval and its rows; what was dropped, and why. */

import { intervals, type Interval } from "../charts/intervals";
import { fieldColumns } from "../columns";
import { fill, h, type Child } from "../dom";
import { badge, bothSteps, copyable, figure, missing, notes, section, settingsLine, unknown } from "../pieces";
import { ArmPredictedColumns, ArmResultColumns, type ArmPredicted } from "../records";
import { tuned, type Estimate, type TuneArm, type Tuned } from "../results";
import { table, type Column } from "../table";
import { count, ms, percent, plural, seconds, signed } from "../text";
import type { Context, View } from "../view";

const PLOTTED = 30;

export const study: View = {
  id: "study",
  title: "Study",
  available: (page) => tuned(page) !== null,
  mount(root, context) {
    const found = tuned(context.page);
    if (!found) return { show() {}, unmount() {} };
    const plot = estimates(found);
    fill(
      root,
      h(
        "div",
        { class: "stack" },
        verdict(found),
        plot.element,
        section("All arms", null, arms(found)),
        dropped(found),
        ablation(found),
        timelines(found, context),
        notes("Notes", found.notes),
      ),
    );
    return { show() {}, unmount: plot.stop };
  },
};

/** The predicted steps that the study kept, or how to get timelines. */
function timelines(found: Tuned, context: Context): HTMLElement {
  const steps = bothSteps(context);
  const show = `counterpoint tune show ${quoted(found.study)}`;
  if (steps)
    return section(
      "Timelines",
      badge("predicted"),
      steps,
      h("p", { class: "fine" }, "The study keeps the predicted steps of its fastest arms. Those of another one:"),
      copyable(`${show} --arm NAME --html page.html`, "Copy the command for another arm"),
    );
  if (!wasRun(found))
    return section(
      "Timelines",
      null,
      missing(
        context.page.timelines.length ? "The base's alone here: " : "None here: ",
        h("code", {}, `counterpoint view ${quoted(found.study)}`),
        " shows the predicted steps of arms whose schedule differs from the base's, if the study kept them.",
      ),
    );
  return section(
    "Timelines",
    null,
    missing("None: a study keeps the step times of its trials, and predicted steps. To see an arm, profile it:"),
    copyable(`${show} --arm NAME --as env -o arm.env`, "Copy the command that writes its settings"),
    copyable(
      "counterpoint run --settings arm.env --profile-start-step 5 -o arm -- COMMAND",
      "Copy the command that runs it",
    ),
    h("p", { class: "fine" }, "Do the same for base; then ", h("code", {}, "counterpoint view base arm"), "."),
  );
}

/** A word of a command line. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'"'"'`)}'`;
}

const gainText = (gain: number, digits = 1) => signed(gain, (value) => percent(value, digits));
/** As many decimals of a percentage as tell marks apart that are `step` from each other. */
const decimalsOf = (step: number) => Math.max(0, Math.ceil(-Math.log10(step * 100) - 1e-9));

function rangeText(range: readonly [number, number]): string {
  return `${gainText(range[0])} to ${gainText(range[1])}`;
}

function verdict(found: Tuned): HTMLElement {
  const facts: [string, Child][] = [
    ["gain", figure(found.gain, gainText, "no arm won")],
    ["range", found.range ? rangeText(found.range) : unknown("no arm won")],
    ["state", found.state],
    ["confirmed", found.confirmed ? "by fresh runs" : "no"],
    [
      "noise of identical runs",
      found.noise
        ? figure(found.noise.sigma, (sigma) => percent(sigma, 2), found.noise.why_no_sigma ?? "not measured")
        : unknown("nothing was run"),
    ],
  ];
  if (found.spent)
    facts.push(["spent", `${plural(found.spent.trials, "trial")}, ${seconds(found.spent.seconds)}`]);
  const settings = found.settings && settingsLine(found.settings.xla_flags, found.settings.environment);
  return section(
    found.study,
    badge(found.basis),
    h("p", { class: "sentence" }, found.sentence),
    h(
      "dl",
      { class: "facts-line" },
      ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    ),
    settings && copyable(settings, "Copy the winner's settings"),
    found.beside_settings.length > 0 &&
      h("p", { class: "fine" }, `Beside the settings: ${found.beside_settings.join("; ")}.`),
  );
}

/** What counts of an arm: its fresh runs, or else the race. */
function estimate(arm: TuneArm): Estimate | null {
  return arm.confirmed ?? arm.raced;
}

function estimates(found: Tuned): { element: HTMLElement; stop(): void } {
  const rows = found.arms
    .filter((arm) => estimate(arm) || (arm.predicted && arm.origin !== "base"))
    .slice(0, PLOTTED);
  if (rows.length === 0)
    return {
      element: section(
        "Estimates",
        badge(found.basis),
        missing("None yet: no arm was measured or predicted."),
      ),
      stop() {},
    };
  const noise = found.noise?.floor;
  const plot = intervals({
    label: "Gain of each arm over the base",
    axis: "gain over the base",
    tick: (gain, step) => gainText(gain, decimalsOf(step)),
    rows: rows.map(interval),
    zero: 0,
    ...(noise ? { band: noise } : {}),
  });
  const key = h(
    "ul",
    { class: "legend" },
    wasRun(found) && h("li", {}, h("span", { class: "dot-key big fill-measured" }), "measured, with its range"),
    wasRun(found) &&
      h("li", {}, h("span", { class: "dot-key small fill-control" }), "a row: arm and base side by side"),
    h("li", {}, h("span", { class: "dot-key fill-predicted" }), "predicted, with its range"),
    noise && h("li", {}, h("span", { class: "swatch fill-band" }), `within ${percent(noise)}: no effect`),
  );
  return { element: section("Estimates", badge(found.basis), plot.element, key), stop: plot.stop };
}

function interval(arm: TuneArm): Interval {
  const measured = estimate(arm);
  const foreseen = arm.predicted && { value: arm.predicted.gain, range: arm.predicted.gain_range };
  const gain = measured?.gain ?? null;
  if (!measured && foreseen)
    return { name: arm.name, ...foreseen, tone: "predicted", text: `${gainText(foreseen.value)} predicted` };
  return {
    name: arm.name,
    value: gain,
    range: measured?.range ?? null,
    second: foreseen,
    each: measured?.pairs.map((pair) => 1 - pair.step_ms / pair.base_ms) ?? [],
    tone: "measured",
    text: gain === null ? "?" : `${gainText(gain)}, ${measured?.verdict ?? ""}`,
  };
}

/** Whether anything was measured: a study may only predict. */
function wasRun(found: Tuned): boolean {
  return found.arms.some((arm) => arm.trials > 0 || estimate(arm));
}

function arms(found: Tuned): HTMLElement {
  // As the report has it: the winner of a prediction is the best of those that are worth a trial.
  const isBest = (arm: TuneArm) => !wasRun(found) && arm.name === found.winner;
  const status = (arm: TuneArm) => (isBest(arm) ? "best" : arm.status);
  const columns: Column<TuneArm>[] = [
    { title: "arm", value: (arm) => arm.name, cell: (arm) => arm.name },
    {
      title: "status",
      value: status,
      cell: (arm) => h("span", { class: `outcome ${tone(status(arm))}` }, status(arm)),
    },
    ...(wasRun(found) ? measured() : predicted()),
  ];
  return table({
    caption: "Arms of the study",
    columns,
    rows: found.arms,
    text: (arm) => `${arm.name} ${arm.status} ${arm.why ?? ""}`,
  });
}

function predicted(): Column<TuneArm>[] {
  const unpredicted = (arm: TuneArm) => arm.why ?? "it was not predicted";
  return [
    {
      title: "gain",
      numeric: true,
      value: (arm) => arm.predicted?.gain ?? null,
      cell: (arm) => (arm.origin === "base" ? "–" : figure(arm.predicted?.gain, gainText, unpredicted(arm))),
    },
    {
      title: "range",
      value: (arm) => arm.predicted?.gain_range[0] ?? null,
      cell: (arm) =>
        arm.origin === "base"
          ? "–"
          : arm.predicted
            ? rangeText(arm.predicted.gain_range)
            : unknown(unpredicted(arm)),
    },
    ...fieldColumns<ArmPredicted>(ArmPredictedColumns).map((column) => ({
      ...column,
      value: (arm: TuneArm) => (arm.predicted ? column.value(arm.predicted) : null),
      cell: (arm: TuneArm) => (arm.predicted ? column.cell(arm.predicted) : unknown(unpredicted(arm))),
    })),
  ];
}

function measured(): Column<TuneArm>[] {
  return [
    {
      title: "gain",
      numeric: true,
      value: (arm) => estimate(arm)?.gain ?? null,
      cell: (arm) => gainCell(arm),
    },
    { title: "range", value: (arm) => estimate(arm)?.range?.[0] ?? null, cell: (arm) => rangeCell(arm) },
    {
      title: "rows",
      hint: "passes in which arm and base both ran",
      numeric: true,
      value: (arm) => estimate(arm)?.rows ?? null,
      cell: (arm) => rowsCell(arm),
    },
    {
      title: "p",
      numeric: true,
      value: (arm) => estimate(arm)?.p ?? null,
      cell: (arm) =>
        arm.origin === "base"
          ? "–"
          : figure(estimate(arm)?.p, (p) => String(Number(p.toPrecision(2))), "too few rows"),
    },
    {
      title: "predicted",
      numeric: true,
      value: (arm) => arm.predicted?.gain ?? null,
      cell: (arm) => figure(arm.predicted?.gain, gainText, "it was not predicted"),
    },
    ...fieldColumns<TuneArm>(ArmResultColumns, {
      trials: (arm) => (arm.failures ? `${count(arm.trials)}, ${arm.failures} failed` : count(arm.trials)),
    }),
  ];
}

function gainCell(arm: TuneArm): Child {
  if (arm.origin === "base") return "–";
  return figure(estimate(arm)?.gain, gainText, arm.why ?? "it was not measured");
}

function rangeCell(arm: TuneArm): Child {
  if (arm.origin === "base") return "–";
  const found = estimate(arm);
  return found?.range
    ? rangeText(found.range)
    : unknown(found?.why_no_range ?? arm.why ?? "it was not measured");
}

/** The rows themselves unfold. */
function rowsCell(arm: TuneArm): Child {
  const found = estimate(arm);
  if (!found) return "0";
  if (found.pairs.length === 0) return count(found.rows);
  const each = found.pairs.map((pair) =>
    h(
      "li",
      {},
      `row ${pair.row}: ${ms(pair.step_ms)} against ${ms(pair.base_ms)} ms, ${gainText(1 - pair.step_ms / pair.base_ms)}`,
    ),
  );
  return h("details", { class: "rows" }, h("summary", {}, count(found.rows)), h("ul", {}, ...each));
}

const GOOD = ["winner", "best", "faster"];
/** Slower arms, and each way in which an arm's runs fail. */
const BAD = [
  ...["slower", "failed", "no profile", "unknown flag", "not applied", "out of memory", "NaN"],
  ...["other numbers", "fewer steps", "hang", "timeout", "crash", "no steps", "unsteady"],
];

function tone(status: string): string {
  if (GOOD.includes(status)) return "good";
  if (BAD.includes(status)) return "bad";
  return "";
}

function dropped(found: Tuned): HTMLElement | null {
  const rows = [
    ...found.arms
      .filter((arm) => arm.why)
      .map((arm) => ({ name: arm.name, status: arm.status, why: arm.why as string })),
    ...found.left_out.map((row) => ({ name: row.name, status: "left out", why: row.why })),
  ];
  if (rows.length === 0) return null;
  type Row = (typeof rows)[number];
  const columns: Column<Row>[] = [
    { title: "arm", value: (row) => row.name, cell: (row) => row.name },
    { title: "status", value: (row) => row.status, cell: (row) => row.status },
    { title: "why", wide: true, value: (row) => row.why, cell: (row) => row.why },
  ];
  return section("What was dropped, and why", null, table({ caption: "Dropped arms", columns, rows }));
}

function ablation(found: Tuned): HTMLElement | null {
  if (found.ablation.length === 0) return null;
  type Row = Tuned["ablation"][number];
  const columns: Column<Row>[] = [
    { title: "without", value: (row) => row.dimension, cell: (row) => `${row.dimension} ${row.choice}` },
    {
      title: "the winner loses",
      numeric: true,
      value: (row) => row.loses,
      cell: (row) => percent(row.loses),
    },
    {
      title: "range",
      value: (row) => row.range?.[0] ?? null,
      cell: (row) =>
        row.range
          ? `${percent(row.range[0])} to ${percent(row.range[1])}`
          : unknown("it was not measured often enough"),
    },
    { title: "basis", wide: true, value: (row) => row.basis, cell: (row) => badge(row.basis) },
  ];
  return section(
    "What each change is worth",
    null,
    table({ caption: "Ablation of the winner", columns, rows: found.ablation }),
  );
}
