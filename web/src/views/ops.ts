/** Ops: a tree as an icicle, the roofline, and a table. */

import { Icicle, type Branch } from "../charts/icicle";
import { fieldColumns } from "../columns";
import { fill, h } from "../dom";
import { badge, choice, figure, missing, section } from "../pieces";
import { opOpener } from "../places";
import { OpJsonColumns } from "../records";
import { basisOf, explained, type Explained, type Op } from "../results";
import { table, type Column } from "../table";
import { large, ms, percent, plural } from "../text";
import type { Context, View } from "../view";
import { programName } from "./collectives";
import { roofline } from "./roofline";
import { CATEGORIES, kindClass, treeOf, type By } from "./tree";
import { windowName } from "./window";

const BYS: readonly { key: By; text: string }[] = [
  { key: "scope", text: "Scope" },
  { key: "source", text: "Source" },
  { key: "category", text: "Category" },
];

export const ops: View = {
  id: "ops",
  title: "Ops",
  available: (page) => explained(page) !== null,
  mount(root, context) {
    const step = explained(context.page);
    if (!step) return { show() {}, unmount() {} };
    const basis = basisOf(context.page);
    if (step.ops.length === 0) {
      fill(
        root,
        section(
          "Ops",
          badge(basis),
          missing("None: the recording holds no op within a step or a run of the step's program."),
        ),
      );
      return { show() {}, unmount() {} };
    }
    const roof = roofline(step, basis, openOf(step, context));
    const tree = h("div");
    const show = (by: By) => fill(tree, icicle(step, by));
    const fallback: By = step.ops.some((op) => op.scope)
      ? "scope"
      : step.ops.some((op) => op.source)
        ? "source"
        : "category";
    const chosen = (params: URLSearchParams) =>
      BYS.find(({ key }) => key === params.get("by"))?.key ?? fallback;
    const toggle = h("div");
    fill(
      root,
      h(
        "div",
        { class: "stack" },
        section("Where ops spend the step", h("span", { class: "row" }, toggle, badge(basis)), tree),
        roof.element,
        section(
          "All ops",
          h("span", {}, `${plural(step.ops.length, "op")} `, badge(basis)),
          list(step, context),
        ),
      ),
    );
    return {
      show(params) {
        const by = chosen(params);
        fill(
          toggle,
          choice("Tree by", BYS, by, (key) => (context.setParams({ by: key }), show(key))),
        );
        show(by);
      },
      unmount: roof.stop,
    };
  },
};

function icicle(step: Explained, by: By): HTMLElement {
  const root = treeOf(step.ops, by);
  if (root.total <= 0) return missing("No op takes time of its own.");
  recolor(root);
  const said = h("p", { class: "icicle-said", role: "status" });
  const whole = step.steps.window_ms;
  const describe = (branch: Branch) => {
    const share = whole ? `, ${percent(branch.total / whole)} of ${windowName(step.steps)}` : "";
    const own = branch.own > 0 && branch.children.length > 0 ? `, itself ${ms(branch.own)} ms` : "";
    return `${branch.name}: ${ms(branch.total)} ms${share}${own}, mostly ${branch.kind}`;
  };
  const drawn = new Icicle({
    label: `Self time of ops by ${by}; arrow keys walk, Enter zooms, Escape zooms out`,
    root,
    describe,
    onPick: (branch) => fill(said, describe(branch)),
  });
  fill(said, describe(root));
  return h("div", {}, drawn.element, said, legendOf(root));
}

function recolor(branch: Branch): void {
  branch.kind = kindClass(branch.kind);
  branch.children.forEach(recolor);
}

function legendOf(root: Branch): HTMLElement {
  const found = new Set<string>();
  const walk = (branch: Branch) => (found.add(branch.kind), branch.children.forEach(walk));
  walk(root);
  const shown = CATEGORIES.filter((kind) => found.has(kind));
  return h(
    "ul",
    { class: "legend" },
    ...shown.map((kind) => h("li", {}, h("span", { class: `swatch fill-cat-${kind}` }), kind)),
  );
}

function openOf(step: Explained, context: Context): ((op: Op) => void) | undefined {
  const open = opOpener(context);
  return open && ((op) => open(op.op, programName(step, op.program)));
}

function list(step: Explained, context: Context): HTMLElement {
  const open = openOf(step, context);
  const noCost = "the recording has no costs of ops";
  const rates: Column<Op>[] = [
    {
      title: "FLOP/s",
      numeric: true,
      value: (op) => rate(op.flops, op),
      cell: (op) => figure(rate(op.flops, op), (value) => large(value, "FLOP/s"), noCost),
    },
    {
      title: "B/s",
      hint: "device memory",
      numeric: true,
      value: (op) => rate(op.bytes_accessed, op),
      cell: (op) => figure(rate(op.bytes_accessed, op), (value) => large(value, "B/s"), noCost),
    },
  ];
  const columns = [...fieldColumns<Op>(OpJsonColumns), ...rates];
  return table({
    caption: "Ops of a step",
    columns,
    rows: step.ops,
    sort: columns.findIndex(({ title }) => title === "self ms"),
    text: (op) => [op.op, op.category, op.scope, op.source, op.phase].join(" "),
    ...(open ? { open, openHint: "Show in the timeline" } : {}),
  });
}

/** `amount` is of one execution, the time of all in a step. */
function rate(amount: number | null, op: Op): number | null {
  return amount === null || op.self_ms <= 0 ? null : ((amount * op.count) / op.self_ms) * 1e3;
}
