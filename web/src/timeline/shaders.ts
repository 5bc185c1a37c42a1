/**
 * Shaders of the rectangles. Time becomes pixels here: differences of start's two halves are exact
 * near the window, so no rectangle is off by a pixel however long the capture is.
 *
 * Edges are not rounded: a pixel gets the share of each rectangle that covers it. Segments of a row
 * don't overlap, so shares are added (blending ONE, ONE) and areas stay true where thousands of
 * segments meet in one pixel.
 */

import { ACROSS } from "./instances";
import { DIM, FASTER, HATCH, HATCHED, MATCH, NEW, SLOWER } from "./painter";

export const LANES_ACROSS = 1024;
export const MARKS_ACROSS = 2048;

export const VERTEX = `#version 300 es
precision highp float;
precision highp int;
precision highp usampler2D;
uniform highp usampler2D rectangles;
uniform highp sampler2D lanes;
uniform usampler2D marks;
uniform vec2 start;
uniform float scale;
uniform vec2 size;
uniform float scroll;
uniform float ratio;
uniform bool dims;
uniform bool colours;
uniform vec3 changed[4];
flat out vec4 stack;
flat out vec4 limits;
flat out vec4 look;
flat out vec4 tint;
out float up;

float pixel(vec2 moment) {
  return ((moment.x - start.x) + (moment.y - start.y)) * scale;
}

void main() {
  // Where nothing is seen; what follows puts it in its place.
  gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
  int rectangle = gl_VertexID >> 2;
  ivec2 cell = ivec2((rectangle % ${ACROSS}) * 2, rectangle / ${ACROSS});
  vec4 time = uintBitsToFloat(texelFetch(rectangles, cell, 0));
  float x0 = pixel(time.xy);
  float x1 = pixel(time.zw);
  if (x1 <= 0.0 || x0 >= size.x) return;
  uvec4 rest = texelFetch(rectangles, cell + ivec2(1, 0), 0);
  uint op = rest.w;
  vec4 heights = vec4(rest.x & 0xffffu, rest.x >> 16, rest.y & 0xffffu, rest.y >> 16) / 65535.0;
  float whole = float(rest.z & 0xffffu) / 65535.0;
  int lane = int(rest.z >> 16);
  ivec2 at = ivec2((lane % ${LANES_ACROSS}) * 2, lane / ${LANES_ACROSS});
  vec4 place = texelFetch(lanes, at, 0);
  float top = place.x - scroll;
  if (place.y <= 0.0 || whole <= 0.0 || top >= size.y || top + place.y <= 0.0) return;
  vec4 hole = texelFetch(lanes, at + ivec2(1, 0), 0);
  bool spans = mod(place.z, 2.0) > 0.5;
  if (spans && x1 - x0 > 5.0 * ratio) x1 -= ratio;
  vec2 edges = clamp(vec2(x0, x1), -8.0, size.x + 8.0);
  vec2 across = vec2(floor(edges.x), max(ceil(edges.y), floor(edges.x) + 1.0));
  vec2 down = vec2(floor(top + 0.5), max(floor(top + place.y + 0.5), floor(top + 0.5) + 1.0));
  vec2 corner = vec2(float(gl_VertexID & 1), float((gl_VertexID >> 1) & 1));
  vec2 position = vec2(mix(across.x, across.y, corner.x), mix(down.x, down.y, corner.y));
  gl_Position = vec4(position.x / size.x * 2.0 - 1.0, 1.0 - position.y / size.y * 2.0, 0.0, 1.0);
  up = 1.0 - corner.y;
  stack = heights;
  limits = vec4(edges, vec2(pixel(hole.xy), pixel(hole.zw)));
  uint mark = op == 0xffffffffu ? 0u : texelFetch(marks, ivec2(int(op) % ${MARKS_ACROSS}, int(op) / ${MARKS_ACROSS}), 0).r;
  float shade = op == 0xffffffffu || !spans ? 0.0 : (float((op * 2654435761u) >> 24) / 255.0 - 0.5) * 0.16;
  float strength = dims && (mark & ${MATCH}u) == 0u ? ${DIM.toFixed(3)} : 1.0;
  look = vec4(whole, place.w, strength, place.z > 1.5 ? 1.0 : 0.0);
  tint = vec4(vec3(shade), 0.0);
  if (colours) {
    vec3 change = changed[3];
    if ((mark & ${SLOWER}u) != 0u) change = changed[0];
    if ((mark & ${FASTER}u) != 0u) change = changed[1];
    if ((mark & ${NEW}u) != 0u) change = changed[2];
    tint = vec4(change, 1.0);
  }
}
`;

export const FRAGMENT = `#version 300 es
precision highp float;
flat in vec4 stack;
flat in vec4 limits;
flat in vec4 look;
flat in vec4 tint;
in float up;
uniform vec3 palette[6];
uniform vec3 stripe;
uniform float hatch;
uniform float ratio;
out vec4 colour;

void main() {
  float left = gl_FragCoord.x - 0.5;
  float share = min(left + 1.0, limits.y) - max(left, limits.x);
  share = max(clamp(share, 0.0, 1.0), look.y);
  if (limits.w > limits.z && gl_FragCoord.x > limits.z && gl_FragCoord.x < limits.w) discard;
  if (up > look.x) discard;
  bool exposed = up > stack.y && up <= stack.z;
  vec3 found = up <= stack.x ? palette[0] : up <= stack.y ? palette[1] : up <= stack.z ? palette[2]
    : up <= stack.w ? palette[3] : look.w > 0.5 ? palette[5] : palette[4];
  found = tint.a > 0.5 ? tint.rgb : clamp(found + tint.rgb, 0.0, 1.0);
  if (exposed && mod(gl_FragCoord.x + hatch - gl_FragCoord.y, ${HATCH.toFixed(1)} * ratio) < ${HATCHED.toFixed(1)} * ratio) found = mix(found, stripe, 0.62);
  float alpha = share * look.z;
  // A share may be less than the screen's 256 steps tell apart: noise keeps the sum of many right.
  float noise = alpha < 0.999 ? fract(dot(vec3(gl_FragCoord.xy, limits.x), vec3(0.618, 0.755, 7.13))) - 0.5 : 0.0;
  colour = vec4(found * alpha, alpha) + noise / 255.0;
}
`;
