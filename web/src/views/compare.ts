/** Two runs side by side: their steps, the parts of them, the ops and settings that differ. */

import { parts as partsOf, stackedBar, type Part } from "../charts/bar";
import { fill, h, type Child } from "../dom";
import { badge, choice, figure, missing, notes, section, swatch, unknown } from "../pieces";
import { opOpener } from "../places";
import { compared, type Change, type Compared, type OpChange } from "../results";
import { table, type Column } from "../table";
import { bytes, count, ms, percent, plural, rate, signed } from "../text";
import type { Context, View } from "../view";
import { where } from "./collectives";

type Kind = "all" | "slower" | "faster" | "new" | "gone";
const KINDS: readonly { key: Kind; text: string }[] = [
  { key: "all", text: "All" },
  { key: "slower", text: "Slower" },
  { key: "faster", text: "Faster" },
  { key: "new", text: "Only in B" },
  { key: "gone", text: "Only in A" },
];

export const compare: View = {
  id: "compare",
  title: "Compare",
  available: (page) => compared(page) !== null,
  mount(root, context) {
    const found = compared(context.page);
    if (!found) return { show() {}, unmount() {} };
    const list = h("div");
    const toggle = h("div");
    fill(
      root,
      h(
        "div",
        { class: "stack" },
        steps(found, context),
        bars(found),
        changes(found),
        opsSection(found, toggle, list),
        collectives(found),
        schedule(found),
        notes("Notes", found.notes),
      ),
    );
    return {
      show(params) {
        const kind = KINDS.find(({ key }) => key === params.get("ops"))?.key ?? "all";
        const draw = (chosen: Kind) => fill(list, ops(found, chosen, context));
        fill(
          toggle,
          choice("Ops", KINDS, kind, (key) => (context.setParams({ ops: key }), draw(key))),
        );
        draw(kind);
      },
      unmount() {},
    };
  },
};

function steps(found: Compared, context: Context): HTMLElement {
  const { step } = found;
  const side = (name: string, side: Compared["a"], time: number | null) =>
    h(
      "div",
      { class: "side" },
      h("div", { class: "side-name" }, h("b", {}, name), badge(side.basis ?? "unknown basis")),
      h(
        "p",
        { class: "headline" },
        h("span", { class: "big" }, figure(time, ms, step.how)),
        h("span", { class: "unit" }, "ms"),
      ),
      h("p", { class: "path cut", title: side.name }, side.name),
      h(
        "p",
        { class: "fine" },
        `${side.steps === null ? "steps unknown" : plural(side.steps, "step")} on ${side.devices === null ? "unknown devices" : plural(side.devices, "device")}${side.runs > 1 ? `, the middle one of ${side.runs} runs` : ""}`,
      ),
    );
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
    h("div", { class: "sides" }, side("A", found.a, step.a_ms), side("B", found.b, step.b_ms), middle),
    h("p", { class: "fine" }, step.how),
  );
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

/** One basis for both, or that of each. */
function sameBasis(found: Compared): HTMLElement {
  const [a, b] = [found.a.basis ?? "unknown basis", found.b.basis ?? "unknown basis"];
  return a === b ? badge(a) : h("span", {}, "A ", badge(a), " B ", badge(b));
}

