"use strict";
// Draws the meshes of a report, each in its own canvas, with one camera for all of them.
// The page holds what is drawn: a description (JSON) and the arrays it names (gzip, base64).
// The shaders stand in _shaders.js, which comes first; _controls.js, which comes last, starts it.

const ARRAY_TYPES = { Uint8Array, Int8Array, Uint16Array, Uint32Array };

/** The arrays of the page, by name. */
async function unpack(description, base64) {
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const arrays = {};
  for (const [name, { type, offset, length }] of Object.entries(description)) {
    arrays[name] = new ARRAY_TYPES[type](buffer, offset, length);
  }
  return arrays;
}

/** One color for each error, from the scale of the page. */
function errorColors(levels, ramp) {
  const colors = new Uint8Array(3 * levels.length);
  levels.forEach((level, i) => colors.set(ramp.subarray(3 * level, 3 * level + 3), 3 * i));
  return colors;
}

function makeProgram(gl) {
  const program = gl.createProgram();
  const sources = { VERTEX_SHADER, FRAGMENT_SHADER };
  for (const [kind, source] of Object.entries(sources)) {
    const shader = gl.createShader(gl[kind]);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
    throw new Error(gl.getProgramInfoLog(program) || "the shaders did not compile");
  }
  return program;
}

/** A mesh on a canvas; draws itself as the camera sees it. */
class View {
  constructor(canvas, mesh, scene) {
    Object.assign(this, { canvas, mesh, scene });
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => this.upload());
    this.gl = canvas.getContext("webgl2", { antialias: true, alpha: true });
    if (!this.gl) throw new Error("this browser offers no WebGL 2");
    this.upload();
  }

  upload() {
    const { gl, mesh } = this;
    const program = makeProgram(gl);
    gl.useProgram(program);
    this.uniform = (name) => gl.getUniformLocation(program, name);
    for (const name of ["DEPTH_TEST", "CULL_FACE", "POLYGON_OFFSET_FILL"]) gl.enable(gl[name]);
    this.attribute(0, mesh.position, gl.UNSIGNED_SHORT);
    if (mesh.normal) this.attribute(1, mesh.normal, gl.BYTE);
    if (mesh.face) this.buffer(gl.ELEMENT_ARRAY_BUFFER, mesh.face);
    this.colors = {};
    for (const [mode, array] of Object.entries(mesh.colors)) {
      this.colors[mode] = this.buffer(gl.ARRAY_BUFFER, array);
    }
    this.setLight();
  }

  buffer(target, array) {
    const { gl } = this;
    const buffer = gl.createBuffer();
    gl.bindBuffer(target, buffer);
    gl.bufferData(target, array, gl.STATIC_DRAW);
    return buffer;
  }

  attribute(location, array, type) {
    this.buffer(this.gl.ARRAY_BUFFER, array);
    this.gl.enableVertexAttribArray(location);
    this.gl.vertexAttribPointer(location, 3, type, true, 0, 0);
  }

  setLight() {
    const { gl, scene } = this;
    gl.uniform1i(this.uniform("isCloud"), this.mesh.face ? 0 : 1);
    gl.uniform1f(this.uniform("distance"), scene.distance);
    for (const name of ["ambient", "back"]) gl.uniform1f(this.uniform(name), scene.light[name]);
    for (const name of ["key", "fill"]) gl.uniform4fv(this.uniform(name), scene.light[name]);
  }

  /** Scale and shift from the image plane to the canvas; at zoom 1 the scene fits in. */
  frame(camera) {
    const { center, half, margin } = this.scene;
    const aspect = this.canvas.clientWidth / this.canvas.clientHeight;
    const scale = camera.zoom * margin * Math.min(aspect / half[0], 1 / half[1]);
    const x = scale / aspect, y = scale;
    return [x, y, camera.pan[0] - center[0] * x, camera.pan[1] - center[1] * y];
  }

  draw(camera, mode) {
    const { gl, mesh } = this;
    const height = this.clear();
    this.setColor(mode);
    const frame = this.frame(camera);
    gl.uniform1f(this.uniform("pointSize"), mesh.diameter * frame[1] * height / 2);
    gl.uniform4fv(this.uniform("frame"), frame);
    gl.uniformMatrix3fv(this.uniform("rotation"), true, camera.rotation);
    if (mesh.face) this.drawTriangles();
    else gl.drawArrays(gl.POINTS, 0, mesh.position.length / 3);
    this.canvas.dataset.drawn = (mesh.face || mesh.position).length / 3;
  }

  /** Make the canvas as fine as the screen, and empty; returns its height in pixels. */
  clear() {
    const { gl, canvas } = this;
    const density = Math.min(window.devicePixelRatio || 1, 3);
    const width = Math.max(1, Math.round(canvas.clientWidth * density));
    const height = Math.max(1, Math.round(canvas.clientHeight * density));
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    gl.viewport(0, 0, width, height);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    return height;
  }

  setColor(mode) {
    const { gl, scene } = this;
    const colors = this.colors[mode];
    if (colors) {
      gl.bindBuffer(gl.ARRAY_BUFFER, colors);
      gl.enableVertexAttribArray(2);
      gl.vertexAttribPointer(2, 3, gl.UNSIGNED_BYTE, true, 0, 0);
    } else {
      gl.disableVertexAttribArray(2);
      gl.vertexAttrib3fv(2, scene.clay);
    }
    gl.uniform1f(this.uniform("softness"), colors ? scene.light.softness : 0);
  }

  drawTriangles() {
    const { gl, mesh: { face } } = this;
    const type = face instanceof Uint32Array ? gl.UNSIGNED_INT : gl.UNSIGNED_SHORT;
    // Insides lie a little behind, or they would show through along the outline.
    for (const [hidden, offset] of [[gl.FRONT, 2], [gl.BACK, 0]]) {
      gl.cullFace(hidden);
      gl.polygonOffset(offset, offset);
      gl.drawElements(gl.TRIANGLES, face.length, type, 0);
    }
  }
}

/** What all views share: where they are seen from. */
class Camera {
  constructor(home) {
    this.home = home;
    this.reset();
  }

  reset() {
    Object.assign(this, { rotation: this.home, zoom: 1, pan: [0, 0] });
  }

  /** Turn about the vertical and the horizontal axis of the screen, in radians. */
  turn(right, down) {
    const [c, s, d, t] = [Math.cos(right), Math.sin(right), Math.cos(down), Math.sin(down)];
    const step = [c, 0, s, t * s, d, -t * c, -d * s, t, d * c];
    const old = this.rotation;
    this.rotation = old.map((_, i) => {
      const row = i - i % 3, column = i % 3;
      return [0, 1, 2].reduce((sum, k) => sum + step[row + k] * old[3 * k + column], 0);
    });
  }

  /** Zoom so that what lies at a place of the canvas, from -1 to 1, stays there. */
  zoomAt(place, factor) {
    const zoom = Math.min(Math.max(this.zoom * factor, 0.2), 40);
    this.pan = this.pan.map((pan, i) => place[i] + (pan - place[i]) * zoom / this.zoom);
    this.zoom = zoom;
  }
}
