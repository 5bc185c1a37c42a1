/** The timeline: lanes of each device and stream, with what waits marked on it. */

import { h } from "../dom";
import type { Page } from "../page";
import { visible } from "../text";
import type { Context, Mounted, View } from "../view";
import { Address, follow, toStep } from "./address";
import { stepUnder } from "./bands";
import { hasChanges, isChanged, markChanges } from "./changes";
import { Details } from "./details";
import { Gutter } from "./gutter";
import { helpDialog, isTyping, type KeyActions, onKey } from "./keys";
import { boxOf } from "./overlay";
import { onTheme, readPalette } from "./palette";
import { Pointer } from "./pointer";
import { showRange } from "./ranges";
import { Scene } from "./scene";
import { Search } from "./search";
import { Selection, sentence, SHARE } from "./selection";
import { stepAt, stepRow } from "./sides";
import { gapSpot, type Spot } from "./spots";
import { Stage } from "./stage";
import { Toolbar } from "./toolbar";
import { Tooltip } from "./tooltip";
import { nearest } from "./walk";

/** What a page shows while its profile is read; `host`, one of several, marked the steps. */
function previewOf(host: string | null): string {
  return `reading: so far, steps are shown as ${host ? `${visible(host)} marked them` : "they were marked"}`;
}

export const timelineView: View = {
  id: "timeline",
  title: "Timeline",
  available: (page) => page.timelines.length > 0,
  mount: (root, context) => new TimelineView(root, context),
};

class TimelineView implements Mounted {
  private readonly ruler = h("canvas", { class: "tl-ruler", "aria-hidden": "true" });
  private readonly rectangles = h("canvas", { class: "tl-canvas", "aria-hidden": "true" });
  private readonly overlay = h("canvas", {
    class: "tl-canvas tl-top",
    tabindex: 0,
    role: "application",
    "aria-label": "Timeline: arrows select, W A S D move, question mark lists the keys",
  });
  private readonly plot = h("div", { class: "tl-plot" }, this.rectangles, this.overlay);
  private readonly live = h("div", { class: "sr", "aria-live": "polite" });
  private readonly help = helpDialog();
  private readonly tooltip = new Tooltip();
  private readonly gutter = new Gutter((key) => this.scene.toggle(key));
  private readonly scroller: HTMLElement;
  private readonly element: HTMLElement;
  private readonly scene: Scene;
  private readonly stage: Stage;
  private readonly selection: Selection;
  private readonly search: Search;
  private readonly address: Address;
  private readonly toolbar: Toolbar;
  private readonly details: Details;
  private readonly ends: (() => void)[] = [];
  private readonly keys: KeyActions;
  private named: Promise<void>;
  private hasNames: () => void = () => {};
  private byChange: boolean;
  /** What the address names and this page lacks. */
  private absent = "";

  constructor(
    private readonly root: HTMLElement,
    private readonly context: Context,
  ) {
    this.named = new Promise((resolve) => (this.hasNames = resolve));
    this.byChange = hasChanges(context.page) && isChanged(context.page);
    this.scene = new Scene(
      context.page,
      context.source,
      () => this.stage?.draw(),
      () => this.learned(),
    );
    this.selection = new Selection(
      () => this.scene,
      (spot) => this.selected(spot),
      (spot) => this.scrollTo(spot),
    );
    this.search = new Search(
      () => this.scene,
      () => this.toolbar.told(this.search),
    );
    this.address = new Address(context, () => this.scene);
    this.details = new Details(() => this.context.page, {
      close: () => this.escape(),
      again: (by) => void this.selection.again(by),
      zoom: () => this.enter(),
      finding: (code) => this.showFinding(code),
      partner: () => this.selection.reveal(this.scene.partner),
    });
    this.keys = this.actions();
    this.toolbar = new Toolbar({
      ...this.keys,
      finding: (code) => this.showFinding(code),
      look: (text) => this.search.look(text),
      colour: (on) => this.colour(on),
      leave: () => this.leaveSearch(),
    });
    this.scroller = h("div", { class: "tl-scroll" }, this.gutter.element, this.plot);
    const head = h("div", { class: "tl-head" }, this.gutter.corner, this.ruler);
    const body = h(
      "div",
      { class: "tl-body" },
      h("div", { class: "tl-tracks" }, head, this.scroller),
      this.details.element,
    );
    this.element = h("div", { class: "tl" }, this.toolbar.element, body, this.live, this.help);
    this.plot.append(this.tooltip.element);
    this.root.replaceChildren(this.element);
    this.stage = new Stage(
      () => this.scene,
      this.plot,
      this.ruler,
      this.rectangles,
      this.overlay,
      () => this.painted(),
    );
    this.begin();
  }

