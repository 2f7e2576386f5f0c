"use strict";
// WebGL 2 views of the meshes of a report: one canvas each, one camera for all.
// The page holds the scene as JSON and the buffers that it names (gzip, base64).
// shaders.js comes first; controls.js, which comes last, starts the page.

const ARRAY_TYPES = { Uint8Array, Int8Array, Uint16Array, Uint32Array };

/** Return the typed arrays of the page by name. */
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

/** Map errors to colors of the error colormap, whose last color is that of `end`. */
function errorColors(errors, end, ramp) {
  const colors = new Uint8Array(3 * errors.length);
  for (let i = 0; i < errors.length; i++) {
    const level = 3 * Math.min(255, Math.round(255 * errors[i] / end));
    for (let k = 0; k < 3; k++) colors[3 * i + k] = ramp[level + k];
  }
  return colors;
}

/** Return the mean of the numbers of an array. */
function meanOf(array) {
  let sum = 0;
  for (let i = 0; i < array.length; i++) sum += array[i];
  return sum / array.length;
}

/** Return index pairs of the edges of triangles; shared edges appear twice. */
function edgesOf(face) {
  const edges = new Uint32Array(2 * face.length);
  for (let i = 0; i < face.length; i++) {
    edges[2 * i] = face[i];
    edges[2 * i + 1] = face[i % 3 === 2 ? i - 2 : i + 1];
  }
  return edges;
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

/** One mesh or point cloud on a canvas. */
class View {
  constructor(canvas, mesh, index, scene) {
    Object.assign(this, { canvas, mesh, index, scene });
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
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    gl.depthFunc(gl.LEQUAL);
    this.attribute(0, mesh.position, gl.UNSIGNED_SHORT);
    if (mesh.origin) this.attribute(3, mesh.origin, gl.UNSIGNED_SHORT);
    if (mesh.normal) this.attribute(1, mesh.normal, gl.BYTE);
    if (mesh.face) this.faces = this.buffer(gl.ELEMENT_ARRAY_BUFFER, mesh.face);
    this.edges = null;
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

  /** Replace the colors of a mode, as after a change of the errors. */
  recolor(mode, array) {
    const { gl } = this;
    this.mesh.colors[mode] = array;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.colors[mode]);
    gl.bufferData(gl.ARRAY_BUFFER, array, gl.STATIC_DRAW);
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

  /** Return scale and shift from the image plane to the canvas; at zoom 1 the scene fits. */
  frame(camera) {
    const { center, half, margin } = this.scene;
    const aspect = this.canvas.clientWidth / this.canvas.clientHeight;
    const scale = camera.zoom * margin * Math.min(aspect / half[0], 1 / half[1]);
    const x = scale / aspect, y = scale;
    return [x, y, camera.pan[0] - center[0] * x, camera.pan[1] - center[1] * y];
  }

  draw(camera, { mode, wireframe, strength }) {
    const { gl, mesh } = this;
    const height = this.clear();
    this.setColor(mode);
    const frame = this.frame(camera);
    gl.uniform1f(this.uniform("pointSize"), mesh.diameter * frame[1] * height / 2);
    gl.uniform4fv(this.uniform("frame"), frame);
    gl.uniformMatrix3fv(this.uniform("rotation"), true, camera.rotation);
    gl.uniform1f(this.uniform("strength"), mesh.origin ? strength : 1);
    if (mesh.face) this.drawTriangles();
    if (mesh.face && wireframe) this.drawEdges();
    if (!mesh.face) gl.drawArrays(gl.POINTS, 0, mesh.position.length / 3);
    this.canvas.dataset.drawn = (mesh.face || mesh.position).length / 3;
  }

  /** Resize the canvas to the screen's pixel density and clear it; returns its height in pixels. */
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
    // Back faces are offset away from the camera, or they would show along silhouettes.
    for (const [hidden, offset] of [[gl.FRONT, 2], [gl.BACK, 0]]) {
      gl.cullFace(hidden);
      gl.polygonOffset(offset, offset);
      gl.drawElements(gl.TRIANGLES, face.length, type, 0);
    }
  }

  drawEdges() {
    const { gl } = this;
    const count = 2 * this.mesh.face.length;
    if (!this.edges) this.edges = this.buffer(gl.ELEMENT_ARRAY_BUFFER, edgesOf(this.mesh.face));
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.edges);
    gl.enable(gl.BLEND);
    gl.uniform1i(this.uniform("isLine"), 1);
    gl.drawElements(gl.LINES, count, gl.UNSIGNED_INT, 0);
    gl.uniform1i(this.uniform("isLine"), 0);
    gl.disable(gl.BLEND);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.faces);
  }

  /** Return the vertex in front within a few pixels of a point from -1 to 1, or -1. */
  pick(camera, [x, y], strength) {
    const { position, origin } = this.mesh;
    const [sx, sy, tx, ty] = this.frame(camera);
    const r = camera.rotation, { distance } = this.scene;
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const from = origin || position, t = origin ? strength : 1;
    const at = (k) => 2 * (from[k] + t * (position[k] - from[k])) / 65535 - 1;
    let best = -1, least = Infinity;
    for (let i = 0; i < position.length; i += 3) {
      const a = at(i), b = at(i + 1), c = at(i + 2);
      const depth = distance - (r[6] * a + r[7] * b + r[8] * c);
      const dx = width / 2 * (sx * (r[0] * a + r[1] * b + r[2] * c) / depth + tx - x);
      const dy = height / 2 * (sy * (r[3] * a + r[4] * b + r[5] * c) / depth + ty - y);
      const pixels = Math.hypot(dx, dy);
      // Vertices in front win; of those at nearly the same depth, the nearest on the screen.
      const score = depth + 0.005 * pixels;
      if (pixels < 12 && score < least) [best, least] = [i / 3, score];
    }
    return best;
  }
}

/** Camera shared by all views. */
class Camera {
  constructor(home) {
    this.home = home;
    this.reset();
  }

  reset() {
    Object.assign(this, { rotation: this.home, zoom: 1, pan: [0, 0] });
  }

  /** Rotate about the vertical and the horizontal axis of the screen, in radians. */
  turn(right, down) {
    const [c, s, d, t] = [Math.cos(right), Math.sin(right), Math.cos(down), Math.sin(down)];
    const step = [c, 0, s, t * s, d, -t * c, -d * s, t, d * c];
    const old = this.rotation;
    this.rotation = old.map((_, i) => {
      const row = i - i % 3, column = i % 3;
      return [0, 1, 2].reduce((sum, k) => sum + step[row + k] * old[3 * k + column], 0);
    });
  }

  /** Zoom about a point of the canvas, in coordinates from -1 to 1. */
  zoomAt(place, factor) {
    const zoom = Math.min(Math.max(this.zoom * factor, 0.2), 40);
    this.pan = this.pan.map((pan, i) => place[i] + (pan - place[i]) * zoom / this.zoom);
    this.zoom = zoom;
  }
}
