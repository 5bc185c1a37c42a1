/** Candidates of a prediction: ranked settings with the ranges of their steps, and the sources of the ranges. */

import { intervals, type Interval } from "../charts/intervals";
import { meter } from "../charts/bar";
import { fieldColumns } from "../columns";
import { fill, h } from "../dom";
import { badge, bothSteps, figure, missing, notes, section } from "../pieces";
import { WhatIfJsonColumns } from "../records";
import { predicted, type Candidate, type Predicted } from "../results";
import { table, type Column } from "../table";
import { bytes, ms, msRange, percent, plural, signed, tick } from "../text";
import type { View } from "../view";

const PLOTTED = 24;

export const candidates: View = {
  id: "candidates",
  title: "Candidates",
  available: (page) => (predicted(page)?.candidates.length ?? 0) > 0,
  mount(root, context) {
    const found = predicted(context.page);
    if (!found) return { show() {}, unmount() {} };
    const plot = intervals({
      label: "Predicted step of each candidate with its range",
      axis: "step, ms",
      tick,
      rows: found.candidates
        .filter(({ step_ms }) => step_ms !== null)
        .slice(0, PLOTTED)
        .map(interval),
    });
    fill(
      root,
      h(
        "div",
        { class: "stack" },
        section(
          "Candidates",
          h("span", {}, `${found.prediction.target} `, badge("predicted")),
          alone(found),
          plot.element,
          covers(found),
        ),
        section("Ranking", badge("predicted"), ranking(found.candidates), bothSteps(context)),
        h("div", { class: "pair" }, made(found), prices(found)),
        questions(found),
        notes("Warnings", found.warnings),
      ),
    );
    return { show() {}, unmount: plot.stop };
  },
};

function alone(found: Predicted): HTMLElement | null {
  return found.candidates.length > 1
    ? null
    : missing("One candidate only: the settings as they are. Add others with --candidate.");
}

function covers({ prediction }: Predicted): HTMLElement | null {
  const known = prediction.range_covers;
  return (
    known &&
    h(
      "p",
      { class: "fine" },
      `${percent(known.share, 0)} of ${plural(known.published_steps, "published step")} lie in such a range (${known.basis}). Ranges of candidates rise and fall together: how far one is behind is more certain than either step.`,
    )
  );
}

function interval(row: Candidate): Interval {
  const behind =
    row.behind === null || row.behind === 0 ? "" : ` (${signed(row.behind, (value) => percent(value))})`;
  return {
    name: `${row.rank ?? "–"}  ${row.name}`,
    value: row.step_ms,
    range: row.range_ms,
    tone: row.same_as ? "quiet" : "predicted",
    text: `${ms(row.step_ms)} ms${behind}`,
  };
}

function ranking(rows: readonly Candidate[]): HTMLElement {
  const failed = "it could not be predicted";
  const columns: Column<Candidate>[] = [
    { title: "candidate", value: (row) => row.name, cell: (row) => row.name },
    { title: "rank", value: (row) => row.rank, cell: (row) => figure(row.rank, String, failed) },
    {
      title: "step, ms",
      numeric: true,
      value: (row) => row.step_ms,
      cell: (row) => figure(row.step_ms, ms, row.error ?? failed),
    },
    {
      title: "range",
      value: (row) => row.range_ms?.[0] ?? null,
      cell: (row) => (row.range_ms ? msRange(row.range_ms) : figure(null, ms, row.error ?? failed)),
    },
    {
      title: "slower than the first",
      numeric: true,
      value: (row) => row.behind,
      cell: (row) => figure(row.behind, (value) => behind(row, value), row.error ?? failed),
    },
    {
      title: "exposed, ms",
      numeric: true,
      value: (row) => row.exposed_ms,
      cell: (row) => figure(row.exposed_ms, ms, row.error ?? failed),
    },
    {
      title: "peak memory",
      numeric: true,
      value: (row) => row.peak_bytes,
      cell: (row) => figure(row.peak_bytes, bytes, row.error ?? "the compiler did not say"),
    },
    {
      title: "fits",
      value: (row) => (row.fits === null ? null : Number(row.fits)),
      cell: (row) =>
        figure(
          row.fits === null ? null : 1,
          () => (row.fits ? "yes" : "no"),
          row.error ?? "the peak or the memory is not known",
        ),
    },
    {
      title: "remarks",
      wide: true,
      value: (row) => remarks(row),
      cell: (row) => h("span", { class: "cut", title: remarks(row) }, remarks(row)),
    },
  ];
  return table({ caption: "Ranked candidates", columns, rows, text: (row) => `${row.name} ${remarks(row)}` });
}