  show(params: URLSearchParams): void {
    this.absent = follow(params, this.scene, {
      selection: this.selection,
      named: this.named,
      finding: (code) => this.showFinding(code),
      search: (text) => this.lookFor(text),
    });
  }

  unmount(): void {
    for (const end of this.ends) end();
    this.stage.stop();
    this.address.stop();
    this.toolbar.stop();
    this.root.replaceChildren();
  }

  private begin(): void {
    const { page } = this.context;
    this.toolbar.list(page);
    this.toolbar.offerChanges(hasChanges(page), this.byChange);
    new Pointer(this.overlay, () => this.scene, {
      select: (spot) => this.selection.set(spot),
      hover: (spot, x, y) => this.hover(spot, x, y),
      range: (done) => this.ranged(done),
      scroll: (by) => (this.scroller.scrollTop += by),
      moved: () => this.moved(),
    });
    this.ruler.addEventListener("click", (event) => this.clickRuler(event));
    this.ruler.addEventListener("wheel", (event) =>
      this.overlay.dispatchEvent(new WheelEvent("wheel", event)),
    );
    this.scroller.addEventListener("scroll", () => {
      this.scene.scroll = this.scroller.scrollTop;
      this.scene.changed();
    });
    const pressed = (event: KeyboardEvent) => this.pressed(event);
    document.addEventListener("keydown", pressed);
    const resized = new ResizeObserver(() => {
      this.tooltip.show(null, 0, 0, 0, 0); // it may lie beyond the new edge
      this.scene.resize(this.scroller.clientHeight);
      this.stage.frame();
    });
    resized.observe(this.plot);
    this.ends.push(
      () => document.removeEventListener("keydown", pressed),
      () => resized.disconnect(),
      onTheme(() => {
        this.scene.palette = readPalette();
        this.scene.changed();
      }),
      this.context.refresh((newer) => this.renew(newer)),
    );
  }

  private actions(): KeyActions {
    const { viewport } = this.scene;
    const moving = (work: () => void) => {
      work();
      this.moved();
    };
    return {
      zoom: (factor) => moving(() => viewport.zoom(factor)),
      pan: (share) => moving(() => viewport.pan(share * viewport.width)),
      all: () => moving(() => viewport.all()),
      step: (by) => this.toNextStep(by),
      along: (by) => void this.selection.along(by),
      across: (by) => void this.selection.across(by),
      again: (by) => void this.selection.again(by),
      enter: () => this.enter(),
      escape: () => this.escape(),
      search: () => this.toolbar.input.focus(),
      match: (by) => void this.search.go(by).then((spot) => this.selection.reveal(spot)),
      help: () => (this.help.open ? this.help.close() : this.help.showModal()),
    };
  }

  private pressed(event: KeyboardEvent): void {
    const { target } = event;
    if (isTyping(target) || this.help.open) return;
    const isPage =
      target === document.body ||
      (target instanceof Node && this.element.contains(target)) ||
      target === this.root;
    const presses = event.key === "Enter" || event.key === " ";
    const isButton = target instanceof Element && target.closest("button, a") !== null;
    if (isPage && !(presses && isButton)) onKey(event, this.keys);
  }

  private painted(): void {
    const { scene } = this;
    this.gutter.update(scene);
    this.gutter.updateCorner(scene, this.stage.bands);
    const failure = scene.tiles.failures[0];
    const { timelines } = this.context.page;
    const computing = timelines.some((timeline) => !timeline.complete);
    const marked = timelines.find((timeline) => timeline.preview);
    const work = marked ? previewOf(marked.marked_by) : "drawing lanes…";
    this.toolbar.say(computing ? work : (failure ?? (scene.tiles.busy ? "loading…" : this.absent)));
    this.tell("ready", String(this.stage.rests && !scene.tiles.busy && !computing));
    this.tell("steps", String(scene.sides[0]?.page.steps.step.length ?? 0));
    this.tell("rectangles", String(this.stage.count));
    this.tell("painter", this.stage.how);
  }

  /** Says how far the view is, for those who wait for it; a frame that changes nothing writes nothing. */
  private tell(name: string, value: string): void {
    if (this.element.dataset[name] !== value) this.element.dataset[name] = value;
  }

