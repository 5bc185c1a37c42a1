/** Starts the page: reads it, builds what surrounds the views, and shows the one that the address names. */

import "./style.css";
import "./charts/charts.css";
import "./views/views.css";
import "./timeline/timeline.css";
import { fill, h } from "./dom";
import type { Page } from "./page";
import { startRouter } from "./router";
import { buildShell } from "./shell";
import { isFile, openSource, type Source, type State } from "./source";
import { startTheme } from "./theme";
import { timelineView } from "./timeline/view";
import type { Context, Mounted, View } from "./view";
import { candidates } from "./views/candidates";
import { collectives } from "./views/collectives";
import { compare } from "./views/compare";
import { network } from "./views/network";
import { ops } from "./views/ops";
import { overview } from "./views/overview";
import { report } from "./views/report";
import { study } from "./views/study";

/** In the order of the tabs; the first that is available opens first. */
const VIEWS: readonly View[] = [
  study,
  overview,
  compare,
  timelineView,
  collectives,
  network,
  ops,
  candidates,
  report,
];
/** Between two questions how far the app is: often at first, while a profile is read and steps appear. */
const SOON_MS = 100;
const AGAIN_MS = 400;
const SOON_FOR_MS = 10_000;
const MOST_FAILURES = 5;

startTheme();
const source = openSource();
// The state comes first: a page that changes in between is asked for once more, never missed.
source
  .state()
  .then(async (state) => {
    const page = await source.page();
    guarded(() => new App(page, source, state));
  })
  .catch((error: unknown) => fail("The page could not be read.", error));

class App {
  private readonly listeners = new Set<(page: Page) => void>();
  private readonly context: Context;
  private readonly shell = buildShell((view) => this.context.navigate(view.id));
  private readonly router = startRouter(() => this.route());
  private done: boolean;
  private mounted: { view: View; mounted: Mounted } | null = null;

  constructor(page: Page, from: Source, state: State) {
    this.done = state.complete;
    this.context = {
      page,
      source: from,
      navigate: (view, params = {}) => this.router.go(view, params),
      setParams: (params) => this.router.change(params),
      refresh: (listener) => {
        this.listeners.add(listener);
        return () => this.listeners.delete(listener);
      },
    };
    this.route();
    void this.follow(state);
  }

  private views(): View[] {
    return VIEWS.filter((view) => view.available(this.context.page));
  }

  /** Shows the view of the address; `kept` is the one to stay with where the address names none. */
  private route(kept: View | null = null): void {
    const params = this.router.params();
    const views = this.views();
    const inTime = ["step", "from", "finding"].some((name) => params.has(name)) ? "timeline" : null;
    const named = views.find(({ id }) => id === (params.get("view") ?? inTime));
    const view = named ?? views.find((it) => it === kept) ?? views[0];
    if (!view) return this.wait();
    this.shell.update(this.context.page, views, view);
    // A newer page changes nothing of where a view is that stays.
    if (this.mounted?.view !== view || kept === null) guarded(() => this.show(view, params));
  }

  /** Nothing is there yet: the app reads the profile. */
  private wait(): void {
    if (this.done) return fail("The page holds nothing to show.", null);
    this.shell.update(this.context.page, [], null);
    const notice = h("p", { class: "waiting" }, "Steps appear here as soon as they are known.");
    fill(this.shell.panel, notice);
  }

  private show(view: View, params: URLSearchParams): void {
    if (this.mounted?.view !== view) {
      this.mounted?.mounted.unmount();
      this.mounted = null;
      fill(this.shell.panel);
      const missing = lacking(view);
      if (missing) return fill(this.shell.panel, h("p", { class: "notice", role: "alert" }, missing));
      this.mounted = { view, mounted: view.mount(this.shell.panel, this.context) };
      window.scrollTo(0, 0);
    }
    this.mounted.mounted.show(params);
  }

  /** While the app computes levels or results, the page is asked for again after each change. */
  private async follow(first: State): Promise<void> {
    let { revision, complete, message } = first;
    this.shell.say(message, !complete);
    const began = performance.now();
    for (let failures = 0; !complete;) {
      const pause = performance.now() - began < SOON_FOR_MS ? SOON_MS : AGAIN_MS;
      await new Promise((resolve) => setTimeout(resolve, pause));
      try {
        const state = await this.context.source.state();
        this.done = state.complete;
        if (state.revision !== revision) this.renew(await this.context.source.page());
        ({ revision, complete, message } = state);
        this.shell.say(message, !complete);
        failures = 0;
      } catch {
        if (++failures < MOST_FAILURES) continue;
        return this.shell.say("The app has ended: start `counterpoint view` again", false);
      }
    }
  }

  private renew(page: Page): void {
    const before = shape(this.context.page);
    const wasPreview = isPreview(this.context.page);
    this.context.page = page;
    for (const listener of this.listeners) listener(page);
    if (shape(page) === before) return;
    const kept = this.mounted?.view ?? null;
    if (this.mounted && (kept !== timelineView || (wasPreview && !isPreview(page)))) {
      this.mounted.mounted.unmount();
      this.mounted = null;
    }
    this.route(kept);
  }
}

/** What decides which views there are, and what those without a timeline show. */
function shape(page: Page): string {
  return JSON.stringify([
    Object.keys(page.results),
    page.reports.length,
    page.timelines.map(({ steps, complete, preview }) => [steps.step.length, complete, preview]),
  ]);
}

function isPreview(page: Page): boolean {
  return page.timelines.some(({ preview }) => preview);
}

/** What the browser lacks for a view: blocks in a file are compressed, those of the app are not. */
function lacking(view: View): string | null {
  if (view !== timelineView || !isFile() || typeof DecompressionStream !== "undefined") return null;
  return (
    "This browser can't decompress the timeline (it has no DecompressionStream): " +
    "use Chrome 80, Firefox 113, Safari 16.4 or newer. The other views work."
  );
}

function guarded(work: () => void): void {
  try {
    work();
  } catch (error) {
    fail("This view could not be shown.", error);
  }
}

function fail(what: string, error: unknown): void {
  const said = error instanceof Error ? error.message : error === null ? "" : String(error);
  const retry = h("button", { type: "button", onclick: () => location.reload() }, "Try again");
  const panel = h(
    "div",
    { class: "failure", role: "alert" },
    h("h2", {}, what),
    said && h("p", {}, said),
    retry,
  );
  const place = document.getElementById("panel");
  if (place) fill(place, panel);
  else document.body.append(panel);
  if (error !== null) console.error(error);
}
