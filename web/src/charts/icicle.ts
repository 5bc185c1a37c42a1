/** A tree as an icicle: width is time, a row per level. One stop of the Tab key; arrows walk. */

import { fill, h } from "../dom";

export interface Branch {
  name: string;
  /** With all below it. */
  total: number;
  /** Its own time. */
  own: number;
  kind: string;
  /** Ops with this very name, but for its number. */
  ops: number;
  children: Branch[];
  parent: Branch | null;
}

interface Options {
  label: string;
  root: Branch;
  describe(branch: Branch): string;
  onPick(branch: Branch): void;
}

const LEVELS = 14;
const NARROWEST = 0.0015;
/** In narrower boxes a name could not be read. */
const NAMED = 0.02;

export class Icicle {
  readonly element: HTMLElement;
  private readonly trail = h("nav", { class: "trail", "aria-label": "Zoomed into" });
  private readonly tree: HTMLElement;
  private readonly shown = new Map<Branch, HTMLElement>();
  private zoomed: Branch;
  private at: Branch;

  constructor(private readonly options: Options) {
    this.zoomed = this.at = options.root;
    this.tree = h("div", {
      class: "icicle",
      role: "tree",
      "aria-label": options.label,
      onkeydown: (event: Event) => this.key(event as KeyboardEvent),
    });
    this.element = h("div", {}, this.trail, this.tree);
    this.draw();
  }

  private draw(): void {
    this.shown.clear();
    const boxes: HTMLElement[] = [];
    const depth = this.place(this.zoomed, 0, 1, 0, boxes);
    fill(this.tree, ...boxes);
    this.tree.style.height = `calc(var(--icicle-row) * ${depth})`;
    if (!this.shown.has(this.at)) this.at = this.zoomed;
    this.shown.get(this.at)?.setAttribute("tabindex", "0");
    this.drawTrail();
  }

  /** Returns the number of levels. Siblings too narrow to see share a box without a name. */
  private place(branch: Branch, left: number, width: number, level: number, boxes: HTMLElement[]): number {
    const box = this.box(branch, level, width);
    box.style.left = `${left * 100}%`;
    box.style.width = `${width * 100}%`;
    box.style.top = `calc(var(--icicle-row) * ${level})`;
    boxes.push(box);
    this.shown.set(branch, box);
    if (level + 1 >= LEVELS) return level + 1;
    let depth = level + 1;
    let start = left;
    for (const child of branch.children) {
      const share = (child.total / (branch.total || 1)) * width;
      if (share >= NARROWEST) depth = Math.max(depth, this.place(child, start, share, level + 1, boxes));
      start += share;
    }
    return depth;
  }

  private box(branch: Branch, level: number, width: number): HTMLElement {
    return h(
      "div",
      {
        class: `box fill-cat-${branch.kind}`,
        role: "treeitem",
        tabindex: -1,
        "aria-level": level + 1,
        "aria-expanded": branch.children.length > 0 ? "true" : null,
        "aria-label": this.options.describe(branch),
        title: this.options.describe(branch),
        onclick: () => this.pick(branch),
        onfocus: () => this.options.onPick(branch),
      },
      width >= NAMED && h("span", {}, branch.name),
    );
  }

  private pick(branch: Branch): void {
    if (branch.children.length > 0) {
      this.at = this.zoomed = branch === this.zoomed && branch.parent ? branch.parent : branch;
      this.draw();
    } else {
      this.at = branch;
    }
    this.options.onPick(this.at);
    this.focus(this.at);
  }

  private drawTrail(): void {
    const way: Branch[] = [];
    for (let branch: Branch | null = this.zoomed; branch; branch = branch.parent) way.unshift(branch);
    const links = way.flatMap((branch, at) => [
      at > 0 ? h("span", { "aria-hidden": "true" }, "›") : null,
      branch === this.zoomed
        ? h("span", { "aria-current": "true" }, branch.name)
        : h("button", { type: "button", class: "link", onclick: () => this.zoomTo(branch) }, branch.name),
    ]);
    fill(this.trail, ...(way.length > 1 ? links : []));
  }

  private zoomTo(branch: Branch): void {
    this.zoomed = this.at = branch;
    this.draw();
    this.focus(branch);
  }

  private focus(branch: Branch): void {
    const box = this.shown.get(branch);
    if (!box) return;
    this.tree.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    box.setAttribute("tabindex", "0");
    box.focus();
    this.at = branch;
  }

  private key(event: KeyboardEvent): void {
    const to = this.step(event.key);
    if (to) this.focus(to);
    else if (event.key === "Enter" || event.key === " ") this.pick(this.at);
    else if ((event.key === "Escape" || event.key === "Backspace") && this.zoomed.parent)
      this.zoomTo(this.zoomed.parent);
    else return;
    event.preventDefault();
  }

  private step(key: string): Branch | null {
    const seen = (branch: Branch | null | undefined) => (branch && this.shown.has(branch) ? branch : null);
    if (key === "ArrowDown") return seen(this.at.children[0]);
    if (key === "ArrowUp") return seen(this.at.parent);
    if (key === "Home") return this.zoomed;
    const beside = this.at.parent?.children ?? [];
    const now = beside.indexOf(this.at);
    if (key === "ArrowRight") return seen(beside[now + 1]);
    if (key === "ArrowLeft") return seen(beside[now - 1]);
    return null;
  }
}