function behind(row: Candidate, value: number): string {
  const range = row.behind_range;
  return range && range[0] !== range[1]
    ? `${percent(value)} (${percent(range[0])} to ${percent(range[1])})`
    : percent(value);
}

function remarks(row: Candidate): string {
  return [
    row.error,
    row.same_as && `the same program as ${row.same_as}`,
    row.tied && !row.same_as && (row.rank ?? 0) > 1 && "tied with the first",
    row.rank === 1 && "the best",
    !row.tied && !row.same_as && (row.behind ?? 0) > 0 && "slower",
    row.is_base && "your settings",
  ]
    .filter(Boolean)
    .join("; ");
}

function made({ prediction }: Predicted): HTMLElement {
  const rows = Object.entries(prediction.reach_ms);
  if (rows.length === 0)
    return section(
      "Sources of the range",
      badge("predicted"),
      missing("Unknown: the prediction has no range."),
    );
  const most = Math.max(...rows.flatMap(([, [low, high]]) => [Math.abs(low), Math.abs(high)]));
  const shown = rows.map(([name, [low, high]]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      h("td", { class: "wide" }, meter(Math.max(-low, high) / (most || 1), "predicted")),
      h("td", { class: "num" }, `${signed(low, ms)} to ${signed(high, ms)}`),
    ),
  );
  const head = h(
    "tr",
    {},
    h("th", { scope: "col" }, "prices of"),
    h("td", {}),
    h("th", { scope: "col", class: "num" }, "ms of the step"),
  );
  return section(
    "Sources of the range",
    badge("predicted"),
    h(
      "table",
      { class: "data" },
      h("caption", { class: "sr" }, "Uncertainty of the step by kind of price"),
      h("thead", {}, head),
      h("tbody", {}, ...shown),
    ),
  );
}

const SOURCES: Record<string, string> = {
  measured: "measured costs of this workload",
  user_table: "your own tables",
  table: "shipped tables of measurements",
  analytic: "formulas",
  bound: "bounds only",
  compiler: "estimates of the compiler",
};

function prices({ basis, unpriced }: Predicted): HTMLElement {
  const rows = Object.entries(basis).map(([name, share]) =>
    h(
      "tr",
      { class: share === 0 ? "zero" : null },
      h("th", { scope: "row" }, SOURCES[name] ?? name),
      h("td", { class: "wide" }, meter(share, "accent")),
      h("td", { class: "num" }, percent(share)),
    ),
  );
  const head = h(
    "tr",
    {},
    h("th", { scope: "col" }, "from"),
    h("td", {}),
    h("th", { scope: "col", class: "num" }, "of the time"),
  );
  const none =
    unpriced.length > 0 &&
    h(
      "p",
      { class: "fine" },
      `${plural(unpriced.length, "instruction")} that nothing prices: ${unpriced
        .slice(0, 3)
        .map((row) => row.instruction)
        .join(", ")}.`,
    );
  return section(
    "Where the prices come from",
    badge("predicted"),
    h(
      "table",
      { class: "data" },
      h("caption", { class: "sr" }, "Share of the predicted time by source of its prices"),
      h("thead", {}, head),
      h("tbody", {}, ...rows),
    ),
    none,
  );
}

function questions(found: Predicted): HTMLElement | null {
  if (found.what_if.length + found.unanswered.length === 0) return null;
  const columns = fieldColumns<Predicted["what_if"][number]>(WhatIfJsonColumns);
  const open = found.unanswered.map((row) => h("p", { class: "fine" }, `${row.question}: ${row.error}`));
  return section(
    "What if",
    badge("predicted"),
    found.what_if.length > 0 &&
      table({ caption: "Other hardware, same schedule", columns, rows: found.what_if }),
    ...open,
  );
}
