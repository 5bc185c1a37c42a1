/** What differs between two runs: ops, collectives, and their schedule. */

import { fieldColumns, where } from "../columns";
import { fill, h, type Child } from "../dom";
import { badge, choice, figure, missing, section, unknown } from "../pieces";
import { opOpener } from "../places";
import { CompareMoveJsonColumns } from "../records";
import type { Compared, OpChange } from "../results";
import { table, type Column } from "../table";
import { bytes, count, differences, ms, plural, rate, signed } from "../text";
import type { Context } from "../view";

type Kind = "all" | "slower" | "faster" | "new" | "gone";
const KINDS: readonly { key: Kind; text: string }[] = [
  { key: "all", text: "All" },
  { key: "slower", text: "Slower" },
  { key: "faster", text: "Faster" },
  { key: "new", text: "Only in B" },
  { key: "gone", text: "Only in A" },
];

/** One basis for both, or that of each. */
export function sameBasis(found: Compared): HTMLElement {
  const [a, b] = [found.a.basis ?? "unknown basis", found.b.basis ?? "unknown basis"];
  return a === b ? badge(a) : h("span", {}, "A ", badge(a), " B ", badge(b));
}

/** How the differences of a column are shown. */
export function differenceIn(rows: readonly { difference_ms: number | null }[]): (value: number | null) => Child {
  const textOf = differences(rows.map((row) => row.difference_ms));
  return (value) => {
    if (value === null) return unknown("one side does not know it");
    const text = textOf(value);
    return h("span", { class: text === "0" ? "" : value > 0 ? "bad" : "good" }, text);
  };
}

function kindOf(row: OpChange): Kind {
  if (row.a.length === 0) return "new";
  if (row.b.length === 0) return "gone";
  return (row.difference_ms ?? 0) > 0 ? "slower" : "faster";
}

/** The ops that changed, with buttons for the kinds of changes; the address keeps the kind. */
export function changedOps(
  found: Compared,
  context: Context,
): { element: HTMLElement; show(params: URLSearchParams): void } {
  const list = h("div");
  const toggle = h("div");
  const draw = (chosen: Kind) => fill(list, ...ops(found, chosen, context));
  const element = section("Ops", h("span", { class: "row" }, toggle, sameBasis(found)), list);
  const show = (params: URLSearchParams) => {
    const kind = KINDS.find(({ key }) => key === params.get("ops"))?.key ?? "all";
    const choose = (key: Kind) => (context.setParams({ ops: key }), draw(key));
    fill(toggle, choice("Ops", KINDS, kind, choose));
    draw(kind);
  };
  return { element, show };
}

function ops(found: Compared, chosen: Kind, context: Context): Child[] {
  const changed = found.ops.filter(
    (row) => (row.difference_ms ?? 0) !== 0 && (chosen === "all" || kindOf(row) === chosen),
  );
  const textOf = differences(found.ops.map((row) => row.difference_ms));
  const rows = changed.filter((row) => textOf(row.difference_ms ?? 0) !== "0");
  const few = changed.length - rows.length;
  const left = few > 0 && h("p", { class: "table-foot fine" }, `${plural(few, "op")} left out: the difference rounds to 0 ms.`);
  if (rows.length === 0)
    return [
      left ||
        missing(found.work.known ? (chosen === "all" ? "No op differs." : "None.") : `Unknown: ${found.work.why_not ?? "ops can't be compared"}.`),
    ];
  const [openA, openB] = [opOpener(context, 0), opOpener(context, 1)];
  const most = Math.max(...rows.map((row) => Math.abs(row.difference_ms ?? 0)));
  const difference = differenceIn(found.ops);
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
  const listed = table({
    caption: "Ops by the difference they make",
    columns,
    rows,
    sort: 3,
    text: (row) => [...row.a, ...row.b, row.category, row.scope, row.source].join(" "),
    ...(open ? { open, openHint: "Show in the timelines" } : {}),
  });
  return [listed, left];
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

export function collectives(found: Compared): HTMLElement | null {
  if (found.collectives.length === 0) return null;
  type Row = Compared["collectives"][number];
  const both = (row: Row, pair: [number | null, number | null], reason: string, text = ms): Child => {
    const of = (side: "a" | "b", value: number | null) =>
      row[side].length ? figure(value, text, reason) : "–";
    return h("span", {}, of("a", pair[0]), " → ", of("b", pair[1]));
  };
  // As in the text report, a side without the collective counts as 0.
  const more = ({ a, b, exposed_ms: [was, is] }: Row): number | null => {
    const [before, after] = [a.length ? was : 0, b.length ? is : 0];
    return before === null || after === null ? null : after - before;
  };
  const difference = differenceIn(found.collectives.map((row) => ({ difference_ms: more(row) })));
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
      value: (row) => row.exposed_ms[0],
      cell: (row) => both(row, row.exposed_ms, "how long it was exposed is not known"),
    },
    {
      title: "B − A",
      numeric: true,
      value: (row) => Math.abs(more(row) ?? 0),
      cell: (row) => difference(more(row)),
    },
    {
      title: "wait, ms",
      numeric: true,
      value: (row) => row.wait_ms[0],
      cell: (row) => both(row, row.wait_ms, "waits are known only where all devices of the group were read"),
    },
    {
      title: "GB/s",
      numeric: true,
      value: (row) => row.busbw_gbps[0],
      cell: (row) => both(row, row.busbw_gbps, "needs bytes, ranks, and the time of the transfer", rate),
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
    h("span", {}, "A → B, ", sameBasis(found)),
    table({
      caption: "Collectives of both sides",
      columns,
      rows: found.collectives,
      sort: 3,
      limit: 20,
      text: (row) => [...row.a, ...row.b, row.kind].join(" "),
    }),
  );
}

export function schedule(found: Compared): HTMLElement | null {
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
      title: "compute within, µs",
      hint: "work between its start and its end, with the times of A",
      numeric: true,
      value: (row) => row.within_us[1],
      cell: (row) => row.within_us.map(ms).join(" → "),
    },
    ...fieldColumns<Move>(CompareMoveJsonColumns),
  ];
  const times = new Map<string, number>(); // layers that are alike change alike
  for (const { kind, a, b, bytes: size } of found.regrouped) {
    const text = `${kind}: ${count(a.length)} in A are ${count(b.length)} in B, ${bytes(size)} per step`;
    times.set(text, (times.get(text) ?? 0) + 1);
  }
  const merged = [...times].map(([text, many]) => h("li", {}, many > 1 ? `${text}, ${count(many)} times` : text));
  return section(
    "Schedule",
    sameBasis(found),
    merged.length > 0 && h("ul", { class: "notes" }, ...merged),
    found.moves.length > 0 &&
      table({ caption: "Collectives that moved", columns, rows: found.moves, limit: 20 }),
  );
}
