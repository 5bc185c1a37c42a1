/** Two runs side by side: their steps, the parts of them, and the settings that differ. */

import { parts as partsOf, stackedBar, type Part } from "../charts/bar";
import { fill, h, type Child } from "../dom";
import type { Page } from "../page";
import { badge, figure, missing, notes, section, swatch, unknown } from "../pieces";
import { compared, predicted, tuned, type Change, type Compared } from "../results";
import { table, type Column } from "../table";
import { ms, msRange, percent, plural, signed } from "../text";
import type { Context, View } from "../view";
import { changedOps, collectives, differenceIn, sameBasis, schedule } from "./differences";

/** What is shown of the change of a step. */
type StepChange = Pick<Compared["step"], "a_ms" | "b_ms" | "change" | "range" | "verdict" | "how">;

export const compare: View = {
  id: "compare",
  title: "Compare",
  available: (page) => compared(page) !== null,
  mount(root, context) {
    const found = compared(context.page);
    if (!found) return { show() {}, unmount() {} };
    const ops = changedOps(found, context);
    fill(
      root,
      h(
        "div",
        { class: "stack" },
        steps(found, context),
        bars(found),
        changes(found),
        ops.element,
        collectives(found),
        schedule(found),
        notes("Notes", found.notes),
      ),
    );
    return { show: ops.show, unmount() {} };
  },
};

function steps(found: Compared, context: Context): HTMLElement {
  const { timelines } = context.page;
  const step = asStudied(context.page) ?? asRanked(context.page) ?? found.step;
  const side = (name: string, side: Compared["a"], time: number | null, at: number) => {
    const range = timelines.length === 2 ? timelines[at]?.range_ms : null;
    return h(
      "div",
      { class: "side" },
      h("div", { class: "side-name" }, h("b", {}, name), badge(side.basis ?? "unknown basis")),
      h(
        "p",
        { class: "headline" },
        h("span", { class: "big" }, figure(time ?? side.median_step_ms, ms, step.how)),
        h("span", { class: "unit" }, "ms"),
      ),
      range && h("p", {}, msRange(range), h("span", { class: "muted" }, " range")),
      h("p", { class: "path" }, side.name),
      h(
        "p",
        { class: "fine" },
        `${side.steps === null ? "steps unknown" : plural(side.steps, "step")} on ${devices(side)}${side.runs > 1 ? `, the middle one of ${side.runs} runs` : ""}`,
      ),
    );
  };
  const range = step.range
    ? `${signed(step.range[0], (value) => percent(value))} to ${signed(step.range[1], (value) => percent(value))}`
    : null;
  const middle = h(
    "div",
    { class: "side change" },
    h("div", { class: "side-name" }, h("b", {}, "B relative to A")),
    h(
      "p",
      { class: "headline" },
      h(
        "span",
        { class: `big ${toneOf(step.verdict)}` },
        figure(step.change, (value) => signed(value, (size) => percent(size)), step.how),
      ),
    ),
    h("p", {}, range ?? unknown(step.how), h("span", { class: "muted" }, " range")),
    h("p", { class: `verdict ${toneOf(step.verdict)}` }, step.verdict),
  );
  const link =
    context.page.timelines.length > 1 &&
    h(
      "button",
      { type: "button", class: "link", onclick: () => context.navigate("timeline") },
      "Both timelines, one above the other",
    );
  return section(
    "Step time",
    link,
    h("div", { class: "sides" }, side("A", found.a, step.a_ms, 0), side("B", found.b, step.b_ms, 1), middle),
    h("p", { class: "fine" }, step.how),
  );
}

function devices(side: Compared["a"]): string {
  if (side.devices === null) return "unknown devices";
  if (side.basis === "predicted") return "one device, which represents all";
  return plural(side.devices, "device");
}

/** The change of an arm's step as its study predicts it: errors that both steps share cancel there. */
function asStudied(page: Page): StepChange | null {
  const named = (name: string) => tuned(page)?.arms.find((arm) => isNamed(arm, name));
  const [base, arm] = page.timelines.map(({ name }) => named(name)?.predicted);
  if (!base || !arm) return null;
  const [low, high] = arm.gain_range;
  const found = tuned(page);
  const gained = found?.basis === "predicted" && !found.winner ? "faster, too little to matter" : "faster";
  return {
    a_ms: base.step_ms,
    b_ms: arm.step_ms,
    change: -arm.gain,
    range: [-high, -low],
    verdict: low > 0 ? gained : high < 0 ? "slower" : "may be as fast",
    how: "as the study predicts it; the range leaves out errors of the model that both steps share",
  };
}

