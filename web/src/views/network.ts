/** The load of a step on its links: demand over time, bursts, and why transfers are waited for. */

import { curve } from "../charts/curve";
import { fieldColumns } from "../columns";
import { fill, h } from "../dom";
import { badge, missing, notes, section } from "../pieces";
import { opOpener } from "../places";
import { BurstJsonColumns, CallsJsonColumns, NetworkCollectiveJsonColumns } from "../records";
import { explained, network as networkOf, type Network } from "../results";
import { table, type Column } from "../table";
import { decimal, ms, plural, tick } from "../text";
import type { Context, View } from "../view";
import { programName } from "./collectives";
import { windowName } from "./window";

const STROKES = ["--compute", "--exposed", "--host", "--copy"];
type Load = Network["collectives"][number];
type Burst = Network["bursts"][number];

export const network: View = {
  id: "network",
  title: "Network",
  available: (page) => networkOf(page) !== null,
  mount(root, context) {
    const found = networkOf(context.page);
    if (!found) return { show() {}, unmount() {} };
    const demand = demandOf(found);
    fill(
      root,
      h(
        "div",
        { class: "stack" },
        demand.element,
        found.bursts.length > 0 &&
          section(
            "Bursts",
            h(
              "span",
              {},
              `${plural(found.bursts.length, "stretch", "stretches")} in which anything is sent `,
              badge(found.basis),
            ),
            bursts(found.bursts),
            h(
              "p",
              { class: "fine" },
              "Exposed time includes the wait for the last rank, before anything is sent: it may exceed the length.",
            ),
          ),
        found.collectives.length > 0 &&
          section("Why transfers are waited for", badge(found.basis), loads(found, context)),
        calls(found),
        notes("Notes", found.notes),
      ),
    );
    return { show() {}, unmount: demand.stop };
  },
};

function demandOf(found: Network): { element: HTMLElement; stop(): void } {
  const links = [...new Set(found.demand.map(({ link }) => link))];
  const window = `over ${found.window !== "step" ? windowName(found) : found.basis === "predicted" ? "the predicted step" : "a median step"}, ${ms(found.window_ms)} ms `;
  if (found.demand.length === 0) {
    const why =
      found.collectives.length === 0
        ? "nothing in the step communicates, or the recording does not name it"
        : "bytes or ranks of its collectives are not recorded";
    return {
      element: section("Demand", badge(found.basis), missing(`No demand on any link: ${why}.`)),
      stop() {},
    };
  }
  const edges = [...new Set(found.demand.flatMap((piece) => [piece.start_ms, piece.end_ms]))].sort(
    (a, b) => a - b,
  );
  const most = Math.max(...found.demand.map(({ gbps }) => gbps));
  const drawn = curve({
    label: `Demand on ${plural(links.length, "link")} over ${windowName(found)}: at most ${decimal(most, 0)} GB/s; the table of bursts has the figures`,
    height: 260,
    x: edges,
    yFrom: 0,
    curves: links.map((link, at) => ({
      title: link ?? "capacity unknown",
      stroke: STROKES[at % STROKES.length] as string,
      values: stepped(found, link, edges),
      style: "steps" as const,
    })),
    xText: (value) => `${tick(value)} ms`,
    yText: tick,
  });
  const key = links.map((link, at) =>
    h(
      "li",
      {},
      h("span", { class: `swatch fill-${(STROKES[at % STROKES.length] as string).slice(2)}` }),
      link ?? "capacity unknown",
      capacity(found, link),
    ),
  );
  const said = saturation(found);
  const element = section(
    "Demand",
    h("span", {}, "GB/s ", window, badge(found.basis)),
    drawn.element,
    h("ul", { class: "legend" }, ...key),
    h("p", { class: "fine" }, `${said} Links: ${found.links_source}.`),
  );
  return { element, stop: drawn.stop };
}

function stepped(found: Network, link: string | null, edges: number[]): (number | null)[] {
  const starts = new Map(
    found.demand.filter((piece) => piece.link === link).map((piece) => [piece.start_ms, piece.gbps]),
  );
  let now = 0;
  return edges.map((edge) => (now = starts.get(edge) ?? now));
}

function capacity(found: Network, link: string | null): string {
  const known = found.collectives.find((row) => row.link === link)?.capacity_gbps;
  if (known) return ` (can carry ${decimal(known, 0)} GB/s)`;
  return link === null ? "" : " (capacity unknown)";
}

/** A link whose capacity is unknown may be far from full at the highest rate that was seen. */
function saturation({ saturated }: Network): string {
  if (saturated.length === 0) return "No link is ever full.";
  const isKnown = (row: Network["saturated"][number]) => row.limit_is === "capacity";
  const sentence = (rows: Network["saturated"], what: string) =>
    `${plural(rows.length, "stretch", "stretches")} in which a link ${what}, ${ms(rows.reduce((sum, one) => sum + one.length_ms, 0))} ms together.`;
  const full = saturated.filter(isKnown);
  const near = saturated.filter((row) => !isKnown(row));
  return [
    full.length > 0 && sentence(full, "is full"),
    near.length > 0 && sentence(near, "is near the highest observed rate"),
  ]
    .filter(Boolean)
    .join(" ");
}

function bursts(rows: readonly Burst[]): HTMLElement {
  const all = (row: Burst) => row.collectives.join(", ");
  const columns = fieldColumns<Burst>(BurstJsonColumns, {
    collectives: (row) => h("span", { class: "path cut", title: all(row) }, all(row)),
  });
  return table({ caption: "Bursts of a step", columns, rows, limit: 20 });
}

function loads(found: Network, context: Context): HTMLElement {
  const open = opOpener(context);
  const step = explained(context.page);
  const columns: Column<Load>[] = [
    ...fieldColumns<Load>(NetworkCollectiveJsonColumns),
    { title: "code", value: (row) => row.code, cell: (row) => row.code ?? "" },
    {
      title: "why",
      wide: true,
      value: (row) => row.why,
      cell: (row) => h("span", { class: "cut", title: row.why }, row.why),
    },
  ];
  return table({
    caption: "Collectives and why they are exposed",
    columns,
    rows: found.collectives,
    sort: columns.findIndex(({ title }) => title === "exposed ms"),
    text: (row) => [row.op, row.kind, row.bound, row.why].join(" "),
    ...(open
      ? {
          open: (row: Load) => open(row.op, step && programName(step, row.program)),
          openHint: "Show in the timeline",
        }
      : {}),
  });
}

function calls(found: Network): HTMLElement | null {
  if (found.calls.length === 0) return null;
  const columns = fieldColumns<Network["calls"][number]>(CallsJsonColumns);
  return section(
    "Calls between hosts",
    badge(found.basis),
    table({ caption: "Remote calls between hosts", columns, rows: found.calls }),
    found.calls_pattern && h("p", { class: "fine" }, found.calls_pattern),
  );
}