function changeTable(caption: string, rows: (Change & { name: string })[]): HTMLElement {
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

function difference(value: number | null): Child {
  if (value === null) return unknown("one side does not know it");
  return h("span", { class: value > 0 ? "bad" : value < 0 ? "good" : "" }, signed(value, ms));
}

function changes(found: Compared): HTMLElement {
  if (found.differs.length === 0)
    return section(
      "What differs",
      null,
      missing("No difference in machine, program, versions or settings is recorded on both sides."),
    );
  type Row = Compared["differs"][number];
  const cell = (value: string | null): Child =>
    value === null
      ? unknown("this side lacks it, or does not record it")
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

function kindOf(row: OpChange): Kind {
  if (row.a.length === 0) return "new";
  if (row.b.length === 0) return "gone";
  return (row.difference_ms ?? 0) > 0 ? "slower" : "faster";
}

function opsSection(found: Compared, toggle: HTMLElement, list: HTMLElement): HTMLElement {
  return section("Ops", h("span", { class: "row" }, toggle, sameBasis(found)), list);
}

function ops(found: Compared, chosen: Kind, context: Context): HTMLElement {
  const rows = found.ops.filter(
    (row) => (row.difference_ms ?? 0) !== 0 && (chosen === "all" || kindOf(row) === chosen),
  );
  if (rows.length === 0)
    return missing(found.work.known ? "None." : `Unknown: ${found.work.why_not ?? "ops can't be compared"}.`);
  const [openA, openB] = [opOpener(context, 0), opOpener(context, 1)];
  const most = Math.max(...rows.map((row) => Math.abs(row.difference_ms ?? 0)));
  const columns: Column<OpChange>[] = [
    { title: "op", value: (row) => nameOf(row), cell: (row) => nameOf(row) },
    {
      title: "A, ms",
      numeric: true,
      value: (row) => row.a_ms,
      cell: (row) => (row.a.length ? ms(row.a_ms) : "–"),
    },
    {
      title: "B, ms",
      numeric: true,
      value: (row) => row.b_ms,
      cell: (row) => (row.b.length ? ms(row.b_ms) : "–"),
    },
    {
      title: "B − A",
      numeric: true,
      value: (row) => Math.abs(row.difference_ms ?? 0),
      cell: (row) => difference(row.difference_ms),
    },
    {
      title: "faster | slower",
      hint: "B relative to A",
      value: (row) => row.difference_ms,
      cell: (row) => diverging((row.difference_ms ?? 0) / most),
    },
    {
      title: "clear",
      hint: "more than steps of one run differ by",
      value: (row) => Number(row.clear),
      cell: (row) =>
        row.clear ? "yes" : row.noise_ms === null ? unknown("too few steps to tell noise") : "no",
    },
    { title: "category", value: (row) => row.category, cell: (row) => row.category ?? "" },
    { title: "phase", value: (row) => row.phase, cell: (row) => row.phase ?? "" },
    {
      title: "scope or source",
      wide: true,
      value: (row) => row.scope ?? row.source,
      cell: (row) => where(row.scope ?? row.source),
    },
  ];
  const open =
    openA &&
    openB &&
    ((row: OpChange) =>
      row.a[0] !== undefined ? openA(row.a[0]) : row.b[0] !== undefined && openB(row.b[0]));
  return table({
    caption: "Ops by the difference they make",
    columns,
    rows,
    sort: 3,
    text: (row) => [...row.a, ...row.b, row.category, row.scope, row.source].join(" "),
    ...(open ? { open, openHint: "Show in the timelines" } : {}),
  });
}

function nameOf(row: OpChange): string {
  const [a, b] = [row.a.join(", "), row.b.join(", ")];
  if (!a) return `${b} (only in B)`;
  if (!b) return `${a} (only in A)`;
  return a === b ? a : `${a} → ${b}`;
}

/** Slower to the right, faster to the left. */
function diverging(share: number): HTMLElement {
  const inner = h("span", { class: share > 0 ? "fill-bad" : "fill-good" });
  inner.style.width = `${Math.abs(share) * 50}%`;
  inner.style.left = share > 0 ? "50%" : `${50 - Math.abs(share) * 50}%`;
  return h("span", { class: "diverging", "aria-hidden": "true" }, inner);
}

function collectives(found: Compared): HTMLElement | null {
  if (found.collectives.length === 0) return null;
  type Row = Compared["collectives"][number];
  const both = (pair: [number | null, number | null], reason: string, text = ms): Child =>
    h("span", {}, figure(pair[0], text, reason), " → ", figure(pair[1], text, reason));
  const columns: Column<Row>[] = [
    {
      title: "collective",
      value: (row) => row.a[0] ?? row.b[0] ?? "",
      cell: (row) => [...new Set([...row.a, ...row.b])].join(" → "),
    },
    { title: "kind", value: (row) => row.kind, cell: (row) => row.kind ?? "" },
    {
      title: "exposed, ms",
      numeric: true,
      value: (row) => Math.abs((row.exposed_ms[1] ?? 0) - (row.exposed_ms[0] ?? 0)),
      cell: (row) => both(row.exposed_ms, "this side lacks it"),
    },
    {
      title: "wait, ms",
      numeric: true,
      value: (row) => row.wait_ms[0],
      cell: (row) => both(row.wait_ms, "waits are known only where all devices of the group were read"),
    },
    {
      title: "GB/s",
      numeric: true,
      value: (row) => row.busbw_gbps[0],
      cell: (row) => both(row.busbw_gbps, "needs bytes, ranks, and the time of the transfer", rate),
    },
    {
      title: "bytes",
      numeric: true,
      value: (row) => row.bytes,
      cell: (row) => figure(row.bytes, bytes, "not recorded"),
    },
  ];
  return section(
    "Collectives",
    h("span", {}, "A → B ", sameBasis(found)),
    table({
      caption: "Collectives of both sides",
      columns,
      rows: found.collectives,
      sort: 2,
      limit: 20,
      text: (row) => [...row.a, ...row.b, row.kind].join(" "),
    }),
  );
}

function schedule(found: Compared): HTMLElement | null {
  if (found.moves.length + found.regrouped.length === 0) return null;
  type Move = Compared["moves"][number];
  const columns: Column<Move>[] = [
    {
      title: "collective",
      value: (row) => row.a,
      cell: (row) => (row.a === row.b ? row.a : `${row.a} → ${row.b}`),
    },
    {
      title: "starts later by, µs",
      numeric: true,
      value: (row) => Math.abs(row.start_shift_us),
      cell: (row) => signed(row.start_shift_us, ms),
    },
    {
      title: "bytes",
      numeric: true,
      value: (row) => row.bytes,
      cell: (row) => figure(row.bytes, bytes, "not recorded"),
    },
    { title: "source", wide: true, value: (row) => row.source, cell: (row) => where(row.source) },
  ];
  const merged = found.regrouped.map((row) =>
    h(
      "li",
      {},
      `${row.kind}: ${count(row.a.length)} in A are ${count(row.b.length)} in B, ${bytes(row.bytes)} per step`,
    ),
  );
  return section(
    "Schedule",
    sameBasis(found),
    merged.length > 0 && h("ul", { class: "notes" }, ...merged),
    found.moves.length > 0 &&
      table({ caption: "Collectives that moved", columns, rows: found.moves, limit: 20 }),
  );
}
