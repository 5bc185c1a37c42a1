/** The canvases: what a frame draws, and what it asks for. */

import { type Band, bandsOf, drawRuler, rulerHeight } from "./bands";
import { cover } from "./cover";
import { foldOf } from "./folds";
import { drawnAt } from "./merge";
import { drawOverlay } from "./overlay";
import type { Painter, Placement } from "./painter";
import { Pixels } from "./pixels";
import { glPainter } from "./rectangles";
import type { Scene } from "./scene";
import type { Drawn } from "./spots";
import type { TileId } from "./tile";
import { isOfHost } from "./tracks";

/** Milliseconds of rest before what came on screen is fetched. */
const REST = 40;
/** Spans of a track in which each is to be seen. */
const FEW = 48;

export class Stage {
  bands: Band[] = [];
  height = 0;
  private painter: Painter;
  private planned = 0;
  private timer = 0;
  private wanted = "";

  constructor(
    private readonly scene: () => Scene,
    private readonly plot: HTMLElement,
    private readonly ruler: HTMLCanvasElement,
    private readonly rectangles: HTMLCanvasElement,
    private readonly overlay: HTMLCanvasElement,
    private readonly painted: () => void,
  ) {
    this.painter = this.start();
  }

  /** Draws with the next frame of the screen. */
  draw(): void {
    if (!this.planned) this.planned = requestAnimationFrame(() => this.frame());
  }

  stop(): void {
    cancelAnimationFrame(this.planned);
    clearTimeout(this.timer);
    this.painter.dispose();
  }

  /** Draws at once. */
  frame(): void {
    this.planned = 0;
    const scene = this.scene();
    const width = this.plot.clientWidth;
    this.height = this.plot.clientHeight;
    if (width < 1 || this.height < 1) return;
    scene.viewport.width = width;
    const { placements, drawn, wanted } = this.look(scene);
    scene.drawn = drawn;
    const ratio = window.devicePixelRatio || 1;
    const { viewport, scroll, palette, marks } = scene;
    const { start, unit } = viewport;
    const { height } = this;
    const hasGpu = this.painter.how === "WebGL2";
    const context = sized(this.overlay, width, height, ratio, { alpha: hasGpu });
    if (context) {
      this.painter.paint(
        {
          start,
          unit,
          width,
          height,
          scroll,
          ratio,
          placements,
          folds: this.folds(scene),
          palette,
          marks,
        },
        context,
      );
      drawOverlay(context, scene, height);
    }
    this.bands = bandsOf(scene.sides, palette.scale);
    // Without a GPU, many bars of a small canvas are drawn faster by the CPU alone.
    const above = sized(this.ruler, width, rulerHeight(this.bands, palette.scale), ratio, {
      alpha: false,
      willReadFrequently: !hasGpu,
    });
    if (above) drawRuler(above, scene, this.bands);
    this.ask(scene, wanted);
    this.painted();
  }

  get count(): number {
    return this.painter.rectangles;
  }

  /** Whether nothing is to be fetched for what was drawn last; what is under way aside. */
  get rests(): boolean {
    return this.timer === 0;
  }

  get how(): string {
    return this.painter.how;
  }

  /** Which tiles are drawn where, and which would be better. */
  private look(scene: Scene): { placements: Placement[]; drawn: Drawn[]; wanted: TileId[] } {
    const placements: Placement[] = [];
    const drawn: Drawn[] = [];
    const wanted: TileId[] = [];
    const { viewport, rows, scroll } = scene;
    for (const lane of rows.lanes) {
      const track = lane.side.page.tracks[lane.track];
      const bottom = lane.y + lane.pitch * (track?.rows ?? 1);
      if (!track || bottom < scroll || lane.y > scroll + this.height) continue;
      const { index, offset } = lane.side;
      const sight = {
        side: index,
        track: lane.track,
        start: viewport.start + offset,
        end: viewport.end + offset,
        unit: viewport.unit,
      };
      const found = cover(track, sight, scene.tiles);
      drawn.push({ lane, cover: found });
      wanted.push(...found.missing);
      const sums = track.kind === "summary" || track.kind === "fold";
      for (const { level, tiles, hole } of found.layers) {
        const clear: [number, number] | null = hole && [hole[0] - offset, hole[1] - offset];
        const { y, pitch, height } = lane;
        const isSpans = level === 0 && !sums;
        const isSparse = isSpans && isFew(track.levels[0]?.count ?? []);
        const isHost = isOfHost(track);
        for (const tile of tiles) {
          const of = this.painter.merges ? drawnAt(tile, viewport.unit) : tile.drawn;
          if (of)
            placements.push({
              drawn: of,
              rows: tile.rows,
              y,
              pitch,
              height,
              hole: clear,
              isSpans,
              isHost,
              isSparse,
            });
        }
      }
    }
    return { placements, drawn, wanted };
  }

  private folds({ drawn, viewport, scroll }: Scene): number[][] {
    return drawn
      .filter(({ lane }) => lane.side.page.tracks[lane.track]?.kind === "fold")
      .map((each) => foldOf(each, viewport, scroll));
  }

  /** Fetches at once what a still screen lacks, and after a rest what a moving one does. */
  private ask(scene: Scene, wanted: TileId[]): void {
    const key = wanted.map((id) => `${id.side}.${id.track}.${id.level}.${id.tile}`).join(" ");
    if (key === this.wanted) return;
    const first = this.wanted === "" && this.timer === 0;
    this.wanted = key;
    clearTimeout(this.timer);
    const ask = () => {
      this.timer = 0;
      scene.tiles.want(wanted);
    };
    if (first || key === "") return ask();
    this.timer = setTimeout(() => {
      ask();
      this.draw(); // even if all of it came meanwhile: what is said of this frame changes
    }, REST);
  }

  private start(): Painter {
    const found = glPainter(this.rectangles);
    if (!found) return this.flat();
    this.rectangles.addEventListener("webglcontextlost", () => {
      this.painter = this.flat();
      this.draw();
    });
    return found;
  }

  /** One canvas is drawn on where there is no GPU: the browser has fewer to put together. */
  private flat(): Painter {
    this.rectangles.remove();
    return new Pixels();
  }
}

/** A canvas of a size. One that nothing shines through is put on the screen faster. */
function sized(
  canvas: HTMLCanvasElement,
  width: number,
  height: number,
  ratio: number,
  how: CanvasRenderingContext2DSettings,
): CanvasRenderingContext2D | null {
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d", how);
  context?.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** Whether all tiles together have few spans. */
function isFew(counts: number[]): boolean {
  return counts.length <= 3 && counts.reduce((sum, count) => sum + count, 0) <= FEW;
}
