/** What the mouse, a pen or a finger does on the canvas. */

import type { Scene } from "./scene";
import { type Spot, spotAt } from "./spots";

const CLICK = 4;
const REACH = 3;

export interface PointerActions {
  select(spot: Spot | null): void;
  hover(spot: Spot | null, x: number, y: number): void;
  range(done: boolean): void;
  scroll(by: number): void;
  moved(): void;
}

interface Drag {
  x: number;
  y: number;
  lastX: number;
  lastY: number;
  /** Common time where a range begins; null: this moves the window. */
  from: number | null;
  far: boolean;
}

export class Pointer {
  private drag: Drag | null = null;
  private readonly fingers = new Map<number, { x: number; y: number }>();

  constructor(
    private readonly canvas: HTMLElement,
    private readonly scene: () => Scene,
    private readonly actions: PointerActions,
  ) {
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.up(event));
    canvas.addEventListener("pointercancel", () => this.cancel());
    canvas.addEventListener("pointerleave", () => actions.hover(null, 0, 0));
    canvas.addEventListener("dblclick", (event) => this.zoomIn(event));
  }

  /** What lies at a place of the canvas. */
  spot(x: number, y: number): Spot | null {
    const scene = this.scene();
    const down = y + scene.scroll;
    for (const drawn of scene.drawn) {
      const { lane } = drawn;
      const rows = lane.side.page.tracks[lane.track]?.rows ?? 1;
      if (down < lane.y || down >= lane.y + rows * lane.pitch) continue;
      const found = spotAt(
        drawn,
        down,
        scene.viewport.time(x) + lane.side.offset,
        REACH * scene.viewport.unit,
      );
      if (found) return found;
    }
    return null;
  }

  private wheel(event: WheelEvent): void {
    const { viewport } = this.scene();
    const unit =
      event.deltaMode === WheelEvent.DOM_DELTA_LINE
        ? 33
        : event.deltaMode === WheelEvent.DOM_DELTA_PAGE
          ? 400
          : 1;
    const [across, down] = [event.deltaX * unit, event.deltaY * unit];
    event.preventDefault();
    if (event.altKey) return this.actions.scroll(down);
    if (event.shiftKey || Math.abs(across) > Math.abs(down)) viewport.pan(across || down);
    else
      viewport.zoom(
        Math.exp(Math.min(Math.max(down, -300), 300) * (event.ctrlKey ? 0.01 : 0.002)),
        this.at(event).x,
      );
    this.actions.moved();
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    const { x, y } = this.at(event);
    this.fingers.set(event.pointerId, { x, y });
    this.canvas.setPointerCapture(event.pointerId);
    const from = event.shiftKey ? this.scene().viewport.time(x) : null;
    this.drag = { x, y, lastX: x, lastY: y, from, far: false };
  }

  private move(event: PointerEvent): void {
    const { x, y } = this.at(event);
    const { drag } = this;
    if (this.fingers.size === 2) return this.pinch(event.pointerId, x, y);
    if (!drag) return this.actions.hover(this.spot(x, y), x, y);
    drag.far ||= Math.hypot(x - drag.x, y - drag.y) > CLICK;
    if (!drag.far) return;
    const scene = this.scene();
    if (drag.from !== null) {
      const to = scene.viewport.time(x);
      scene.range = [Math.min(drag.from, to), Math.max(drag.from, to)];
      this.actions.range(false);
    } else {
      scene.viewport.pan(drag.lastX - x);
      this.actions.scroll(drag.lastY - y);
      if (!this.canvas.classList.contains("tl-dragged")) this.canvas.classList.add("tl-dragged");
      this.actions.moved();
    }
    drag.lastX = x;
    drag.lastY = y;
  }

  private up(event: PointerEvent): void {
    const { drag } = this;
    this.cancel();
    if (!drag) return;
    const { x, y } = this.at(event);
    if (!drag.far) this.actions.select(this.spot(x, y));
    else if (drag.from !== null) this.actions.range(true);
  }

  private cancel(): void {
    this.drag = null;
    this.fingers.clear();
    this.canvas.classList.remove("tl-dragged");
  }

  /** Two fingers zoom around what lies between them. */
  private pinch(id: number, x: number, y: number): void {
    const before = this.gap();
    this.fingers.set(id, { x, y });
    const after = this.gap();
    const middle = [...this.fingers.values()].reduce((sum, finger) => sum + finger.x / 2, 0);
    if (before > 0 && after > 0) this.scene().viewport.zoom(before / after, middle);
    if (this.drag) this.drag.far = true;
    this.actions.moved();
  }

  private gap(): number {
    const [one, other] = [...this.fingers.values()];
    return one && other ? Math.abs(one.x - other.x) : 0;
  }

  private zoomIn(event: MouseEvent): void {
    this.scene().viewport.zoom(0.4, this.at(event).x);
    this.actions.moved();
  }

  private at(event: MouseEvent): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }
}
