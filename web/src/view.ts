/** What a view is, and what it may ask of the page around it. */

import type { Page } from "./page";
import type { Source } from "./source";

export interface Context {
  page: Page;
  source: Source;
  /** Opens a view, as a click on its tab does; parameters left out are forgotten. */
  navigate(view: string, params?: Record<string, string>): void;
  /** Changes the address in place: no view is mounted anew. null: the parameter goes. */
  setParams(params: Record<string, string | null>): void;
  /** Calls the listener when the app has a newer page (levels complete); returns how to stop. */
  refresh(listener: (page: Page) => void): () => void;
}

export interface Mounted {
  /** The parameters of the address: once after mounting, then whenever they change. */
  show(params: URLSearchParams): void;
  unmount(): void;
}

export interface View {
  /** Name in the address, `#view=overview`. */
  id: string;
  title: string;
  available(page: Page): boolean;
  mount(root: HTMLElement, context: Context): Mounted;
}