  /** The window changed. */
  private moved(): void {
    this.absent = "";
    this.scene.hovered = null;
    this.tooltip.show(null, 0, 0, 0, 0);
    this.scene.changed();
    this.address.write();
  }

  private renew(page: Page): void {
    if (this.scene.renew(page)) this.named = new Promise((resolve) => (this.hasNames = resolve));
    this.toolbar.list(page);
    this.toolbar.offerChanges(hasChanges(page), this.byChange);
  }

  /** Names of ops arrived: what is said of ops can be marked. */
  private learned(): void {
    if (this.scene.sides.some((side) => !side.ops)) return this.scene.changed();
    if (hasChanges(this.context.page)) markChanges(this.scene, this.context.page, this.byChange);
    if (this.search.text) void this.search.look(this.search.text);
    this.hasNames();
    this.scene.changed();
  }

  private colour(byChange: boolean): void {
    this.byChange = byChange;
    this.toolbar.offerChanges(hasChanges(this.context.page), byChange);
    markChanges(this.scene, this.context.page, byChange);
    this.scene.changed();
  }

  private selected(spot: Spot | null): void {
    this.details.show(this.scene, spot);
    this.live.textContent = spot ? sentence(spot) : "";
    this.address.write();
  }

  private hover(spot: Spot | null, x: number, y: number): void {
    this.tooltip.show(spot, x, y, this.plot.clientWidth, this.plot.clientHeight);
    if (spot === this.scene.hovered) return;
    this.scene.hovered = spot;
    this.scene.changed();
  }

  private ranged(done: boolean): void {
    this.scene.changed();
    if (!done) return;
    this.selection.set(null);
    void showRange(this.details.element, this.scene, () => this.escape());
  }

  private enter(): void {
    const { selection, viewport, range } = this.scene;
    if (range) viewport.fit(...range);
    else if (selection) this.selection.zoom(selection);
    this.moved();
  }

  private escape(): void {
    if (this.scene.range) {
      this.scene.range = null;
      this.details.show(this.scene, this.scene.selection);
    } else if (this.scene.selection) this.selection.set(null);
    else if (this.search.text) this.lookFor("");
    this.scene.changed();
    this.overlay.focus({ preventScroll: true });
  }

  private leaveSearch(): void {
    if (this.toolbar.input.value) this.lookFor("");
    this.overlay.focus({ preventScroll: true });
  }

  private lookFor(text: string): void {
    this.toolbar.input.value = text;
    void this.search.look(text);
  }

  private toNextStep(by: 1 | -1): void {
    const side = this.scene.sides[0];
    if (!side) return;
    const { viewport } = this.scene;
    const row = stepRow(side.page, (viewport.start + viewport.end) / 2 + side.offset);
    const step = stepAt(side.page, Math.min(Math.max(row + by, 0), side.page.steps.step.length - 1));
    if (!step || !toStep(this.scene, side, step.number)) return;
    this.moved();
    this.address.write(step.number);
  }

  private clickRuler(event: MouseEvent): void {
    const found = stepUnder(this.stage.bands, event.offsetY, this.scene.viewport.time(event.offsetX));
    const step = found && stepAt(found.side.page, found.row);
    if (!found || !step || !toStep(this.scene, found.side, step.number)) return;
    this.moved();
    this.address.write(step.number);
  }

  /** Goes to the place where a finding costs most. */
  private showFinding(code: string): boolean {
    const side = this.scene.sides[0];
    const place = side?.page.findings.find((finding) => finding.code === code)?.places[0];
    if (!side || !place) return false;
    const { track, start, dur, op } = place;
    this.toolbar.choose(code);
    this.scene.uncover(side, track);
    this.scene.viewport.fit(start, start + dur, SHARE);
    this.moved();
    if (op === null) this.selection.zoom(gapSpot(side, track, start, dur, code));
    else
      void nearest(this.scene, side, track, start + dur / 2, null, op).then((spot) =>
        this.selection.zoom(spot),
      );
    return true;
  }

  private scrollTo(spot: Spot): void {
    const box = boxOf(this.scene, spot);
    if (!box) return;
    this.gutter.update(this.scene);
    const height = this.scroller.clientHeight;
    if (box.y < 8) this.scroller.scrollTop += box.y - 8;
    else if (box.y + box.height > height - 8) this.scroller.scrollTop += box.y + box.height - height + 8;
    this.address.write();
  }
}