/** The change of a candidate's step to that of the base, as a prediction ranks them. */
function asRanked(page: Page): StepChange | null {
  const rows = predicted(page)?.candidates ?? [];
  const base = rows.find((row) => row.is_base);
  const other = rows.find((row) => isNamed(row, page.timelines[1]?.name ?? ""));
  // Each is relative to the first of the ranking: one of the two is that.
  const isFirst = other?.rank === 1;
  const behind = (isFirst ? base : other)?.behind_range;
  if (!base?.step_ms || !other?.step_ms || !behind || (base.rank !== 1 && !isFirst)) return null;
  const [low, high] = isFirst ? behind.map((share) => 1 / (1 + share) - 1).reverse() : behind;
  const change = other.step_ms / base.step_ms - 1;
  const isTied = base.tied && other.tied;
  return {
    a_ms: base.step_ms,
    b_ms: other.step_ms,
    change,
    range: [low as number, high as number],
    verdict: isTied ? "tied" : change < 0 ? "faster" : "slower",
    how:
      "as the prediction ranks them; the range leaves out errors of the model that both steps share" +
      (isTied ? ", and tied are those whose range reaches within 1.5% of each other" : ""),
  };
}

/** Whether a timeline has the name of a candidate or an arm: it may hold no slash, as a path does. */
function isNamed(row: { name: string }, timeline: string): boolean {
  return row.name.replaceAll("/", "\u2215") === timeline;
}

function toneOf(verdict: string): string {
  return verdict === "faster" ? "good" : verdict === "slower" ? "bad" : "";
}

const PARTS: Record<string, Part["kind"]> = {
  compute: "compute",
  "exposed collective": "exposed",
  "exposed copy": "copy",
  idle: "idle",
  "hidden collective": "hidden",
};

function bars(found: Compared): HTMLElement {
  if (!found.work.known)
    return section(
      "Where the steps go",
      null,
      missing(`Unknown: ${found.work.why_not ?? "the steps can't be compared op by op"}.`),
    );
  const of = (key: "a_ms" | "b_ms"): Part[] => {
    const time = (name: string) => found.parts.find(({ part }) => PARTS[part] === name)?.[key] ?? null;
    return partsOf({
      compute_ms: time("compute"),
      collective_hidden_ms: time("hidden"),
      collective_exposed_ms: time("exposed"),
      copy_exposed_ms: time("copy"),
      idle_ms: time("idle"),
    });
  };
  const [a, b] = [of("a_ms"), of("b_ms")];
  const total = (rows: Part[]) => rows.reduce((sum, part) => sum + part.ms, 0);
  const whole = Math.max(total(a), total(b)) || 1;
  const bar = (name: string, rows: Part[]) =>
    h(
      "div",
      { class: "named-bar" },
      h("b", {}, name),
      stackedBar(rows, whole, `${name}, where its step goes`),
    );
  return section(
    "Where the steps go",
    sameBasis(found),
    bar("A", a),
    bar("B", b),
    h(
      "div",
      { class: "pair" },
      changeTable(
        "parts of the step",
        found.parts.map((row) => ({ ...row, name: row.part })),
      ),
      phases(found),
    ),
  );
}

function phases(found: Compared): HTMLElement {
  if (found.phases.length === 0) return missing(`Phases: ${found.work.phases_unknown ?? "unknown"}`);
  return changeTable(
    "phases of the busy time",
    found.phases.map((row) => ({ ...row, name: row.phase })),
  );
}

function changeTable(caption: string, rows: (Change & { name: string })[]): HTMLElement {
  const difference = differenceIn(rows);
  const shown = rows.map((row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, PARTS[row.name] ? swatch(PARTS[row.name] as string) : null, row.name),
      h("td", { class: "num" }, ms(row.a_ms)),
      h("td", { class: "num" }, ms(row.b_ms)),
      h("td", { class: "num" }, difference(row.difference_ms)),
    ),
  );
  const head = h(
    "tr",
    {},
    h("th", { scope: "col" }, caption),
    ...["A, ms", "B, ms", "B − A"].map((text) => h("th", { scope: "col", class: "num" }, text)),
  );
  return h(
    "table",
    { class: "data" },
    h("caption", { class: "sr" }, caption),
    h("thead", {}, head),
    h("tbody", {}, ...shown),
  );
}

function changes(found: Compared): HTMLElement {
  if (found.differs.length === 0)
    return section(
      "What differs",
      null,
      missing("Machine, program, versions and settings are the same, as far as both sides record them."),
    );
  type Row = Compared["differs"][number];
  const muted = (text: string, title: string) => h("span", { class: "muted", title }, text);
  const cell = (value: string | null): Child =>
    value === null
      ? muted("not given", "This side lacks it, or does not record it")
      : value === ""
        ? muted("empty", "It is set, to an empty value")
        : h("span", { class: "path" }, value);
  const columns: Column<Row>[] = [
    { title: "what", value: (row) => row.what, cell: (row) => row.what },
    { title: "about", value: (row) => row.about, cell: (row) => row.about },
    { title: "A", value: (row) => row.a, cell: (row) => cell(row.a) },
    { title: "B", wide: true, value: (row) => row.b, cell: (row) => cell(row.b) },
  ];
  const title = found.same_experiment ? "What differs" : "What differs: this is another experiment";
  return section(
    title,
    plural(found.differs.length, "difference"),
    table({
      caption: "Differences of the two runs",
      columns,
      rows: found.differs,
      text: (row) => [row.about, row.what, row.a, row.b].join(" "),
    }),
  );
}
