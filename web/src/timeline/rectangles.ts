/** Rectangles with WebGL2: one draw call for each tile in the window. */

import { Arena } from "./arena";
import { drawFolds } from "./folds";
import { inWindow } from "./instances";
import { FAINTEST, type Frame, HATCH, type Marks, type Painter, type Placement } from "./painter";
import type { Colour } from "./palette";
import { FRAGMENT, LANES_ACROSS, MARKS_ACROSS, VERTEX } from "./shaders";

/** What draws without a GPU calls itself so. */
const SOFTWARE = /swiftshader|llvmpipe|softpipe|software|basic render/i;

/** Null where the browser has no WebGL2, or no GPU for it: there the CPU alone is faster. */
export function glPainter(canvas: HTMLCanvasElement): Painter | null {
  const gl = canvas.getContext("webgl2", {
    antialias: false,
    depth: false,
    alpha: true,
    premultipliedAlpha: true,
    failIfMajorPerformanceCaveat: true,
  });
  if (!gl) return null;
  try {
    if (SOFTWARE.test(rendererOf(gl))) {
      gl.getExtension("WEBGL_lose_context")?.loseContext();
      return null;
    }
    return new Rectangles(gl);
  } catch (error) {
    console.warn(error);
    return null;
  }
}

function rendererOf(gl: WebGL2RenderingContext): string {
  const info = gl.getExtension("WEBGL_debug_renderer_info");
  return String(gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
}

class Rectangles implements Painter {
  readonly how = "WebGL2";
  readonly merges = true;
  rectangles = 0;
  private readonly program: WebGLProgram;
  private readonly arena: Arena;
  private readonly vertices: WebGLVertexArrayObject;
  private readonly corners: WebGLBuffer;
  private described = 0;
  private readonly lanes: WebGLTexture;
  private readonly marks: WebGLTexture;
  private readonly places = new Map<string, WebGLUniformLocation | null>();
  private marked: Uint8Array | null = null;
  private texels = new Float32Array(0);
  /** What was uploaded last. */
  private placed = new Float32Array(0);

  constructor(private readonly gl: WebGL2RenderingContext) {
    this.program = linked(gl);
    this.arena = new Arena(gl);
    this.vertices = gl.createVertexArray() as WebGLVertexArrayObject;
    this.lanes = texture(gl);
    this.marks = texture(gl);
    this.corners = gl.createBuffer() as WebGLBuffer;
    gl.disable(gl.DEPTH_TEST);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE);
  }

  paint(frame: Frame, over: CanvasRenderingContext2D): void {
    const { gl } = this;
    over.clearRect(0, 0, frame.width, frame.height);
    drawFolds(over, frame);
    const width = Math.max(1, Math.round(frame.width * frame.ratio));
    const height = Math.max(1, Math.round(frame.height * frame.ratio));
    if (gl.canvas.width !== width || gl.canvas.height !== height) {
      gl.canvas.width = width;
      gl.canvas.height = height;
    }
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.activeTexture(gl.TEXTURE2);
    this.arena.hold(frame.placements);
    if (this.arena.count === 0) return;
    gl.useProgram(this.program);
    this.place(frame);
    this.mark(frame.marks);
    this.uniforms(frame, width, height);
    gl.activeTexture(gl.TEXTURE2);
    gl.bindTexture(gl.TEXTURE_2D, this.arena.texture);
    this.describe(this.arena.count);
    this.draw(frame);
  }

  /** Draws what is in the window, tile by tile: without a GPU, each vertex costs. */
  private draw(frame: Frame): void {
    const { gl } = this;
    const end = frame.start + frame.width * frame.unit;
    this.rectangles = 0;
    for (const { drawn } of frame.placements) {
      const slot = this.arena.slotOf(drawn);
      const [first, count] = inWindow(drawn, frame.start, end);
      if (!slot || count === 0) continue;
      gl.drawElements(gl.TRIANGLES, count * 6, gl.UNSIGNED_INT, (slot.first + first) * 6 * 4);
      this.rectangles += count;
    }
  }

  dispose(): void {
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }

  /** Two triangles for each rectangle: which of its four corners they have. */
  private describe(count: number): void {
    const { gl } = this;
    gl.bindVertexArray(this.vertices);
    if (count <= this.described) return;
    this.described = Math.ceil(count * 1.5);
    const corners = new Uint32Array(this.described * 6);
    for (let each = 0; each < this.described; each++) {
      const [at, first] = [each * 6, each * 4];
      corners[at] = first;
      corners[at + 1] = corners[at + 3] = first + 1;
      corners[at + 2] = corners[at + 4] = first + 2;
      corners[at + 5] = first + 3;
    }
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.corners);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, corners, gl.STATIC_DRAW);
  }

  /** Writes where each lane is: 8 numbers; those of tiles off screen have no height. */
  private place(frame: Frame): void {
    const { gl } = this;
    const rows = Math.max(1, Math.ceil(this.arena.lanes / LANES_ACROSS));
    const size = rows * LANES_ACROSS * 8;
    if (this.texels.length !== size) this.texels = new Float32Array(size);
    else this.texels.fill(0);
    for (const placement of frame.placements) this.placeOne(placement, frame.ratio);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, this.lanes);
    // While the window moves in time, no lane moves.
    if (isSame(this.texels, this.placed)) return;
    this.placed = this.texels.slice();
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA32F, LANES_ACROSS * 2, rows, 0, gl.RGBA, gl.FLOAT, this.texels);
  }

  private placeOne(
    { drawn, rows, y, pitch, height, hole, isSpans, isHost, isSparse }: Placement,
    ratio: number,
  ): void {
    const first = this.arena.slotOf(drawn)?.lane;
    if (first === undefined) return;
    const flags = (isSpans ? 1 : 0) + (isHost ? 2 : 0);
    const [start, end] = hole ?? [0, 0];
    for (let row = 0; row < rows; row++) {
      const at = (first + row) * 8;
      this.texels.set([(y + row * pitch) * ratio, height * ratio, flags, isSparse ? FAINTEST : 0], at);
      if (hole) this.texels.set([...halves(start), ...halves(end)], at + 4);
    }
  }

  private mark(marks: Marks): void {
    const { gl } = this;
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, this.marks);
    if (this.marked === marks.of) return;
    this.marked = marks.of;
    const rows = Math.max(1, Math.ceil(marks.of.length / MARKS_ACROSS));
    const texels = new Uint8Array(rows * MARKS_ACROSS);
    texels.set(marks.of);
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R8UI, MARKS_ACROSS, rows, 0, gl.RED_INTEGER, gl.UNSIGNED_BYTE, texels);
  }

  private uniforms(frame: Frame, width: number, height: number): void {
    const { gl } = this;
    const { rgb } = frame.palette;
    const period = HATCH * frame.ratio;
    gl.uniform1i(this.at("lanes"), 0);
    gl.uniform1i(this.at("marks"), 1);
    gl.uniform1i(this.at("rectangles"), 2);
    gl.uniform2f(this.at("start"), ...halves(frame.start));
    gl.uniform1f(this.at("scale"), frame.ratio / frame.unit);
    gl.uniform2f(this.at("size"), width, height);
    gl.uniform1f(this.at("scroll"), frame.scroll * frame.ratio);
    gl.uniform1f(this.at("ratio"), frame.ratio);
    // The hatching moves with the time it lies on.
    gl.uniform1f(this.at("hatch"), (((frame.start / frame.unit) * frame.ratio) % period) + period + height);
    gl.uniform1i(this.at("dims"), frame.marks.dims ? 1 : 0);
    gl.uniform1i(this.at("colours"), frame.marks.colours ? 1 : 0);
    gl.uniform3fv(
      this.at("palette"),
      flat([rgb.compute, rgb.hidden, rgb.exposed, rgb.copy, rgb.control, rgb.host]),
    );
    gl.uniform3fv(this.at("changed"), flat([rgb.bad, rgb.good, rgb.accent, rgb.control]));
    gl.uniform3f(this.at("stripe"), ...rgb.bg);
  }

  private at(name: string): WebGLUniformLocation | null {
    let found = this.places.get(name);
    if (found === undefined) this.places.set(name, (found = this.gl.getUniformLocation(this.program, name)));
    return found;
  }
}

function isSame(one: Float32Array, other: Float32Array): boolean {
  return one.length === other.length && one.every((value, at) => value === other[at]);
}

/** The nearest f32, and what is left of it. */
function halves(time: number): [number, number] {
  const nearest = Math.fround(time);
  return [nearest, time - nearest];
}

function flat(colours: Colour[]): Float32Array {
  return Float32Array.from(colours.flat());
}

function texture(gl: WebGL2RenderingContext): WebGLTexture {
  const made = gl.createTexture() as WebGLTexture;
  gl.bindTexture(gl.TEXTURE_2D, made);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE);
  return made;
}

function linked(gl: WebGL2RenderingContext): WebGLProgram {
  const program = gl.createProgram() as WebGLProgram;
  const logs: string[] = [];
  for (const [kind, text] of [
    [gl.VERTEX_SHADER, VERTEX],
    [gl.FRAGMENT_SHADER, FRAGMENT],
  ] as const) {
    const shader = gl.createShader(kind) as WebGLShader;
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    logs.push(gl.getShaderInfoLog(shader) ?? "");
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS))
    throw new Error(`the shaders do not work here: ${logs.join(" ")}${gl.getProgramInfoLog(program)}`);
  return program;
}
