/** Ops as a tree: by scope, by source line, or by category. */

import type { Branch } from "../charts/icicle";
import type { Op } from "../results";

/** Numbers of ops: fusion.14 and fusion.20 of one scope lie together, too. */
const NUMBERS = /(\.\d+)+$/;

export type By = "scope" | "source" | "category";

/** Layers of one kind lie together: layers_0 to layers_31 are layers_*. */
const LAYER = /(?<=_)\d+(?=$|[/.\[(])|^\d+$/g;

export function treeOf(ops: readonly Op[], by: By): Branch {
  const root = branch("all ops", "mixed", null);
  for (const op of ops) {
    if (op.self_ms <= 0) continue;
    let at = root;
    for (const name of way(op, by)) at = child(at, name, op.category);
    const leaf = child(at, op.op.replace(NUMBERS, ""), op.category);
    leaf.own += op.self_ms;
    leaf.ops += 1;
  }
  sum(root);
  for (const below of root.children) join(below, by);
  return root;
}

/** The categories with a color of their own; the rest is drawn as "other". */
export const CATEGORIES = [
  "matmul",
  "convolution",
  "attention",
  "elementwise",
  "fusion",
  "reduction",
  "collective",
  "copy",
  "custom-call",
  "host",
  "other",
];

export function kindClass(category: string): string {
  return CATEGORIES.includes(category) ? category : "other";
}

function way(op: Op, by: By): string[] {
  if (by === "category") return [op.category, ...(op.phase ? [op.phase] : [])];
  if (by === "scope")
    return op.scope ? op.scope.split("/").map((name) => name.replace(LAYER, "*")) : ["no scope", op.category];
  if (!op.source) return ["no source line", op.category];
  const [, path, line] = /^(.*?)(?::(\d+))?$/.exec(op.source) ?? [];
  const names = (path ?? op.source).split("/").filter(Boolean);
  return line ? [...names, `line ${line}`] : names;
}

function branch(name: string, kind: string, parent: Branch | null): Branch {
  return { name, total: 0, own: 0, kind, children: [], parent, ops: 0 };
}

const INDEX = new WeakMap<Branch, Map<string, Branch>>();

function child(of: Branch, name: string, category: string): Branch {
  let index = INDEX.get(of);
  if (!index) INDEX.set(of, (index = new Map()));
  let found = index.get(name);
  if (!found) {
    found = branch(name, category, of);
    index.set(name, found);
    of.children.push(found);
  }
  return found;
}

/** Totals, the largest first; the category of an inner branch is the one with most time below. */
function sum(of: Branch): Map<string, number> {
  const kinds = new Map<string, number>();
  if (of.own > 0) kinds.set(of.kind, of.own);
  for (const below of of.children) {
    for (const [kind, time] of sum(below)) kinds.set(kind, (kinds.get(kind) ?? 0) + time);
  }
  if (of.ops > 1) of.name = `${of.name} ×${of.ops}`;
  of.total = [...kinds.values()].reduce((all, time) => all + time, 0);
  of.kind = [...kinds].sort((one, other) => other[1] - one[1])[0]?.[0] ?? of.kind;
  of.children.sort((one, other) => other.total - one.total);
  return kinds;
}

/** A branch whose only child is a branch is one with it: opt/praxis/praxis. */
function join(at: Branch, by: By): void {
  let only = at.children[0];
  while (by !== "category" && at.own === 0 && at.children.length === 1 && only && only.children.length > 0) {
    at.name = `${at.name}/${only.name}`;
    at.children = only.children;
    only = at.children[0];
  }
  for (const below of at.children) {
    below.parent = at;
    join(below, by);
  }
}
