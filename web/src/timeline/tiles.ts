/** Fetches tiles that the screen needs, a few at a time, and keeps those used last. */

import type { Track } from "../page";
import type { Source } from "../source";
import { instances } from "./instances";
import { NO_OP, type Side } from "./sides";
import { nameOf, Segments, type Tile, type TileId } from "./tile";

const AT_ONCE = 256;
/** Segments that are kept: some 40 bytes each. */
const MOST_SEGMENTS = 3_000_000;

export class Tiles {
  private readonly kept = new Map<string, Tile>();
  private readonly failed = new Map<string, string>();
  private readonly asked = new Map<string, Promise<Tile | null>>();
  private wanted: TileId[] = [];
  private segments = 0;

  constructor(
    private readonly sides: Side[],
    private readonly source: Source,
    /** Fulfilled when all tables of ops are there. */
    private readonly ready: Promise<unknown>,
    private readonly loaded: () => void,
  ) {}

  /** A tile that is here. */
  get(id: TileId): Tile | null {
    const name = nameOf(id);
    const found = this.kept.get(name);
    if (!found) return null;
    this.kept.delete(name);
    this.kept.set(name, found);
    return found;
  }

  /** Whether a tile can be drawn at once or soon. */
  exists(id: TileId): boolean {
    const track = this.track(id);
    return (track?.levels[id.level]?.has[id.tile] ?? false) && !this.failed.has(nameOf(id));
  }

  get busy(): boolean {
    return this.asked.size > 0 || this.wanted.length > 0;
  }

  get failures(): string[] {
    return [...this.failed.values()];
  }

  /** Replaces what is asked for; what is under way goes on. */
  want(ids: TileId[]): void {
    this.wanted = ids.filter((id) => {
      const name = nameOf(id);
      return !this.kept.has(name) && !this.asked.has(name) && !this.failed.has(name);
    });
    this.next();
  }

  /** A tile, once it is here; null: it isn't in this file. */
  async load(id: TileId): Promise<Tile | null> {
    if (!this.exists(id)) return null;
    return this.get(id) ?? this.asked.get(nameOf(id)) ?? this.ask(id);
  }

  private next(): void {
    while (this.asked.size < AT_ONCE) {
      const id = this.wanted.shift();
      if (!id) return;
      if (!this.asked.has(nameOf(id))) void this.ask(id);
    }
  }

  private ask(id: TileId): Promise<Tile | null> {
    const name = nameOf(id);
    const found = this.fetch(id)
      .catch((error: unknown) => {
        this.failed.set(name, error instanceof Error ? error.message : String(error));
        return null;
      })
      .then((tile) => {
        this.asked.delete(name);
        this.next();
        this.loaded();
        return tile;
      });
    this.asked.set(name, found);
    return found;
  }

  private async fetch(id: TileId): Promise<Tile> {
    const track = this.track(id) as Track;
    const side = this.sides[id.side] as Side;
    const segments = new Segments(await this.source.block(nameOf(id)), track.rows);
    const tile: Tile = { id, segments, rows: track.rows, drawn: null, merged: new Map() };
    // Buckets of the first side can be drawn before its ops have names.
    if (id.level === 0 || id.side > 0) await this.ready;
    tile.drawn = instances(segments, side, track, id.level);
    this.keep(tile);
    return tile;
  }

  private keep(tile: Tile): void {
    this.kept.set(nameOf(tile.id), tile);
    this.segments += tile.segments.count;
    for (const [name, old] of this.kept) {
      if (this.segments <= MOST_SEGMENTS || old === tile) break;
      this.kept.delete(name);
      this.segments -= old.segments.count;
    }
  }

  private track(id: TileId): Track | undefined {
    return this.sides[id.side]?.page.tracks[id.track];
  }
}

/** Row of the OpTable of a segment's op; null: it has none. */
export function opOf(tile: Tile, at: number): number | null {
  const op = tile.segments.op?.[at];
  return op === undefined || op === NO_OP ? null : op;
}
