/** Collectives: how much time each has to hide, and how much of it is hidden. */

import { legend, scatter, type Point } from "../charts/scatter";
import { fieldColumns } from "../columns";
import { fill, h } from "../dom";
import { badge, missing, section } from "../pieces";
import { opOpener } from "../places";
import { CollectiveJsonColumns } from "../records";
import { basisOf, explained, type Collective, type Explained } from "../results";
import { table } from "../table";
import { ms, plural } from "../text";
import type { View } from "../view";

export const collectives: View = {
  id: "collectives",
  title: "Collectives",
  available: (page) => explained(page) !== null,
  mount(root, context) {
    const step = explained(context.page);
    if (!step) return { show() {}, unmount() {} };
    const basis = basisOf(context.page);
    if (step.collectives.length === 0) {
      fill(root, section("Collectives", badge(basis), missing(none(step))));
      return { show() {}, unmount() {} };
    }
    const open = opOpener(context);
    const go = open && ((row: Collective) => open(row.op, programName(step, row.program)));
    const kinds = [...new Set(step.collectives.map(kindOf))];
    const slack = slackChart(step.collectives, kinds, go);
    const hidden = hiddenChart(step.collectives, kinds, go);
    fill(
      root,
      h(
        "div",
        { class: "stack" },
        h(
          "div",
          { class: "pair" },
          section(
            "Slack against duration",
            badge(basis),
            slack.element,
            h(
              "p",
              { class: "fine" },
              slack.missing,
              "Slack: the time from the start of a transfer until the device has no other work. Below the line, a transfer takes longer than its slack.",
            ),
          ),
          section(
            "Exposed against hidden",
            badge(basis),
            hidden.element,
            h(
              "p",
              { class: "fine" },
              "Per step, mean over devices. Above the line more is waited for than hidden.",
            ),
          ),
        ),
        legend(kinds),
        section(
          "All collectives",
          h("span", {}, total(step.collectives), " ", badge(basis)),
          list(step.collectives, go),
        ),
      ),
    );
    return { show() {}, unmount: () => (slack.stop(), hidden.stop()) };
  },
};

export function programName(step: Explained, index: number | null): string | null {
  return step.programs.find((program) => program.index === index)?.name ?? null;
}

function kindOf(row: Collective): string {
  return row.kind ?? "unknown kind";
}

function none(step: Explained): string {
  if (step.devices === 1) return "None: one device was read, and its program communicates with no other.";
  return "None: the step's program has no collective, or the recording does not name them.";
}

function total(rows: readonly Collective[]): string {
  const sum = (of: (row: Collective) => number) => rows.reduce((all, row) => all + of(row), 0);
  return `${plural(rows.length, "op")}, ${ms(sum((row) => row.total_ms))} ms per step, ${ms(sum((row) => row.exposed_ms))} ms exposed`;
}

function slackChart(rows: readonly Collective[], kinds: string[], open?: (row: Collective) => void) {
  const known = rows.filter((row) => row.slack_ms !== null);
  const points: Point[] = known.map((row) => ({
    x: row.median_ms,
    y: Math.max(0, row.slack_ms as number),
    series: kinds.indexOf(kindOf(row)),
    title: `${row.op}: takes ${ms(row.median_ms)} ms, slack ${ms(row.slack_ms)} ms`,
    open: open && (() => open(row)),
  }));
  const short = known.filter((row) => (row.slack_ms as number) < row.median_ms).length;
  const left = rows.length - known.length;
  const drawn = scatter({
    label: `Slack against duration of ${plural(known.length, "collective")}: ${short} have less slack than they take; the table below has the figures`,
    x: "duration, ms",
    y: "slack, ms",
    tick: String,
    points,
    square: true,
    lines: (low, high) => [{ text: "slack = duration", from: [low[0], low[0]], to: [high[0], high[0]] }],
  });
  return { ...drawn, missing: left > 0 ? `Of ${plural(left, "collective")} the slack is not known. ` : null };
}

function hiddenChart(rows: readonly Collective[], kinds: string[], open?: (row: Collective) => void) {
  const points: Point[] = rows.map((row) => ({
    x: Math.max(0, row.total_ms - row.exposed_ms),
    y: row.exposed_ms,
    series: kinds.indexOf(kindOf(row)),
    title: `${row.op}: ${ms(row.exposed_ms)} ms exposed, ${ms(Math.max(0, row.total_ms - row.exposed_ms))} ms hidden`,
    open: open && (() => open(row)),
  }));
  const exposed = rows.filter((row) => row.exposed_ms > row.total_ms / 2).length;
  return scatter({
    label: `Exposed against hidden time of ${plural(rows.length, "collective")}: ${exposed} are mostly exposed; the table below has the figures`,
    x: "hidden, ms",
    y: "exposed, ms",
    tick: String,
    points,
    square: true,
    lines: (low, high) => [{ text: "half is hidden", from: [low[0], low[0]], to: [high[0], high[0]] }],
  });
}

function list(rows: readonly Collective[], open?: (row: Collective) => void): HTMLElement {
  const columns = fieldColumns<Collective>(CollectiveJsonColumns);
  return table({
    caption: "Collectives of a step",
    columns,
    rows,
    sort: columns.findIndex(({ title }) => title === "exposed"),
    text: (row) => [row.op, row.kind, row.scope, row.source, row.phase].join(" "),
    ...(open ? { open, openHint: "Show in the timeline" } : {}),
  });
}
