/** Where a page and its blocks come from: embedded in the file, or the local app. */

import type { Columns, OpTable, Page } from "./page";

/** How far the app is with a page; `revision` counts its changes. */
export interface State {
  complete: boolean;
  /** What is done next, or why the page lacks something. */
  message: string;
  revision: number;
}

export interface Source {
  state(): Promise<State>;
  page(): Promise<Page>;
  block(name: string): Promise<Columns>;
  ops(name: string): Promise<OpTable>;
}

const PAGE = "counterpoint-page";
/** Blocks of one request. */
const AT_ONCE = 256;
const ABSENT = 0xffffffff;

export function openSource(): Source {
  return isFile() ? new Embedded() : new Served();
}

/** Whether the page is embedded in its file. */
export function isFile(): boolean {
  return document.getElementById(PAGE) !== null;
}

abstract class Cached implements Source {
  private readonly blocks = new Map<string, Promise<Columns>>();
  private readonly tables = new Map<string, Promise<OpTable>>();

  abstract state(): Promise<State>;
  abstract page(): Promise<Page>;
  protected abstract bytes(name: string): Promise<Uint8Array>;

  block(name: string): Promise<Columns> {
    let found = this.blocks.get(name);
    if (!found) {
      found = this.bytes(name).then(decode);
      // A tile that failed is asked for again; the cache holds the latest.
      found.catch(() => this.blocks.delete(name));
      this.blocks.set(name, found);
      if (this.blocks.size > 64) this.blocks.delete(this.blocks.keys().next().value as string);
    }
    return found;
  }

  ops(name: string): Promise<OpTable> {
    let found = this.tables.get(name);
    if (!found) {
      found = this.bytes(name).then((data) => JSON.parse(new TextDecoder().decode(data)));
      this.tables.set(name, found);
    }
    return found;
  }
}

class Embedded extends Cached {
  state(): Promise<State> {
    return Promise.resolve({ complete: true, message: "", revision: 0 });
  }

  page(): Promise<Page> {
    const text = document.getElementById(PAGE)?.textContent ?? "";
    return Promise.resolve(JSON.parse(text) as Page);
  }

  protected async bytes(name: string): Promise<Uint8Array> {
    const element = document.getElementById(`block-${name}`);
    if (!element) throw new Error(`this file has no block ${name}`);
    const text = atob((element.textContent ?? "").trim());
    return inflate(Uint8Array.from(text, (character) => character.charCodeAt(0)));
  }
}

class Served extends Cached {
  async state(): Promise<State> {
    return (await get("state.json")).json() as Promise<State>;
  }

  async page(): Promise<Page> {
    return (await get("page.json")).json() as Promise<Page>;
  }

  private waiting: Wish[] = [];

  /** Blocks that are wished for at once come with one answer: each request has its price. */
  protected bytes(name: string): Promise<Uint8Array> {
    return new Promise((take, refuse) => {
      if (this.waiting.length === 0) queueMicrotask(() => this.ask());
      this.waiting.push({ name, take, refuse });
    });
  }

  private ask(): void {
    const wishes = this.waiting;
    this.waiting = [];
    for (let first = 0; first < wishes.length; first += AT_ONCE) {
      const some = wishes.slice(first, first + AT_ONCE);
      fetchAll(some).catch((error: unknown) => some.forEach((wish) => wish.refuse(error)));
    }
  }
}

interface Wish {
  name: string;
  take(data: Uint8Array): void;
  refuse(error: unknown): void;
}

/** Each block follows its length; ABSENT: there is none. */
async function fetchAll(wishes: Wish[]): Promise<void> {
  const answer = await get(`blocks/${wishes.map((wish) => wish.name).join(",")}`);
  const data = await answer.arrayBuffer();
  const view = new DataView(data);
  let at = 0;
  for (const wish of wishes) {
    const size = view.getUint32(at, true);
    at += 4;
    if (size === ABSENT) {
      wish.refuse(new Error(`the app has no block ${wish.name}`));
      continue;
    }
    wish.take(new Uint8Array(data, at, size));
    at += size;
  }
}

async function get(path: string): Promise<Response> {
  const response = await fetch(path).catch(() => {
    throw new Error("the app has ended: run the command again, and open the new address");
  });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${response.statusText}`);
  return response;
}

/** Blocks in a file are compressed (zlib); those of the app are not. */
async function inflate(data: Uint8Array): Promise<Uint8Array> {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser can't decompress: use Chrome 80, Firefox 113, Safari 16.4 or newer");
  }
  const stream = new Blob([data as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

interface Header {
  columns: Record<string, { type: "u8" | "u16" | "u32" | "f64"; at: number; delta: boolean; unit: number; base: number; rows?: number }>;
  rows: number;
}

const TYPES = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f64: Float64Array };

/**
 * Decode a block: u32 length of the header, the header as JSON, then columns
 * at positions from its end, aligned to 8 bytes.
 */
export function decode(data: Uint8Array): Columns {
  const buffer = data.buffer.slice(data.byteOffset, data.byteOffset + data.byteLength) as ArrayBuffer;
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size))) as Header;
  const columns: Columns = {};
  for (const [name, { type, at, delta, unit, base, rows }] of Object.entries(header.columns)) {
    const stored = new TYPES[type](buffer, 4 + size + at, rows ?? header.rows);
    columns[name] = delta || unit !== 1 || base !== 0 ? restore(stored, delta, unit, base) : stored;
  }
  return columns;
}

function restore(stored: ArrayLike<number>, delta: boolean, unit: number, base: number): Float64Array {
  const values = new Float64Array(stored.length);
  let sum = 0;
  for (let at = 0; at < stored.length; at++) {
    sum = delta ? sum + (stored[at] as number) : (stored[at] as number);
    values[at] = sum * unit + base;
  }
  return values;
}
